/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.c - what things cost on a GPU, each beside its floor of the same run
 *
 * Every figure is the median of nine readings, with the least and the largest.
 * Groups are independent: one that cannot be measured says why, and the others
 * go on. Brokers and workers that are needed are private to a run and die with it.
 */
#include "figures.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct group {
	const char *name, *what;
	int (*measure)(struct figures *f);
} groups[] = {
	{ "launch", "table updates against an empty kernel", figure_launch },
	{ "scrub", "filling pages against a memset", figure_scrub },
	{ "copy", "copying pages against a device-to-device copy", figure_copy },
	{ "attention", "bytes of K and V read against a device-to-device copy", figure_attention },
	{ "joined", "attention over joined pages against the same over split ones", figure_joined },
	{ "completion", "a mark seen by the broker against a stream write seen by the host", figure_completion },
	{ "step", "a decode step of 256 sequences against copies of each mapping", figure_step },
	{ "attach", "attach against opening an IPC handle, and against a context", figure_attach },
	{ "memory", "device memory that the broker takes beside the pool", figure_memory },
	{ "kill", "kill -9 to pages free, against the process's end", figure_kill },
};
#define N_GROUPS (int)(sizeof(groups) / sizeof(groups[0]))

struct arguments {
	const char *only, *skip, *json;
	bool quick, strict;
	int limit; /* seconds */
};

static void usage(void)
{
	puts("usage: figures [--only LIST] [--skip LIST] [--json FILE] [--quick] [--strict] [--limit SECONDS]\n\n"
	     "  --only LIST      these groups, separated by commas\n"
	     "  --skip LIST      all but these\n"
	     "  --json FILE      every reading, too\n"
	     "  --quick          small sizes, for a machine without a GPU; no ratio means anything then\n"
	     "  --strict         exit code 1 when a ratio is below what is asked of it\n"
	     "  --limit SECONDS  begin no group after this time (300)\n\n"
	     "The driver is $SWAKV_CUDA_LIBRARY, else libcuda.so.1. Groups:");
	for (int i = 0; i < N_GROUPS; i++)
		printf("  %-11s %s\n", groups[i].name, groups[i].what);
}

static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

/* Every name of @list must be a group. */
static void check_list(const char *list)
{
	char copy[256], *rest = copy, *name;

	snprintf(copy, sizeof(copy), "%s", list ? list : "");
	while ((name = strsep(&rest, ",")) != NULL) {
		bool found = !*name;

		for (int i = 0; i < N_GROUPS; i++)
			found |= strcmp(groups[i].name, name) == 0;
		if (!found) {
			fprintf(stderr, "figures: there is no group \"%s\": see --help\n", name);
			exit(2);
		}
	}
}

/* Exits for --help, a role, or a mistake. */
static void parse(struct arguments *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "only", required_argument, NULL, 'o' },
		{ "skip", required_argument, NULL, 's' },
		{ "json", required_argument, NULL, 'j' },
		{ "quick", no_argument, NULL, 'q' },
		{ "strict", no_argument, NULL, 'S' },
		{ "limit", required_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ "exporter", required_argument, NULL, 'E' },
		{ "context", no_argument, NULL, 'C' },
		{ "attach", required_argument, NULL, 'A' },
		{ 0 },
	};
	int c;

	*a = (struct arguments){ .limit = 300 };
	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			a->only = optarg;
			break;
		case 's':
			a->skip = optarg;
			break;
		case 'j':
			a->json = optarg;
			break;
		case 'q':
			a->quick = true;
			break;
		case 'S':
			a->strict = true;
			break;
		case 'l':
			a->limit = atoi(optarg);
			break;
		case 'E':
			exit(role_exporter(strtoull(optarg, NULL, 10)));
		case 'C':
			exit(role_context());
		case 'A':
			exit(role_attach(optarg));
		case 'h':
			usage();
			exit(0);
		default:
			exit(2);
		}
	}
	check_list(a->only);
	check_list(a->skip);
}

static void measure(struct figures *f, const struct arguments *a)
{
	double start = now_us();

	for (int i = 0; i < N_GROUPS; i++) {
		const struct group *g = &groups[i];
		double from = now_us();

		if ((a->only && !listed(a->only, g->name)) || listed(a->skip, g->name))
			continue;
		if (from - start > a->limit * 1e6) {
			report_fail(&f->report, g->name, "begin", "the time limit is over");
			continue;
		}
		g->measure(f);
		fprintf(stderr, "%-11s %5.1f s\n", g->name, (now_us() - from) / 1e6);
	}
}

int main(int argc, char **argv)
{
	static struct figures f;
	static char self[512];
	struct driver_device device;
	struct arguments a;
	char why[DRIVER_WHY];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	parse(&a, argc, argv);
	f.quick = a.quick;
	f.self = n > 0 ? self : argv[0];
	if (driver_open(&f.driver, NULL, NULL, 0, why)) {
		fprintf(stderr, "figures: %s\n", why);
		return 1;
	}
	if (driver_stream_create(f.driver, &f.stream) || driver_load_image(f.driver, &kernel_image_engine)) {
		fprintf(stderr, "figures: %s\n", driver_why(f.driver));
		return 1;
	}
	driver_get_device(f.driver, &device);
	/* No child outlives this process, but a hanging driver call might make it wait for ever. */
	alarm((unsigned)a.limit * 2);
	measure(&f, &a);
	printf("%s, driver for CUDA %d.%d%s\n\n", device.name, device.driver_version / 1000,
	       device.driver_version % 1000 / 10, f.quick ? ", quick: small sizes" : "");
	report_print(&f.report);
	if (a.json && !report_write(&f.report, a.json, device.name, device.driver_version)) {
		fprintf(stderr, "figures: cannot write %s\n", a.json);
		return 1;
	}
	driver_stream_destroy(f.driver, f.stream);
	driver_close(f.driver);
	return f.report.n == 0 || f.report.n_failed || (a.strict && report_misses(&f.report)) ? 1 : 0;
}
