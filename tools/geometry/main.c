/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-geometry */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "print.h"
#include "usage.h"

enum { OPTION_VERSION = 256, OPTION_C, OPTION_INI, OPTION_FORM };
enum { EXIT_BAD = 1, EXIT_USAGE = 2, EXIT_UNMAPPABLE = 3 };

struct options {
	struct sizes_options sizes;
	struct rule rule; /* in_flight and max_rewind for all rules */
	uint32_t dtype;
	void (*print)(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);
};

static const char usage_text[] =
	"usage: swakv-geometry [OPTION]... CONFIG...\n"
	"\n"
	"Reads Hugging Face config.json files (\"-\": standard input) and says which layer groups each model has, and "
	"what\n"
	"they cost in pages.\n"
	"\n"
	"  -P, --page-tokens N   tokens a page: 16 to 256, a power of two (default: 128)\n"
	"  -t, --max-seq N       tokens a sequence may reach (default: the file's max_position_embeddings)\n"
	"  -a, --max-advance N   also for steps of at most N tokens; again for more of them (default: 1)\n"
	"  -f, --in-flight N     steps prepared whose end the broker has not seen (default: 2)\n"
	"  -r, --max-rewind N    tokens that may be taken back (default: 0)\n"
	"      --size SIZE       say how many sequences fit in a pool of SIZE for K and V together (\"64G\")\n"
	"  -e, --extent SIZE     its extents (default: as the broker takes them)\n"
	"  -l, --largest-page SIZE\n"
	"                        split groups with larger pages into equal parts\n"
	"  -d, --dtype TYPE      f16, bf16, f32 or fp8 instead of the file's\n"
	"      --form FORM       pages split into K and V, or joined (default: split; joined where there is no V)\n"
	"  -j, --json            JSON, an object for each file\n"
	"      --c               as a worker declares it: initialisers in C\n"
	"      --ini             as a broker is told it: a [model] section\n"
	"  -B, --max-batch N     sequences at a time, for --c and --ini: 1 to 4096 (default: 16)\n"
	"  -h, --help            this text\n"
	"      --version         the version\n"
	"\n"
	"Exit status: 0 all were shown, 1 a file that cannot be read or with wrong values, 2 wrong usage,\n"
	"3 a model that cannot be mapped; of several files the first that is not 0.\n";

static bool parse_count(const char *option, const char *text, int64_t least, int64_t *out)
{
	uint64_t n;

	if (!usage_number(option, text, (uint64_t)least, INT32_MAX, &n))
		return false;
	*out = (int64_t)n;
	return true;
}

static bool add_rule(struct options *o, const char *text)
{
	struct sizes_options *z = &o->sizes;

	if (z->n_rules == SIZES_MAX_RULES)
		return usage_error("too many: --max-advance", text);
	return parse_count("--max-advance", text, 1, &z->rules[z->n_rules++].max_advance);
}

static bool set_form(struct options *o,
		     void (*print)(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z))
{
	if (o->print != print_text && o->print != print)
		return usage_error("only one of", "--json, --c and --ini");
	o->print = print;
	return true;
}

static bool set_page_form(struct options *o, const char *text)
{
	NAMES(forms, WIRE_FORM_COUNT, WIRE_FORM_NAMES);

	for (uint32_t i = 0; i < WIRE_FORM_COUNT; i++)
		if (strcmp(forms[i], text) == 0)
			o->sizes.form = i + 1;
	return o->sizes.form || usage_error("--form needs split or joined, not", text);
}

static bool apply(struct options *o, int option, const char *value)
{
	uint64_t n;

	switch (option) {
	case 'P':
		if (!usage_power_of_two("--page-tokens", value, 16, 256, &n))
			return false;
		o->sizes.page_tokens = (uint32_t)n;
		return true;
	case 't':
		return parse_count("--max-seq", value, 1, &o->sizes.max_seq);
	case 'a':
		return add_rule(o, value);
	case 'f':
		return parse_count("--in-flight", value, 1, &o->rule.in_flight);
	case 'r':
		return parse_count("--max-rewind", value, 0, &o->rule.max_rewind);
	case 'p':
		return usage_bytes("--size", value, 1, INT64_MAX, &o->sizes.pool);
	case 'e':
		return usage_bytes("--extent", value, 1, INT64_MAX, &o->sizes.extent);
	case 'l':
		return usage_bytes("--largest-page", value, 1, INT64_MAX, &o->sizes.largest_page);
	case 'd':
		o->dtype = hf_dtype_find(value);
		return o->dtype || usage_error("--dtype needs f16, bf16, f32 or fp8, not", value);
	case OPTION_FORM:
		return set_page_form(o, value);
	case 'B':
		if (!usage_number("--max-batch", value, 1, WIRE_MAX_BATCH, &n))
			return false;
		o->sizes.max_batch = (uint32_t)n;
		return true;
	case 'j':
		return set_form(o, print_json);
	case OPTION_C:
		return set_form(o, print_c);
	case OPTION_INI:
		return set_form(o, print_ini);
	case 'h':
		usage_help(usage_text);
	case OPTION_VERSION:
		usage_version();
	default:
		return usage_unknown();
	}
}

