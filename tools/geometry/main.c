/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-geometry */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "output.h"
#include "print.h"

enum { EXIT_BAD = 1, EXIT_USAGE = 2, EXIT_UNMAPPABLE = 3 };

struct options {
	struct sizes_options sizes;
	struct rule rule; /* in_flight and max_rewind for all rules */
	uint32_t dtype;
	bool json;
};

static const char usage_text[] =
	"usage: swakv-geometry [OPTION]... CONFIG\n"
	"\n"
	"Reads a Hugging Face config.json and says which layer groups the model has, and what they cost in pages.\n"
	"\n"
	"  -P, --page-tokens N   tokens a page: 16 to 256, a power of two (default: 128)\n"
	"  -t, --max-seq N       tokens a sequence may reach (default: the file's max_position_embeddings)\n"
	"  -a, --max-advance N   also for steps of at most N tokens; again for more of them (default: 1)\n"
	"  -f, --in-flight N     steps prepared whose end the broker has not seen (default: 2)\n"
	"  -r, --max-rewind N    tokens that may be taken back (default: 0)\n"
	"  -p, --pool BYTES      say how many sequences fit in a pool of BYTES for K and V together (\"64G\")\n"
	"  -e, --extent BYTES    its extents (default: as the broker takes them)\n"
	"  -l, --largest-page BYTES\n"
	"                        split groups with larger pages into equal parts\n"
	"  -d, --dtype TYPE      f16, bf16, f32 or fp8 instead of the file's\n"
	"  -j, --json            JSON\n"
	"  -h, --help            this text\n"
	"      --version         the version\n"
	"\n"
	"Exit status: 0, 1 a file that cannot be read or with wrong values, 2 wrong usage, 3 a model that cannot be "
	"mapped.\n";

static bool usage_error(const char *what, const char *value)
{
	fprintf(stderr, "swakv-geometry: %s '%s' (see --help)\n", what, value);
	return false;
}

static bool parse_count(const char *option, const char *text, int64_t least, int64_t *out)
{
	char what[80];
	uint64_t n;

	if (number_read(text, (uint64_t)least, INT32_MAX, &n)) {
		*out = (int64_t)n;
		return true;
	}
	snprintf(what, sizeof(what), "%s needs a whole number from %" PRId64 " to 2147483647, not", option, least);
	return usage_error(what, text);
}

static bool parse_bytes(const char *option, const char *text, uint64_t *out)
{
	char what[80];

	if (number_read_bytes(text, 1, INT64_MAX, out))
		return true;
	snprintf(what, sizeof(what), "%s needs a size like 64G, not", option);
	return usage_error(what, text);
}

static bool add_rule(struct options *o, const char *text)
{
	struct sizes_options *z = &o->sizes;

	if (z->n_rules == SIZES_MAX_RULES)
		return usage_error("too many: --max-advance", text);
	return parse_count("--max-advance", text, 1, &z->rules[z->n_rules++].max_advance);
}

static bool apply(struct options *o, int option, const char *value)
{
	int64_t n;

	switch (option) {
	case 'P':
		if (!parse_count("--page-tokens", value, 1, &n))
			return false;
		if (n < 16 || n > 256 || (n & (n - 1)))
			return usage_error("--page-tokens needs a power of two from 16 to 256, not", value);
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
		return parse_bytes("--pool", value, &o->sizes.pool);
	case 'e':
		return parse_bytes("--extent", value, &o->sizes.extent);
	case 'l':
		return parse_bytes("--largest-page", value, &o->sizes.largest_page);
	case 'd':
		o->dtype = hf_dtype_find(value);
		return o->dtype || usage_error("--dtype needs f16, bf16, f32 or fp8, not", value);
	case 'j':
		o->json = true;
		return true;
	case 'h':
		fputs(usage_text, stdout);
		exit(EXIT_SUCCESS);
	case 'V':
		puts("swakv-geometry " SWAKV_VERSION);
		exit(EXIT_SUCCESS);
	default:
		fprintf(stderr, "see swakv-geometry --help\n");
		return false;
	}
}

/* The file is what is left. NULL after a complaint. */
static const char *parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "page-tokens", required_argument, NULL, 'P' },
		{ "max-seq", required_argument, NULL, 't' },
		{ "max-advance", required_argument, NULL, 'a' },
		{ "in-flight", required_argument, NULL, 'f' },
		{ "max-rewind", required_argument, NULL, 'r' },
		{ "pool", required_argument, NULL, 'p' },
		{ "extent", required_argument, NULL, 'e' },
		{ "largest-page", required_argument, NULL, 'l' },
		{ "dtype", required_argument, NULL, 'd' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "P:t:a:f:r:p:e:l:d:jh", longs, NULL)) != -1)
		if (!apply(o, c, optarg))
			return NULL;
	if (optind + 1 == argc)
		return argv[optind];
	usage_error(optind == argc ? "which file? after" : "unexpected argument",
		    optind == argc ? argv[argc - 1] : argv[optind + 1]);
	return NULL;
}

static void finish_rules(struct options *o)
{
	struct sizes_options *z = &o->sizes;

	if (z->n_rules == 1)
		z->rules[z->n_rules++].max_advance = 1;
	for (uint32_t i = 0; i < z->n_rules; i++) {
		z->rules[i].in_flight = o->rule.in_flight;
		z->rules[i].max_rewind = o->rule.max_rewind;
	}
}

int main(int argc, char **argv)
{
	struct options o = { .sizes = { .page_tokens = 128, .n_rules = 1 }, .rule.in_flight = 2 };
	static struct hf_config config;
	static struct sizes sizes;
	char why[HF_WHY];
	const char *path;
	int r;

	output_check_at_exit("swakv-geometry", EXIT_BAD);
	path = parse_options(&o, argc, argv);
	if (!path)
		return EXIT_USAGE;
	finish_rules(&o);
	r = hf_config_read(&config, path, o.dtype, why, sizeof(why));
	if (r == 0 && (r = sizes_make(&sizes, &config, &o.sizes, why, sizeof(why))))
		fprintf(stderr, "swakv-geometry: %s: %s\n", path, why);
	else if (r)
		fprintf(stderr, "swakv-geometry: %s\n", why);
	if (r)
		return r == HF_UNMAPPABLE ? EXIT_UNMAPPABLE : EXIT_BAD;
	(o.json ? print_json : print_text)(stdout, path, &config, &sizes);
	return EXIT_SUCCESS;
}
