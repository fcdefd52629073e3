/* SPDX-License-Identifier: Apache-2.0 */
/* figure_life.c - attach, the death of a worker, an idle broker, and the memory of one */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "stage.h"

/* Attach and close. */
static double sample_attach(struct bench *b, void *arg)
{
	uint64_t start = clock_ns();

	swakv_session_close(bench_attach(b, 1024, 16, 0));
	return (double)(clock_ns() - start);
}

void figure_attach(struct bench *b)
{
	bench_figure(b, "attach_close", sample_attach, NULL);
}

static int64_t free_pages(swakv_session *s)
{
	int64_t n = 0;

	bench_ok(s, swakv_session_free_pages(s, &n), "free pages");
	return n;
}

/* A worker that holds 256 sequences is killed; until another one sees its pages free. */
static double sample_kill(struct bench *b, void *arg)
{
	struct stage *g = stage_new(b, 1);
	int64_t before = free_pages(arg);
	uint64_t start;

	g->lanes[0].role = ROLE_HOLDER;
	stage_start(g);
	store_release(&g->go, 1);
	if (free_pages(arg) >= before)
		bench_die("the worker holds no pages");
	start = clock_ns();
	kill(g->lanes[0].pid, SIGKILL);
	while (free_pages(arg) < before)
		;
	start = clock_ns() - start;
	waitpid(g->lanes[0].pid, NULL, 0);
	stage_free(g);
	return (double)start;
}

void figure_kill(struct bench *b)
{
	swakv_session *s = bench_attach(b, 1024, 1, 0);

	bench_figure(b, "kill_to_free", sample_kill, s);
	swakv_session_close(s);
}

/* CPU time of all threads of process @pid. */
static uint64_t cpu_ns(pid_t pid)
{
	char path[300];
	uint64_t sum = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		unsigned long long ns = 0;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
		AUTO_FCLOSE FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");

		if (f && fscanf(f, "%llu", &ns) == 1)
			sum += ns;
	}
	if (d)
		closedir(d);
	return sum;
}

/* One worker is attached and does nothing. */
void figure_idle(struct bench *b)
{
	swakv_session *s = bench_attach(b, 1024, 16, 0);
	uint64_t before, start;

	usleep(300000);
	start = clock_ns();
	before = cpu_ns(b->broker.pid);
	usleep(b->options.quick ? 2000000 : 10000000);
	results_value(b->results, "idle_cpu", UNIT_PERCENT,
		      100.0 * (double)(cpu_ns(b->broker.pid) - before) / (double)(clock_ns() - start));
	swakv_session_close(s);
}

/* Resident bytes of process @pid. */
static double resident(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	AUTO_FCLOSE FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Rss:", 4))
			kib = atof(line + 4);
	return kib * 1024;
}

void figure_memory(struct bench *b)
{
	enum { SESSIONS = 16 };
	swakv_session *s[SESSIONS];
	double before = resident(b->broker.pid);

	results_value(b->results, "memory_broker", UNIT_BYTES, before);
	for (int i = 0; i < SESSIONS; i++)
		s[i] = bench_attach(b, 1024, 16, 0);
	results_value(b->results, "memory_session", UNIT_BYTES, (resident(b->broker.pid) - before) / SESSIONS);
	for (int i = 0; i < SESSIONS; i++)
		swakv_session_close(s[i]);
}
