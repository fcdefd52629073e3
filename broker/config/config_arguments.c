/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_arguments.c - options: one for each key of the broker and its pool, and
 * the few that are not keys
 *
 * The list of getopt_long() is made from the table of keys, so a key is
 * an option with dashes for underscores; the pool's name is --pool.
 */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "cleanup.h"
#include "config.h"
#include "saved_limits.h"

enum { OPTION_CHECK = 'K', OPTION_DRY_RUN = 'D', OPTION_VERSION = 'V', OPTION_KEY = 1000 };
enum { MAX_OPTIONS = 64, OPTION_NAME = 32 };

static const struct option plain_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "ready-fd", required_argument, NULL, 'n' },
	{ "check-config", no_argument, NULL, OPTION_CHECK },
	{ "dry-run", no_argument, NULL, OPTION_DRY_RUN },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPTION_VERSION },
};
enum { N_PLAIN = sizeof(plain_options) / sizeof(plain_options[0]) };

struct option_table {
	struct option all[MAX_OPTIONS];
	char names[MAX_OPTIONS][OPTION_NAME];
};

static void option_name(const struct config_key *key, char name[OPTION_NAME])
{
	const char *base = key->name;

	if (key->section == SECTION_POOL && !strcmp(base, "name"))
		base = "pool";
	snprintf(name, OPTION_NAME, "%s", base);
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
}

static void option_table_init(struct option_table *t)
{
	const struct config_key *key;
	size_t n = N_PLAIN;

	memset(t, 0, sizeof(*t));
	memcpy(t->all, plain_options, sizeof(plain_options));
	for (size_t i = 0; (key = config_key_at(i)) && n + 1 < MAX_OPTIONS; i++) {
		if (key->section == SECTION_MODEL)
			continue;
		option_name(key, t->names[n]);
		t->all[n] = (struct option){ t->names[n], required_argument, NULL, OPTION_KEY + (int)i };
		n++;
	}
}

static int take_key_option(struct config *c, int index, const char *value, struct config_error *e)
{
	const struct config_key *key = config_key_at((size_t)index);
	void *target = key->section == SECTION_POOL ? (void *)&c->pool : (void *)c;
	char allowed[512], name[OPTION_NAME];

	if (config_key_store(key, target, value, allowed, sizeof(allowed)) == 0)
		return 0;
	option_name(key, name);
	return config_fail(e, "command line: --%s=\"%s\"; allowed: %s", name, value, allowed);
}

static int take_ready_fd(struct config_arguments *a, const char *value, struct config_error *e)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (end == value || *end || n < 3 || n > 1 << 20)
		return config_fail(
			e, "command line: --ready-fd=\"%s\"; allowed: the number of an open descriptor, 3 or more",
			value);
	a->ready_fd = (int)n;
	return 0;
}

static int take_plain_option(int option, struct config_arguments *a, struct config_error *e)
{
	switch (option) {
	case 'c':
		if (!optarg[0])
			return config_fail(e, "command line: --config=\"\"; allowed: the path of a file");
		if (strlen(optarg) >= sizeof(a->file))
			return config_fail(e, "command line: --config: the path is longer than %zu bytes",
					   sizeof(a->file) - 1);
		strcpy(a->file, optarg);
		return 0;
	case 'n':
		return take_ready_fd(a, optarg, e);
	case OPTION_CHECK:
		a->check_config = true;
		return 0;
	case OPTION_DRY_RUN:
		a->dry_run = true;
		return 0;
	case OPTION_VERSION:
		a->version = true;
		return 0;
	default:
		a->help = true;
		return 0;
	}
}

