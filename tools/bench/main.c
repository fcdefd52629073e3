/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-bench, the broker and the peer, and the order of the figures */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "density.h"
#include "number.h"
#include "peer.h"
#include "plot.h"
#include "soak.h"
#include "stage.h"
#include "usage.h"

static const struct {
	const char *name; /* what --only looks at, besides a figure's own name */
	figure_fn *fn;
} figures[] = {
	{ "spin", figure_spin },       { "noop", figure_noop },       { "oneway", figure_oneway },
	{ "decode", figure_decode },   { "turn", figure_turn },       { "begin", figure_begin },
	{ "prefill", figure_prefill }, { "compact", figure_compact }, { "wake", figure_wake },
	{ "workers", figure_scale },   { "victim", figure_victim },   { "long", figure_long },
	{ "attach", figure_attach },   { "kill", figure_kill },       { "idle", figure_idle },
	{ "memory", figure_memory },   { "trace", figure_trace },     { "pages", figure_pages },
	{ "step_5ms", figure_step },
};

static struct bench bench = { .options = { .pin = true, .cpu = { -1, -1 } } };
static pid_t main_pid;

static void cleanup(void)
{
	if (getpid() != main_pid)
		return;
	bench.peer = peer_free(bench.peer);
	private_broker_deinit(&bench.broker, false);
}

static void on_signal(int signal)
{
	exit(128 + signal);
}

static const char usage_text[] =
	"usage: swakv-bench [OPTION]...\n"
	"\n"
	"Measures a private broker, and each figure beside a spin round trip of the same moment.\n"
	"Takes some minutes without --quick; each figure is printed when it is there.\n"
	"\n"
	"  -q, --quick         fewer and shorter samples: less than 50 s on two CPUs\n"
	"  -j, --json          one JSON object instead of a table\n"
	"  -o, --only TEXT     only the groups of figures whose name contains TEXT\n"
	"  -c, --cpus A,B      CPU of the worker, CPU of the broker's ring thread (default: the first two allowed)\n"
	"      --no-pin        leave the choice of CPUs to the scheduler\n"
	"      --spin-us N     how long broker and workers spin before they sleep (default: 50)\n"
	"      --plot FILE     write latency distribution and scaling as SVG\n"
	"      --soak N        only let both sides sleep N times together; fails when a wake-up is lost\n"
	"      --trace FILE    serve a CSV trace (TIMESTAMP,ContextTokens,GeneratedTokens) by many workers\n"
	"      --density       instead of all that: how many sequences of the trace fit in the same bytes\n"
	"      --size SIZE, --token-bytes N, --window N, --page-tokens N, --max-seq N, --in-flight N, --max-rewind N\n"
	"                      with --density: the pool, and what the model declares; see swakv-bench(1)\n"
	"  -l, --list          names of the groups of figures\n"
	"  -h, --help          this text\n"
	"      --version       the version\n"
	"\n"
	"Exit status: 0 measured, 1 broker, worker, trace or output failed, 2 wrong usage.\n";

enum {
	OPT_PLOT = 256,
	OPT_TRACE,
	OPT_NO_PIN,
	OPT_SPIN,
	OPT_VERSION,
	OPT_WORKER,
	OPT_DENSITY,
	OPT_DENSITY_VALUE,
	OPT_SOAK
};

enum { EXIT_USAGE = 2 };

struct arguments {
	bool json;
	bool density;
	uint64_t soak; /* sleeps; 0: measure */
	struct density_options density_options;
	const char *density_value; /* name of an option that was given and is for --density */
	const char *plot;
	int exit_code; /* -1: go on */
};

static int bad_usage(const char *what, const char *value)
{
	usage_error(what, value);
	return EXIT_USAGE;
}

static void list(void)
{
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		puts(figures[i].name);
}

/* "A,B" */
static bool parse_cpus(const char *text, int cpu[2])
{
	uint64_t a, b;
	const char *end;

	if (!number_read_prefix(text, 0, INT32_MAX, &a, &end) || *end != ',' || !number_read(end + 1, 0, INT32_MAX, &b))
		return false;
	cpu[0] = (int)a;
	cpu[1] = (int)b;
	return true;
}

