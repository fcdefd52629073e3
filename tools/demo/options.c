/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "exits.h"
#include "number.h"
#include "usage.h"

#define TOOL "swakv-demo-worker"

enum {
	OPT_POOL = 256,
	OPT_SCALE,
	OPT_DTYPE,
	OPT_FORM,
	OPT_PAGE_TOKENS,
	OPT_ROWS,
	OPT_SKIP,
	OPT_MAX_SEQ,
	OPT_MAX_DECODE,
	OPT_TIME_LIMIT,
	OPT_SEED,
	OPT_NAME,
	OPT_POISON,
	OPT_LAG,
	OPT_LOOP,
	OPT_REPORT,
	OPT_VERSION,
};

static const struct option table[] = {
	{ "broker", required_argument, NULL, 'b' },
	{ "socket", required_argument, NULL, 's' },
	{ "pool", required_argument, NULL, OPT_POOL },
	{ "preset", required_argument, NULL, 'p' },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "dtype", required_argument, NULL, OPT_DTYPE },
	{ "form", required_argument, NULL, OPT_FORM },
	{ "page-tokens", required_argument, NULL, OPT_PAGE_TOKENS },
	{ "trace", required_argument, NULL, 't' },
	{ "rows", required_argument, NULL, OPT_ROWS },
	{ "skip", required_argument, NULL, OPT_SKIP },
	{ "max-batch", required_argument, NULL, 'B' },
	{ "batch", required_argument, NULL, 'B' }, /* as it was called first */
	{ "max-seq", required_argument, NULL, OPT_MAX_SEQ },
	{ "max-decode", required_argument, NULL, OPT_MAX_DECODE },
	{ "time-limit", required_argument, NULL, OPT_TIME_LIMIT },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "poison", no_argument, NULL, OPT_POISON },
	{ "lag", required_argument, NULL, OPT_LAG },
	{ "loop", no_argument, NULL, OPT_LOOP },
	{ "report", required_argument, NULL, OPT_REPORT },
	{ "json", no_argument, NULL, 'j' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

static const char usage_text[] =
	"usage: swakv-demo-worker --preset NAME [OPTION]...\n"
	"\n"
	"Decodes the rows of a serving trace against a swakv broker, with K and V made up\n"
	"by a formula, and checks every attention result against dense attention in double\n"
	"precision.\n"
	"\n"
	"  -b, --broker NAME     which broker (default: $SWAKV_BROKER, else \"default\")\n"
	"  -s, --socket PATH     or the path of its workers' socket\n"
	"      --pool NAME       pool of the broker (default: its only one)\n"
	"  -p, --preset NAME     model geometry, see below\n"
	"      --scale N         divide layers and heads by N\n"
	"      --dtype TYPE      f16, bf16 or fp8 (default: the preset's)\n"
	"      --form FORM       split or joined pages (default: the preset's)\n"
	"      --page-tokens N   tokens a page: 16, 32, 64, 128 or 256 (default: 128)\n"
	"  -t, --trace FILE      CSV file TIMESTAMP,ContextTokens,GeneratedTokens\n"
	"                        (default: the installed sample)\n"
	"      --rows N          take at most N rows\n"
	"      --skip N          leave out the first N rows\n"
	"      --loop            begin again at the end of the rows; needs --time-limit or SIGTERM to end\n"
	"  -B, --max-batch N     sequences at a time (default: 8)\n"
	"      --max-seq N       tokens a sequence may reach (default: 32768)\n"
	"      --max-decode N    decode at most N tokens a sequence\n"
	"      --time-limit S    begin nothing new after S seconds and end in order\n"
	"      --seed N          seed of the made-up values (default: random, printed)\n"
	"      --name NAME       name shown in status and reports (default: the preset's)\n"
	"      --poison          fill pages with NaN as soon as they are given up\n"
	"      --lag MS          let the stream sleep so long at the end of each step\n"
	"      --report FILE     keep a JSON report in FILE, renewed every second\n"
	"  -j, --json            print the last report as JSON\n"
	"  -q, --quiet           no progress lines\n"
	"  -h, --help            this text\n"
	"      --version         the version\n"
	"\n"
	"presets:\n";

static void print_preset(const struct preset *p)
{
	printf("  %-12s %s, %s, %s pages", p->name, p->text, preset_dtype_name(p->dtype), preset_form_name(p->form));
	for (uint32_t i = 0; i < p->n_groups; i++) {
		const struct preset_group *g = &p->groups[i];

		printf("%s\n%15s%u layers of ", i ? "," : ":", "", g->layers);
		if (g->window)
			printf("window %" PRId64, g->window);
		else
			printf("full attention");
		printf(" (%u kv heads x %u, %u query heads)", g->kv_heads, g->head_dim, g->q_heads);
	}
	putchar('\n');
}

static void print_usage(void)
{
	size_t n;
	const struct preset *p = preset_list(&n);

	fputs(usage_text, stdout);
	for (size_t i = 0; i < n; i++)
		print_preset(&p[i]);
	printf("\nExit status: 0 every result right, 1 mismatches, 2 wrong usage, 3 no broker or broker gone, 4 other "
	       "failure\n");
}

/* "--OPTION needs EXPECTED, not 'VALUE'" */
static int complain(const char *option, const char *value, const char *expected)
{
	char what[320];

	snprintf(what, sizeof(what), "--%s needs %s, not", option, expected);
	usage_error(what, value);
	return EXIT_USAGE;
}

/* A whole number from @least to @most into *@out; -1, or the exit status. */
static int number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	return usage_number(option, text, least, most, out) ? -1 : EXIT_USAGE;
}