/* One walk over the options: keys only when @c is given, the plain ones only when it is not. */
static int walk(struct config *c, int argc, char **argv, struct config_arguments *a, struct config_error *e)
{
	struct option_table table;
	int option, r = 0;

	option_table_init(&table);
	optind = 0; /* start again: glibc forgets its state */
	opterr = 0;
	while (r == 0 && (option = getopt_long(argc, argv, ":c:n:h", table.all, NULL)) != -1) {
		if (option == ':')
			return config_fail(e, "command line: \"%s\" needs a value", argv[optind - 1]);
		if (option == '?')
			return config_fail(e, "command line: unknown option \"%s\"; see --help", argv[optind - 1]);
		if (option >= OPTION_KEY && c)
			r = take_key_option(c, option - OPTION_KEY, optarg, e);
		else if (option < OPTION_KEY && !c)
			r = take_plain_option(option, a, e);
	}
	if (r == 0 && optind < argc)
		return config_fail(e, "command line: \"%s\" is not an option; see --help", argv[optind]);
	return r;
}

int config_parse_arguments(struct config *c, int argc, char **argv, struct config_arguments *a, struct config_error *e)
{
	AUTO_FCLOSE FILE *file = NULL;
	int r;

	*a = (struct config_arguments){ .ready_fd = -1 };
	r = walk(NULL, argc, argv, a, e);
	if (r < 0)
		return r;
	if (a->help || a->version)
		return 0;
	if (a->file[0]) {
		file = fopen(a->file, "re");
		if (!file)
			return config_fail(e, "%s: cannot be opened: %s", a->file, strerror(errno));
		r = config_read(c, file, a->file, e);
		if (r < 0)
			return r;
	}
	r = walk(c, argc, argv, a, e);
	if (r == 0)
		r = config_finish(c, a->file, e);
	return r < 0 ? r : saved_limits_read(c, e);
}

#define HELP_COLUMN 27
#define HELP_WIDTH  120 /* of a line */

/* Writes @text at @column, on a new line where it does not fit; returns the column behind it. */
static int print_word(FILE *out, int column, const char *text)
{
	if (column > HELP_COLUMN && column + 1 + (int)strlen(text) <= HELP_WIDTH)
		return column + fprintf(out, " %s", text);
	if (column > HELP_COLUMN) {
		fputc('\n', out);
		column = 0;
	}
	return column + fprintf(out, "%*s%s", HELP_COLUMN - column, "", text);
}

/* A key's help, with the default that stands in brackets at its end as the tools write it. */
static void print_help(FILE *out, int column, const char *help)
{
	size_t n = strcspn(help, "[");
	char text[256], *rest = NULL;

	if (column >= HELP_COLUMN - 1) { /* a long option has a line to itself */
		fputc('\n', out);
		column = 0;
	}
	snprintf(text, sizeof(text), "%.*s", (int)n, help);
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		column = print_word(out, column, word);
	if (help[n]) {
		snprintf(text, sizeof(text), "(default: %.*s)", (int)strcspn(help + n + 1, "]"), help + n + 1);
		print_word(out, column, text);
	}
	fputc('\n', out);
}

void config_usage(FILE *out)
{
	const struct config_key *key;
	char name[OPTION_NAME];

	fputs("usage: swakvd [-c FILE] [OPTION]...\n\n"
	      "Serves the pages of one KV-cache pool to workers on this machine. Runs in the foreground.\n\n"
	      "  -c, --config FILE        read this INI file first; options override it\n"
	      "  -n, --ready-fd FD        write a line to FD when ready, then close it\n"
	      "      --check-config       read the configuration and stop\n"
	      "      --dry-run            say what would be allocated, and stop\n"
	      "  -h, --help               this text\n"
	      "      --version            the version\n\n",
	      out);
	for (size_t i = 0; (key = config_key_at(i)); i++) {
		if (key->section == SECTION_MODEL)
			continue;
		option_name(key, name);
		print_help(out, fprintf(out, "      --%s %s", name, key->argument), key->help);
	}
	fputs("\nExit status: 0 stopped in order, 1 failure, 2 wrong usage or configuration, 3 name or socket in use,\n"
	      "4 device or backend not available, 5 pool could not be allocated or a model does not fit,\n"
	      "6 crash, 7 broken state of its own.\n",
	      out);
}