static void take_soak(struct arguments *a)
{
	if (!usage_number("--soak", optarg, 1, UINT64_MAX / 4, &a->soak))
		a->exit_code = EXIT_USAGE;
	bench.options.spin_us = 1;
}

/* @name is that of the long option, where it has one. */
static void take_option(int c, const char *name, struct arguments *a)
{
	uint64_t n;

	switch (c) {
	case 'q':
		bench.options.quick = true;
		break;
	case 'j':
		a->json = true;
		break;
	case 'o':
		bench.options.only = optarg;
		break;
	case 'c':
		if (!parse_cpus(optarg, bench.options.cpu))
			a->exit_code = bad_usage("--cpus needs two numbers, not", optarg);
		break;
	case OPT_NO_PIN:
		bench.options.pin = false;
		break;
	case OPT_SPIN:
		if (!usage_number("--spin-us", optarg, 1, 1000000, &n))
			a->exit_code = EXIT_USAGE;
		else
			bench.options.spin_us = (uint32_t)n;
		break;
	case OPT_PLOT:
		a->plot = optarg;
		break;
	case OPT_TRACE:
		bench.options.trace = optarg;
		break;
	case OPT_SOAK:
		take_soak(a);
		break;
	case OPT_DENSITY:
		a->density = true;
		break;
	case OPT_DENSITY_VALUE:
		a->density_value = name;
		if (!density_option(&a->density_options, name, optarg))
			a->exit_code = EXIT_USAGE;
		break;
	case OPT_WORKER:
		a->exit_code = stage_worker(optarg);
		break;
	case 'l':
		list();
		a->exit_code = 0;
		break;
	case 'h':
		usage_help(usage_text);
	case OPT_VERSION:
		usage_version();
	default:
		usage_unknown();
		a->exit_code = EXIT_USAGE;
	}
}

/* Options that would be ignored without a word. */
static void check_together(struct arguments *a)
{
	bool any = !bench.options.only;

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		any = any || bench_wants(&bench, figures[i].name);
	if (!any)
		a->exit_code = bad_usage("no group of figures (--list) has a name with", bench.options.only);
	else if (a->density_value && !a->density)
		a->exit_code = bad_usage("only --density takes the option", a->density_value);
	else if (a->density && a->soak)
		a->exit_code = bad_usage("--density measures nothing, so it does not go with", "--soak");
	else if (a->plot && (a->density || a->soak))
		a->exit_code =
			bad_usage("figures are plotted, and there are none with", a->soak ? "--soak" : "--density");
}

static void parse(int argc, char **argv, struct arguments *a)
{
	static const struct option options[] = {
		{ "quick", no_argument, NULL, 'q' },
		{ "json", no_argument, NULL, 'j' },
		{ "only", required_argument, NULL, 'o' },
		{ "cpus", required_argument, NULL, 'c' },
		{ "no-pin", no_argument, NULL, OPT_NO_PIN },
		{ "spin-us", required_argument, NULL, OPT_SPIN },
		{ "plot", required_argument, NULL, OPT_PLOT },
		{ "trace", required_argument, NULL, OPT_TRACE },
		{ "soak", required_argument, NULL, OPT_SOAK },
		{ "density", no_argument, NULL, OPT_DENSITY },
		{ "size", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "pool", required_argument, NULL, OPT_DENSITY_VALUE }, /* as it was called first */
		{ "token-bytes", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "window", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "page-tokens", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "max-seq", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "in-flight", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "max-rewind", required_argument, NULL, OPT_DENSITY_VALUE },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "worker", required_argument, NULL, OPT_WORKER },
		{ 0 },
	};
	int c, index = 0;

	a->exit_code = -1;
	density_options_init(&a->density_options);
	while (a->exit_code < 0 && (c = getopt_long(argc, argv, "qjo:c:lh", options, &index)) >= 0)
		take_option(c, options[index].name, a);
	if (a->exit_code < 0 && optind < argc)
		a->exit_code = bad_usage("unexpected argument", argv[optind]);
	if (a->exit_code < 0)
		check_together(a);
}

