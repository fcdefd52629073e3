/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random - seeded random commands to the page engine and to the reference model
 *
 * A run is a row of worlds, each with its own pool, models and a few thousand
 * commands; the world's seed is all that is needed to repeat it. Worlds run in
 * a child that keeps its commands in shared memory, so that a crash of the
 * engine is a finding like any other. A finding is shrunk: ever smaller parts
 * of the list are left out as long as it still fails, each try in a child.
 */
#include "generate.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <swakv/error.h>

/* Written by the child, read by the parent. */
struct record {
	uint64_t seed; /* of the world being run */
	uint64_t n_worlds, n_commands;
	uint64_t codes[32], ops[OP_COUNT];
	uint64_t n_updates, n_references, n_scrubs, n_taken, n_moved, n_waited, n_claims, n_rooms, n_missed,
		n_page_moves, n_lost, n_emptying, n_told, n_pauses, n_asked, n_managed;
	uint64_t reasons[FAULT_REASON_COUNT];
	struct setup setup;
	uint32_t n;
	char error[512];
	struct command list[WORLD_COMMANDS];
};

struct options {
	uint64_t seed, commands, seconds;
	int64_t world; /* seed of the only world to run, -1: none */
	const char *write;
	const char *begins; /* file to write instead of running */
	bool quiet;
	bool moves; /* worlds in which pages move often */
};

/* ---- one world -------------------------------------------------------------------- */

/* Seconds of CPU that a world may take; a hundredth of one is usual. */
enum { MOST_SECONDS = 5 };

/* From here on this process has MOST_SECONDS, however busy the machine is. */
static void limit_time(void)
{
	const struct itimerval t = { .it_value = { .tv_sec = MOST_SECONDS } };

	setitimer(ITIMER_PROF, &t, NULL);
}

/* Of a child that a signal ended: what that says of the engine. */
static void tell_signal(int signal, char *error, size_t size)
{
	if (signal == SIGPROF)
		snprintf(error, size, "the engine does not end");
	else
		snprintf(error, size, "the engine ends with signal %d", signal);
}

static bool run_world(struct record *rec, uint64_t seed, bool moves)
{
	struct rng rng = { seed };
	struct mood mood;
	struct world *w;
	uint32_t most;
	bool good;

	limit_time();
	generate_setup(&rng, &rec->setup, &mood, moves);
	rec->seed = seed;
	rec->n = 0;
	most = (uint32_t)rng_between(&rng, 100, WORLD_COMMANDS);
	w = world_new(&rec->setup);
	if (!w)
		abort();
	good = !w->pool.error[0];
	while (good && rec->n < most) {
		struct command *c = &rec->list[rec->n];

		generate_command(&rng, &mood, w, (int32_t)rec->n, c);
		rec->n++;
		rec->ops[c->op]++;
		good = world_run(w, c) && (rec->n % 128 || world_scan(w));
	}
	good = good && world_scan(w);
	for (int i = 0; i < 32; i++)
		rec->codes[i] += w->codes[i];
	for (int i = 0; i < FAULT_REASON_COUNT; i++)
		rec->reasons[i] += w->reasons[i];
	rec->n_updates += w->n_updates;
	rec->n_scrubs += w->n_scrubs;
	rec->n_page_moves += w->n_page_moves;
	rec->n_emptying += w->n_emptying;
	rec->n_lost += w->pool.n_lost;
	rec->n_told += w->n_told;
	rec->n_taken += w->n_taken;
	rec->n_moved += w->n_moved;
	rec->n_asked += w->n_asked;
	rec->n_managed += w->n_managed;
	rec->n_waited += w->n_waited;
	rec->n_pauses += w->n_pauses;
	rec->n_claims += w->n_claims;
	rec->n_rooms += w->pool.n_rooms;
	rec->n_missed += w->pool.n_missed;
	rec->n_references += w->n_references;
	if (!good)
		snprintf(rec->error, sizeof rec->error, "%s", w->pool.error);
	else
		world_free(w);
	rec->n_worlds++;
	return good;
}

/* ---- shrinking -------------------------------------------------------------------- */

/* The child's part of a try: exit 0 when all went well. */
static void replay(const struct setup *setup, const struct command *list, uint32_t n, char *error, size_t size)
{
	struct world *w = world_new(setup);
	bool good = w != NULL;

	limit_time();
	for (uint32_t i = 0; i < n && good; i++)
		good = world_run(w, &list[i]) && world_scan(w);
	if (w)
		snprintf(error, size, "%s", w->pool.error);
	if (good)
		world_free(w);
	_exit(good ? 0 : 1);
}

