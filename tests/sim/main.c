/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swakv-sim - virtual workers, devices and time round the real broker, from a seed
 *
 * A run that breaks a rule prints the one command that repeats it, with as few
 * steps, workers and kinds of fault as still break one.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

static const char usage[] =
	"usage: swakv-sim [--seeds A[..B]] [--steps N] [--total N] [--without FAULT,...] [--workers N] [--trace]\n"
	"\n"
	"  --seeds A..B   these worlds, one after another (default: 1..10)\n"
	"  --steps N      steps of each (default: 20000)\n"
	"  --total N      from the first seed on, as many worlds as make N steps\n"
	"  --without F    leave out: deaths, stops, late, missing, forged, full, storms, limits, poison,\n"
	"                 half-open, orders, files, stop\n"
	"  --workers N    at most so many workers\n"
	"  --trace        print what happens\n"
	"  --no-shrink    stop at the first failure as it is\n"
	"\n"
	"Exit code: 0 all rules held, 1 one did not, 2 wrong usage.\n";

struct totals {
	uint64_t worlds, steps, commands, kernels, deaths, kicked, attached, joined, notices, refused, orders,
		by_reference, admitted, reclaimed;
};

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "swakv-sim: %s '%s'\n%s", what, value, usage);
	return 2;
}

static uint32_t parse_faults(char *list)
{
	uint32_t bits = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		int i = 0;

		while (i < SIM_FAULT_COUNT && strcmp(sim_fault_name((enum sim_fault)i), name) != 0)
			i++;
		if (i == SIM_FAULT_COUNT)
			exit(wrong("no such fault:", name));
		bits |= 1u << i;
	}
	return bits;
}

static uint64_t parse_number(const char *text, char **end)
{
	char *own;
	uint64_t n = strtoull(text, end ? end : &own, 10);

	if (!end && (own == text || *own))
		exit(wrong("no number:", text));
	return n;
}

static void print_command(const struct sim_options *o)
{
	printf("repeat: swakv-sim --seeds %" PRIu64 " --steps %" PRIu64 " --no-shrink --trace", o->seed, o->steps);
	if (o->max_workers)
		printf(" --workers %u", o->max_workers);
	for (int i = 0, n = 0; i < SIM_FAULT_COUNT; i++)
		if (o->without >> i & 1)
			printf("%s%s", n++ ? "," : " --without ", sim_fault_name((enum sim_fault)i));
	putchar('\n');
}

#define MOST_TRIES 25

/* ---- shrinking ------------------------------------------------------------------------- */

/* Runs @o in a child; true: a rule does not hold, or the broker ends with a signal. *@steps: after how many. */
static bool still_fails(const struct sim_options *o, struct status_writer *status, uint64_t *steps)
{
	int pipe_fds[2], code;
	pid_t pid;

	fflush(stdout);
	if (pipe(pipe_fds) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		struct world *w = calloc(1, sizeof(*w));
		bool good = world_run(w, o, status);

		_exit(write(pipe_fds[1], &w->steps, sizeof(w->steps)) < 0 || !good);
	}
	close(pipe_fds[1]);
	*steps = o->steps;
	if (read(pipe_fds[0], steps, sizeof(*steps)) < 0)
		*steps = o->steps;
	close(pipe_fds[0]);
	waitpid(pid, &code, 0);
	return code != 0;
}

static void try(struct sim_options *best, const struct sim_options *o, struct status_writer *status)
{
	static int tries;
	uint64_t steps;

	if (++tries > MOST_TRIES || !still_fails(o, status, &steps))
		return;
	*best = *o;
	if (steps < best->steps)
		best->steps = steps;
}

static void shrink(struct sim_options *best, struct status_writer *status)
{
	for (int i = 0; i < SIM_FAULT_COUNT; i++) {
		struct sim_options o = *best;

		o.without |= 1u << i;
		if (o.without != best->without)
			try(best, &o, status);
	}
	for (uint32_t n = 1; n < SIM_WORKERS; n++) {
		struct sim_options o = *best;

		if (best->max_workers && n >= best->max_workers)
			break;
		o.max_workers = n;
		try(best, &o, status);
		if (best->max_workers == n)
			break;
	}
	for (uint64_t cut = best->steps / 2; cut > 0; cut /= 2) {
		struct sim_options o = *best;

		o.steps -= cut;
		try(best, &o, status);
	}
}