/* The first two CPUs that this process may use, unless two were given. */
static void choose_cpus(struct bench_options *o)
{
	int found = 0;

	if (sched_getaffinity(0, sizeof(o->allowed), &o->allowed) < 0)
		bench_die("the CPUs of this process: %s", strerror(errno));
	o->n_cpus = CPU_COUNT(&o->allowed);
	for (int i = 0; i < CPU_SETSIZE && o->cpu[1] < 0 && found < 2; i++)
		if (CPU_ISSET(i, &o->allowed))
			o->cpu[found++] = i;
	if (o->n_cpus < 2 || o->cpu[1] < 0 || o->cpu[0] == o->cpu[1])
		bench_die("two CPUs are needed: two processes cannot spin on one");
}

static void calibrate(struct bench *b)
{
	uint64_t ns = clock_ns(), t = ticks();

	while (clock_ns() - ns < 100000000)
		;
	b->ns_per_tick = (double)(clock_ns() - ns) / (double)(ticks() - t);
}

static void start(struct bench *b)
{
	unsigned long long bytes = (48ull << 20) + 2ull * BENCH_PAGES * 256;
	char size[48], spin[32], why[300];
	const char *flags[] = { "--backend=host", size, "--table-area=48M", "--max-sessions=72", "--max-half-open=72",
				"--extent=1M",    spin };
	uint32_t spin_us = b->options.spin_us ? b->options.spin_us : 50;

	if (bench_wants(b, "long"))
		bytes += 2ull * BENCH_TINY_PAGES * BENCH_TINY_BYTES + (1u << 20);
	snprintf(size, sizeof(size), "--size=%llu", bytes);
	snprintf(spin, sizeof(spin), "--spin-us=%u", spin_us);
	b->snapshot = calloc(1, sizeof(*b->snapshot));
	b->peer = peer_new(b->options.pin ? b->options.cpu[1] : -1);
	if (!b->peer || !b->snapshot || private_broker_init(&b->broker, "bench") < 0)
		bench_die("out of memory, or no temporary folder");
	if (private_broker_start(&b->broker, flags, sizeof(flags) / sizeof(flags[0]), why, sizeof(why)) < 0) {
		private_broker_print_log(&b->broker, stderr);
		bench_die("%s", why);
	}
	if (status_reader_open(&b->status, b->broker.name) < 0)
		bench_die("the broker's status page cannot be read");
	bench_pin_broker(b);
	bench_pin_self(b, b->options.cpu[0]);
}

int main(int argc, char **argv)
{
	static struct results results;
	struct arguments a = { 0 };
	int r = 0;

	usage_begin("swakv-bench", 1);
	parse(argc, argv, &a);
	if (a.exit_code >= 0)
		return a.exit_code;
	if (a.density) {
		a.density_options.trace = bench.options.trace;
		a.density_options.json = a.json;
		return density_run(&a.density_options);
	}
	main_pid = getpid();
	atexit(cleanup);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	choose_cpus(&bench.options);
	bench.results = &results;
	results.live = !a.json;
	calibrate(&bench);
	start(&bench);
	if (results.live && !a.soak)
		results_print_head(stdout);
	if (a.soak && !soak_run(&bench, a.soak))
		r = -EIO;
	for (size_t i = 0; !a.soak && i < sizeof(figures) / sizeof(figures[0]); i++)
		if (bench_wants(&bench, figures[i].name))
			figures[i].fn(&bench);
	if (a.json)
		results_print_json(&results, stdout);
	if (r < 0)
		fputs("swakv-bench: a wake-up was lost: a side slept although it had work\n", stderr);
	else if (a.plot && (r = plot_write(&results, a.plot)) < 0)
		fprintf(stderr, "swakv-bench: %s: %s\n", a.plot, strerror(-r));
	status_reader_close(&bench.status);
	free(bench.snapshot);
	return r < 0 ? 1 : 0;
}