/* True when the commands still end in a disagreement or a crash. */
static bool fails(const struct record *rec, const struct command *list, uint32_t n, char *error, size_t size)
{
	pid_t pid;
	int status;

	fflush(NULL);
	error[0] = '\0';
	pid = fork();
	if (pid < 0)
		return false;
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(0);
		replay(&rec->setup, list, n, error, size);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		tell_signal(WTERMSIG(status), error, size);
	return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

static void shrink(struct record *rec, char *error, size_t size)
{
	struct command *try = calloc(WORLD_COMMANDS, sizeof *try);
	char *seen = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (!try || seen == MAP_FAILED || !fails(rec, rec->list, rec->n, seen, size)) {
		fprintf(stderr, "the list alone does not fail: not shrunk\n");
		free(try);
		return;
	}
	for (uint32_t part = rec->n / 2; part > 0; part /= 2) {
		bool again = true;

		while (again) {
			again = false;
			for (uint32_t from = 0; from < rec->n;) {
				uint32_t out = from + part > rec->n ? rec->n - from : part;

				memcpy(try, rec->list, from * sizeof *try);
				memcpy(try + from, rec->list + from + out, (rec->n - from - out) * sizeof *try);
				if (fails(rec, try, rec->n - out, seen, size)) {
					rec->n -= out;
					memcpy(rec->list, try, rec->n * sizeof *try);
					again = part <= 4;
				} else {
					from += part;
				}
			}
		}
	}
	if (fails(rec, rec->list, rec->n, seen, size))
		snprintf(error, size, "%s", seen);
	free(try);
}

/* ---- the run ------------------------------------------------------------------------- */

static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_child(struct record *rec, const struct options *o)
{
	double end = seconds_now() + (double)o->seconds;
	struct rng rng = { o->seed };

	if (o->world >= 0)
		_exit(run_world(rec, (uint64_t)o->world, o->moves) ? 0 : 1);
	while (rec->n_commands < o->commands && (!o->seconds || seconds_now() < end)) {
		/* worlds are named by small numbers, easy to type */
		if (!run_world(rec, rng_next(&rng) >> 16, o->moves))
			_exit(1);
		rec->n_commands += rec->n;
	}
	_exit(0);
}

static void print_totals(const struct record *rec, double seconds)
{
	printf("%" PRIu64 " commands in %" PRIu64 " worlds, %.1f s, %.2f us each\nanswers:", rec->n_commands,
	       rec->n_worlds, seconds, rec->n_commands ? seconds * 1e6 / (double)rec->n_commands : 0);
	for (int i = 0; i < 32; i++)
		if (rec->codes[i])
			printf(" %s %" PRIu64, swakv_error_name(-i), rec->codes[i]);
	printf("\nreasons:");
	for (uint32_t i = 0; i < FAULT_REASON_COUNT; i++)
		if (rec->reasons[i])
			printf(" %s %" PRIu64, reason_name(i), rec->reasons[i]);
	printf("\ncommands:");
	for (int i = 0; i < OP_COUNT; i++)
		printf(" %s %" PRIu64, command_name((enum op)i), rec->ops[i]);
	printf("\nupdates delivered %" PRIu64 ", deliveries by reference %" PRIu64 ", rows to be scrubbed %" PRIu64
	       "\npages that steps lacked %" PRIu64 ", extents that left a class %" PRIu64
	       ", begins admitted after a wait %" PRIu64 ", claims %" PRIu64
	       ", pauses in the middle of a command %" PRIu64 "\npages that sessions took themselves %" PRIu64
	       ", times that one was asked for some %" PRIu64 "\nrefusals that hang on who gets which extents %" PRIu64
	       ", of these where there was a way %" PRIu64 "\nextents that were to come empty %" PRIu64
	       ", pages that moved %" PRIu64 ", requests that ended in such a step %" PRIu64
	       ", ranges of pages that sessions were told %" PRIu64 "\n",
	       rec->n_updates, rec->n_references, rec->n_scrubs, rec->n_taken, rec->n_moved, rec->n_waited,
	       rec->n_claims, rec->n_pauses, rec->n_managed, rec->n_asked, rec->n_rooms, rec->n_missed, rec->n_emptying,
	       rec->n_page_moves, rec->n_lost, rec->n_told);
}

/* For several classes the engine looks for extents class by class: in small pools the model knows when it was in vain.
 */
static bool misses_too_many(const struct record *rec)
{
	/* of few, those of one world would be many */
	return rec->n_rooms > 3000 && 200 * rec->n_missed > rec->n_rooms;
}

/* What --moves is for. */
static bool moves_too_few(const struct record *rec, const struct options *o)
{
	/* usual is one in 60; of few commands, those of one world would be many */
	return o->moves && rec->n_commands >= 100000 && 200 * rec->n_page_moves < rec->n_commands;
}

static void report(struct record *rec, const struct options *o)
{
	char error[512];
	FILE *out;

	snprintf(error, sizeof error, "%s", rec->error);
	printf("FOUND after %" PRIu64 " commands: %s\nworld %" PRIu64 ", command %u (repeat: %s--world %" PRIu64 ")\n",
	       rec->n_commands + rec->n, error, rec->seed, rec->n, o->moves ? "--moves " : "", rec->seed);
	if (o->quiet)
		return;
	shrink(rec, error, sizeof error);
	printf("shrunk to %u commands: %s\n", rec->n, error);
	for (uint32_t i = 0; i < rec->n && i < 200; i++)
		command_print(stdout, &rec->setup, &rec->list[i]);
	fflush(stdout);
	if (!o->write) {
		printf("--write FILE writes them as a scenario\n");
		return;
	}
	out = fopen(o->write, "w");
	if (out && fork() == 0) {
		scenario_write(out, &rec->setup, rec->list, rec->n, error);
		fclose(out);
		_exit(0);
	}
	if (out) {
		wait(NULL);
		fclose(out);
		printf("written to %s\n", o->write);
	}
}

/* A worker of each model of the world that begins a sequence: what engine and broker make of their pages. */
static int write_begins(struct record *rec, const struct options *o)
{
	struct rng rng = { (uint64_t)o->world };
	FILE *out = fopen(o->begins, "w");
	struct mood mood;

	if (o->world < 0 || !out) {
		fprintf(stderr, "--begins FILE needs --world N, and a file that can be written\n");
		return 2;
	}
	generate_setup(&rng, &rec->setup, &mood, o->moves);
	for (uint32_t i = 0; i < rec->setup.n_models; i++) {
		rec->list[rec->n++] = (struct command){ .op = OP_ATTACH, .session = i, .value = i };
		rec->list[rec->n] =
			(struct command){ .op = OP_BEGIN, .session = i, .request = (int32_t)rec->n, .n = 1 };
		rec->n++;
	}
	scenario_write(out, &rec->setup, rec->list, rec->n, "one sequence of each model");
	return fclose(out) ? 2 : 0;
}

static void parse(int argc, char **argv, struct options *o)
{
	static const struct option table[] = {
		{ "seed", required_argument, NULL, 's' },    { "commands", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 't' }, { "world", required_argument, NULL, 'w' },
		{ "write", required_argument, NULL, 'o' },   { "quiet", no_argument, NULL, 'q' },
		{ "moves", no_argument, NULL, 'm' },         { "begins", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },          { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", table, NULL)) != -1) {
		switch (c) {
		case 's':
			o->seed = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			o->commands = strtoull(optarg, NULL, 0);
			break;
		case 't':
			o->seconds = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			o->world = strtoll(optarg, NULL, 0);
			break;
		case 'o':
			o->write = optarg;
			break;
		case 'b':
			o->begins = optarg;
			break;
		case 'q':
			o->quiet = true;
			break;
		case 'm':
			o->moves = true;
			break;
		default:
			printf("usage: %s [--seed N] [--commands N] [--seconds N] [--world N] [--write FILE] "
			       "[--quiet] [--moves] [--begins FILE]\n",
			       argv[0]);
			exit(c == 'h' ? 0 : 2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options o = { .seed = 1, .commands = 200000, .world = -1 };
	struct record *rec = mmap(NULL, sizeof *rec, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start = seconds_now();
	int status;
	pid_t pid;

	if (rec == MAP_FAILED)
		return 2;
	parse(argc, argv, &o);
	if (o.begins)
		return write_begins(rec, &o);
	printf("seed %" PRIu64 "\n", o.seed);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return 2;
	if (pid == 0)
		run_child(rec, &o);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		tell_signal(WTERMSIG(status), rec->error, sizeof rec->error);
	if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0)
		report(rec, &o);
	print_totals(rec, seconds_now() - start);
	if (misses_too_many(rec)) {
		printf("FOUND: more than one in 200 of the refusals that hang on who gets which extents is wrong\n");
		return 1;
	}
	if (moves_too_few(rec, &o)) {
		printf("FOUND: only %" PRIu64 " pages have moved in so many commands\n", rec->n_page_moves);
		return 1;
	}
	return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}