/* ---- the runs ---------------------------------------------------------------------------- */

static bool run_one(const struct sim_options *o, struct status_writer *status, struct totals *t, bool do_shrink)
{
	struct world *w = calloc(1, sizeof(*w));
	bool good = world_run(w, o, status);

	t->worlds++;
	t->steps += w->steps;
	t->commands += w->commands;
	t->kernels += w->kernels;
	t->deaths += w->deaths;
	t->kicked += w->kicked;
	t->attached += w->attached;
	t->joined += w->joined;
	t->notices += w->notices;
	t->refused += w->refused;
	t->orders += w->orders;
	t->by_reference += w->by_reference;
	t->admitted += w->admitted;
	t->reclaimed += w->reclaimed;
	if (!good) {
		struct sim_options best = *o;

		printf("BROKEN in seed %" PRIu64 " after %" PRIu64 " steps: %s\n", o->seed, w->steps, w->broken);
		if (w->steps < best.steps)
			best.steps = w->steps;
		if (do_shrink)
			shrink(&best, status);
		print_command(&best);
	}
	free(w);
	return good;
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{ "seeds", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'n' },
		{ "total", required_argument, NULL, 't' },
		{ "without", required_argument, NULL, 'w' },
		{ "workers", required_argument, NULL, 'k' },
		{ "trace", no_argument, NULL, 'v' },
		{ "no-shrink", no_argument, NULL, 'x' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct sim_options o = { .seed = 1, .steps = 20000 };
	uint64_t last = 10, total = 0;
	struct status_writer status;
	struct totals t = { 0 };
	bool good = true, do_shrink = true;
	char instance[32], *end;
	int c;

	while ((c = getopt_long(argc, argv, "h", table, NULL)) != -1) {
		switch (c) {
		case 's':
			o.seed = last = parse_number(optarg, &end);
			if (strncmp(end, "..", 2) == 0)
				last = parse_number(end + 2, NULL);
			else if (*end || end == optarg)
				return wrong("no seeds:", optarg);
			break;
		case 'n':
			o.steps = parse_number(optarg, NULL);
			break;
		case 't':
			total = parse_number(optarg, NULL);
			break;
		case 'w':
			o.without = parse_faults(optarg);
			break;
		case 'k':
			o.max_workers = (uint32_t)parse_number(optarg, NULL);
			break;
		case 'v':
			o.trace = true;
			break;
		case 'x':
			do_shrink = false;
			break;
		default:
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 2;
		}
	}
	if (optind < argc)
		return wrong("unknown argument", argv[optind]);
	snprintf(instance, sizeof(instance), "sim-%d", (int)getpid());
	if (status_writer_open(&status, instance) < 0) {
		fprintf(stderr, "swakv-sim: no status page can be made in /dev/shm\n");
		return 1;
	}
	for (; good && (total ? t.steps < total : o.seed <= last); o.seed++)
		good = run_one(&o, &status, &t, do_shrink);
	status_writer_close(&status);
	printf("%" PRIu64 " steps in %" PRIu64 " worlds: %" PRIu64 " commands, %" PRIu64 " begins admitted, %" PRIu64
	       " kernels, %" PRIu64 " deliveries by reference, %" PRIu64 " attached, %" PRIu64 " joined, %" PRIu64
	       " notices, %" PRIu64 " refused, %" PRIu64 " orders, %" PRIu64 " ended, %" PRIu64 " liars ended, %" PRIu64
	       " pages reclaimed\n",
	       t.steps, t.worlds, t.commands, t.admitted, t.kernels, t.by_reference, t.attached, t.joined, t.notices,
	       t.refused, t.orders, t.deaths, t.kicked, t.reclaimed);
	return good ? 0 : 1;
}