static int set_preset(struct options *o, const char *name)
{
	const struct preset *p = preset_find(name);
	char expected[256] = "one of";
	size_t n;

	if (p) {
		o->preset = *p;
		return -1;
	}
	p = preset_list(&n);
	for (size_t i = 0; i < n; i++) {
		strncat(expected, " ", sizeof(expected) - strlen(expected) - 1);
		strncat(expected, p[i].name, sizeof(expected) - strlen(expected) - 1);
	}
	return complain("preset", name, expected);
}

/* What applies to the preset, whatever the order of the options. */
struct overrides {
	enum swakv_dtype dtype; /* 0: none */
	uint32_t page_tokens;   /* 0: none */
	bool has_form;
	enum swakv_form form;
};

static int set_form(struct overrides *v, const char *text)
{
	v->has_form = true;
	if (strcmp(text, "split") == 0)
		v->form = SWAKV_SPLIT;
	else if (strcmp(text, "joined") == 0)
		v->form = SWAKV_JOINED;
	else
		return complain("form", text, "split or joined");
	return -1;
}

static int set_dtype(struct overrides *v, const char *text)
{
	if (strcmp(text, "f16") == 0)
		v->dtype = SWAKV_F16;
	else if (strcmp(text, "bf16") == 0)
		v->dtype = SWAKV_BF16;
	else if (strcmp(text, "fp8") == 0)
		v->dtype = SWAKV_FP8;
	else
		return complain("dtype", text, "f16, bf16 or fp8");
	return -1;
}

static int set_time_limit(struct options *o, const char *text)
{
	double seconds;

	if (!number_read_seconds(text, 1e-9, 1e9, &seconds))
		return complain("time-limit", text, "seconds, more than 0");
	o->time_limit_ns = (uint64_t)(seconds * 1e9);
	return -1;
}

