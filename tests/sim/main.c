/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swakv-sim - virtual workers, devices and time round the real broker, from a seed
 *
 * A run that breaks a rule prints the one command that repeats it, with as few
 * steps, workers and kinds of fault as still break one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static const char usage[] =
	"usage: swakv-sim [--seeds A[..B]] [--steps N] [--total N] [--without FAULT,...] [--workers N] [--forbid "
	"FAULT]\n"
	"                 [--no-shrink] [--trace]\n"
	"\n"
	"  --seeds A..B   these worlds, one after another (default: 1..10)\n"
	"  --steps N      steps of each (default: 20000)\n"
	"  --total N      from the first seed on, as many worlds as make N steps\n"
	"  --without F    leave out: deaths, stops, late, missing, forged, full, storms, limits, poison,\n"
	"                 half-open, orders, files, stop; processes, moves, turns, takes, joined\n"
	"  --workers N    at most so many workers\n"
	"  --forbid F     that it happens is a failure: shows how failures are shrunk\n"
	"  --trace        print what happens\n"
	"  --no-shrink    stop at the first failure as it is, all in one process\n"
	"\n"
	"Exit code: 0 all rules held, 1 one did not, 2 wrong usage.\n";

struct totals {
	uint64_t worlds, steps;
#define SIM_FIELD(name, text) uint64_t name;
	SIM_COUNTS(SIM_FIELD)
#undef SIM_FIELD
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

static void print_faults(const char *option, uint32_t bits)
{
	const char *before = option;

	for (int i = 0; i < SIM_FAULT_COUNT; i++) {
		if (!(bits >> i & 1))
			continue;
		printf("%s%s", before, sim_fault_name((enum sim_fault)i));
		before = ",";
	}
}

static void print_command(const struct sim_options *o)
{
	printf("repeat: swakv-sim --seeds %" PRIu64 " --steps %" PRIu64 " --no-shrink --trace", o->seed, o->steps);
	if (o->max_workers)
		printf(" --workers %u", o->max_workers);
	print_faults(" --without ", o->without);
	print_faults(" --forbid ", o->forbidden);
	putchar('\n');
}

/* ---- a run --------------------------------------------------------------------------------- */

static void run_here(struct world *w, const struct sim_options *o, struct status_writer *status)
{
	world_run(w, o, status);
}

/* A broker that does not come back from a turn is ended: so much time of a CPU, or ten times that by the clock. */
static unsigned int limit_s(const struct sim_options *o)
{
	return (unsigned int)(60 + o->steps / 1000);
}

/* In a process of its own, whose world is seen here: so one that crashes or never ends is a failure like others. */
static void run_apart(struct world *w, const struct sim_options *o, struct status_writer *status)
{
	pid_t pid;
	int code;

	fflush(stdout);
	w->broken[0] = '\0';
	pid = fork();
	if (pid < 0) {
		fprintf(stderr, "swakv-sim: no process can be made: %s\n", strerror(errno));
		exit(1);
	}
	if (pid == 0) {
		setitimer(ITIMER_PROF, &(struct itimerval){ .it_value.tv_sec = limit_s(o) }, NULL);
		alarm(10 * limit_s(o));
		world_run(w, o, status);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &code, 0);
	if (code == 0 || w->broken[0])
		return;
	if (WIFSIGNALED(code) && (WTERMSIG(code) == SIGALRM || WTERMSIG(code) == SIGPROF))
		snprintf(w->broken, sizeof(w->broken), "it did not go on for %u s", limit_s(o));
	else
		snprintf(w->broken, sizeof(w->broken), "it ended with %s %d",
			 WIFSIGNALED(code) ? "signal" : "exit code",
			 WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code));
}

/* ---- shrinking ------------------------------------------------------------------------- */

#define MOST_TRIES 40
#define MOST_S     60 /* for all of them */

struct shrinking {
	struct sim_options best;
	struct world *world;
	struct status_writer *status;
	int tries;
	time_t until;
};

/* What follows a step without being one itself, an idle turn, belongs to it. */
static uint64_t steps_until(const struct world *w, const struct sim_options *o)
{
	return w->steps + 1 < o->steps ? w->steps + 1 : o->steps;
}

static void try(struct shrinking *s, const struct sim_options *o)
{
	if (++s->tries > MOST_TRIES || time(NULL) >= s->until)
		return;
	run_apart(s->world, o, s->status);
	if (!s->world->broken[0])
		return;
	s->best = *o;
	s->best.steps = steps_until(s->world, o);
}

static void shrink(struct shrinking *s)
{
	for (int i = 0; i < SIM_FAULT_COUNT; i++) {
		struct sim_options o = s->best;

		o.without |= 1u << i;
		if (o.without != s->best.without)
			try(s, &o);
	}
	for (uint32_t n = 1; n < SIM_WORKERS && (!s->best.max_workers || n < s->best.max_workers); n++) {
		struct sim_options o = s->best;

		o.max_workers = n;
		try(s, &o);
	}
	for (uint64_t cut = s->best.steps / 2; cut > 0; cut /= 2) {
		struct sim_options o = s->best;

		if (cut >= o.steps)
			continue;
		o.steps -= cut;
		try(s, &o);
	}
}

/* ---- the runs ---------------------------------------------------------------------------- */

static bool run_one(struct world *w, const struct sim_options *o, struct status_writer *status, struct totals *t,
		    bool do_shrink)
{
	(do_shrink ? run_apart : run_here)(w, o, status);
	t->worlds++;
	t->steps += w->steps;
#define SIM_ADD(name, text) t->name += w->name;
	SIM_COUNTS(SIM_ADD)
#undef SIM_ADD
	if (w->broken[0]) {
		struct shrinking s = { .best = *o, .world = w, .status = status, .until = time(NULL) + MOST_S };

		printf("BROKEN in seed %" PRIu64 " after %" PRIu64 " steps: %s\n", o->seed, w->steps, w->broken);
		s.best.steps = steps_until(w, o);
		if (do_shrink)
			shrink(&s);
		print_command(&s.best);
		return false;
	}
	return true;
}

static void print_totals(const struct totals *t)
{
	printf("%" PRIu64 " steps in %" PRIu64 " worlds", t->steps, t->worlds);
#define SIM_PRINT(name, text) printf(", %" PRIu64 " " text, t->name);
	SIM_COUNTS(SIM_PRINT)
#undef SIM_PRINT
	putchar('\n');
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{ "seeds", required_argument, NULL, 's' },  { "steps", required_argument, NULL, 'n' },
		{ "total", required_argument, NULL, 't' },  { "without", required_argument, NULL, 'w' },
		{ "forbid", required_argument, NULL, 'f' }, { "workers", required_argument, NULL, 'k' },
		{ "trace", no_argument, NULL, 'v' },        { "no-shrink", no_argument, NULL, 'x' },
		{ "help", no_argument, NULL, 'h' },         { 0 },
	};
	struct sim_options o = { .seed = 1, .steps = 20000 };
	uint64_t last = 10, total = 0;
	struct status_writer status;
	struct totals t = { 0 };
	struct world *w;
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
		case 'f':
			o.forbidden = parse_faults(optarg);
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
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w == MAP_FAILED)
		return 1;
	for (; good && (total ? t.steps < total : o.seed <= last); o.seed++)
		good = run_one(w, &o, &status, &t, do_shrink);
	status_writer_close(&status);
	print_totals(&t);
	return good ? 0 : 1;
}