/* Options that would be ignored without a word. */
static bool check_together(const struct options *o)
{
	const struct sizes_options *z = &o->sizes;
	bool paste = o->print == print_c || o->print == print_ini;

	if (z->pool && paste)
		return usage_error("nothing is counted in a pool with --c and --ini, so they do not go with", "--size");
	if (z->extent && !z->pool)
		return usage_error("extents are those of a pool, so --size is needed by", "--extent");
	if (z->extent > z->pool / 2)
		return usage_error("an extent is no larger than a half of the pool, so too much is", "--extent");
	if (z->max_batch && !paste)
		return usage_error("only --c and --ini say how many sequences, so one of them is needed by",
				   "--max-batch");
	return true;
}

/* The files are what is left, from optind on. False after a complaint. */
static bool parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "page-tokens", required_argument, NULL, 'P' },
		{ "max-seq", required_argument, NULL, 't' },
		{ "max-advance", required_argument, NULL, 'a' },
		{ "in-flight", required_argument, NULL, 'f' },
		{ "max-rewind", required_argument, NULL, 'r' },
		{ "size", required_argument, NULL, 'p' },
		{ "pool", required_argument, NULL, 'p' }, /* as it was called first */
		{ "extent", required_argument, NULL, 'e' },
		{ "largest-page", required_argument, NULL, 'l' },
		{ "dtype", required_argument, NULL, 'd' },
		{ "json", no_argument, NULL, 'j' },
		{ "form", required_argument, NULL, OPTION_FORM },
		{ "c", no_argument, NULL, OPTION_C },
		{ "ini", no_argument, NULL, OPTION_INI },
		{ "max-batch", required_argument, NULL, 'B' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ 0 },
	};
	uint32_t standard = 0;
	int c;

	while ((c = getopt_long(argc, argv, "P:t:a:f:r:p:e:l:d:jB:h", longs, NULL)) != -1)
		if (!apply(o, c, optarg))
			return false;
	for (int i = optind; i < argc; i++)
		standard += strcmp(argv[i], "-") == 0;
	if (standard > 1)
		return usage_error("standard input can be read once:", "-");
	if (optind == argc)
		return usage_error("which file? after", argv[argc - 1]);
	return check_together(o);
}

static void finish_rules(struct options *o)
{
	struct sizes_options *z = &o->sizes;

	if (!z->max_batch)
		z->max_batch = 16;
	z->paste_rule = z->n_rules - 1;
	if (z->n_rules == 1)
		z->rules[z->n_rules++].max_advance = 1;
	for (uint32_t i = 0; i < z->n_rules; i++) {
		z->rules[i].in_flight = o->rule.in_flight;
		z->rules[i].max_rewind = o->rule.max_rewind;
	}
}

/* Returns the exit status of this file alone; @gap goes before what it prints. */
static int show(const struct options *o, const char *path, const char *gap)
{
	static struct hf_config config;
	static struct sizes sizes;
	bool paste = o->print == print_c || o->print == print_ini;
	char why[HF_WHY];
	int r = hf_config_read(&config, path, o->dtype, why, sizeof(why));

	if (r) {
		fprintf(stderr, "swakv-geometry: %s\n", why);
		return r == HF_UNMAPPABLE ? EXIT_UNMAPPABLE : EXIT_BAD;
	}
	r = sizes_make(&sizes, &config, &o->sizes, why, sizeof(why));
	if (r == 0 && paste && !sizes.options.max_seq) {
		snprintf(why, sizeof(why), "the file does not say how long a sequence may get: say --max-seq");
		r = HF_BAD;
	}
	if (r) {
		fprintf(stderr, "swakv-geometry: %s: %s\n", path, why);
		return r == HF_UNMAPPABLE ? EXIT_UNMAPPABLE : EXIT_BAD;
	}
	fputs(o->print == print_json ? "" : gap, stdout);
	o->print(stdout, path, &config, &sizes);
	for (uint32_t i = 0; paste && i < config.n_notes; i++)
		fprintf(stderr, "swakv-geometry: %s: note: %s\n", path, config.notes[i]);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = { .sizes = { .page_tokens = 128, .n_rules = 1 }, .rule.in_flight = 2, .print = print_text };
	int status = EXIT_SUCCESS, r;
	const char *gap = "";

	usage_begin("swakv-geometry", EXIT_BAD);
	if (!parse_options(&o, argc, argv))
		return EXIT_USAGE;
	finish_rules(&o);
	for (int i = optind; i < argc; i++) {
		r = show(&o, argv[i], gap);
		if (r == EXIT_SUCCESS)
			gap = "\n";
		else if (status == EXIT_SUCCESS)
			status = r;
	}
	return status;
}