static int set_number(struct options *o, struct overrides *v, int opt, const char *text)
{
	uint64_t n = 0;
	int rc;

	switch (opt) {
	case OPT_SCALE:
		rc = number("--scale", text, 1, 1000000, &n);
		o->scale = (uint32_t)n;
		return rc;
	case OPT_PAGE_TOKENS:
		rc = usage_power_of_two("--page-tokens", text, 16, 256, &n) ? -1 : EXIT_USAGE;
		v->page_tokens = (uint32_t)n;
		return rc;
	case OPT_ROWS:
		rc = number("--rows", text, 1, SIZE_MAX, &n);
		o->rows = n;
		return rc;
	case OPT_SKIP:
		rc = number("--skip", text, 0, SIZE_MAX, &n);
		o->skip = n;
		return rc;
	case OPT_MAX_SEQ:
		rc = number("--max-seq", text, 2, INT32_MAX, &n);
		o->max_seq = (int64_t)n;
		return rc;
	case OPT_MAX_DECODE:
		rc = number("--max-decode", text, 1, INT32_MAX, &n);
		o->max_decode = (int64_t)n;
		return rc;
	case OPT_LAG:
		rc = number("--lag", text, 0, 60000, &n);
		o->lag_ms = (uint32_t)n;
		return rc;
	case OPT_SEED:
		return number("--seed", text, 0, UINT64_MAX, &o->seed);
	default: /* 'B' */
		rc = number("--max-batch", text, 1, 4096, &n);
		o->batch = (uint32_t)n;
		return rc;
	}
}

/* The report is renamed into place: a device or a pipe would be replaced by a file. */
static int set_report(struct options *o, const char *path)
{
	struct stat st;

	if (!path[0] || strlen(path) >= PATH_MAX - sizeof(".tmp") || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
		return complain("report", path, "the path of a regular file, or of none");
	o->report = path;
	return -1;
}

static int set(struct options *o, struct overrides *v, int opt, char *arg)
{
	switch (opt) {
	case 'b':
		o->broker = arg;
		return -1;
	case 's':
		o->socket = arg;
		return -1;
	case OPT_POOL:
		o->pool = arg;
		return -1;
	case 'p':
		return set_preset(o, arg);
	case OPT_DTYPE:
		return set_dtype(v, arg);
	case OPT_FORM:
		return set_form(v, arg);
	case 't':
		o->trace = arg;
		return -1;
	case OPT_TIME_LIMIT:
		return set_time_limit(o, arg);
	case OPT_NAME:
		o->name = arg;
		return -1;
	case OPT_POISON:
		o->poison = true;
		return -1;
	case OPT_LOOP:
		o->loop = true;
		return -1;
	case OPT_REPORT:
		return set_report(o, arg);
	case 'j':
		o->json = true;
		return -1;
	case 'q':
		o->quiet = true;
		return -1;
	default:
		return set_number(o, v, opt, arg);
	}
}

/* Applies what depends on other options, and looks for what is missing. */
static int settle(struct options *o, const struct overrides *v)
{
	if (!o->preset.name) {
		fprintf(stderr, TOOL ": --preset is missing; --help lists the presets\n");
		return EXIT_USAGE;
	}
	if (!o->name)
		o->name = o->preset.name;
	preset_scale(&o->preset, o->scale);
	if (v->dtype)
		o->preset.dtype = v->dtype;
	if (v->has_form)
		o->preset.form = v->form;
	if (v->page_tokens)
		o->preset.page_tokens = v->page_tokens;
	return -1;
}

int options_parse(struct options *o, int argc, char **argv)
{
	struct overrides v = { 0 };
	int opt, rc;

	*o = (struct options){ .scale = 1, .batch = 8, .max_seq = 32768, .trace = SWAKV_DEMO_TRACE };
	if (getentropy(&o->seed, sizeof(o->seed)) < 0)
		o->seed = 1;
	o->seed >>= 32; /* short enough to type */
	while ((opt = getopt_long(argc, argv, "b:s:p:t:B:jqh", table, NULL)) >= 0) {
		if (opt == '?') {
			usage_unknown();
			return EXIT_USAGE;
		}
		if (opt == 'h') {
			print_usage();
			return 0;
		}
		if (opt == OPT_VERSION)
			usage_version();
		if ((rc = set(o, &v, opt, optarg)) >= 0)
			return rc;
	}
	if (optind < argc) {
		usage_error("unexpected argument", argv[optind]);
		return EXIT_USAGE;
	}
	return settle(o, &v);
}
