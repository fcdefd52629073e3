/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "serve.h"

#define IN_FLIGHT    24 /* of the flooder */
#define WORKER_BATCH 16
#define HOLDER_BATCH 256
#define LONG_BATCH   4

static int stage_fd = -1;

static void nap(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

/* ---- the parent's side --------------------------------------------------------- */

struct stage *stage_new(const struct bench *b, uint32_t n)
{
	struct stage *g;

	stage_fd = memfd_create("swakv-bench", 0);
	if (stage_fd < 0 || ftruncate(stage_fd, sizeof(*g)) < 0)
		bench_die("no shared memory for the workers: %s", strerror(errno));
	g = mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED, stage_fd, 0);
	if (g == MAP_FAILED)
		bench_die("no shared memory for the workers: %s", strerror(errno));
	g->n = n;
	g->spin_us = b->options.spin_us;
	g->cpus = b->options.allowed;
	if (b->pinned)
		CPU_CLR(b->options.cpu[1], &g->cpus);
	memcpy(g->name, b->broker.name, sizeof(g->name));
	memcpy(g->socket, b->broker.socket, sizeof(g->socket));
	if (b->options.trace)
		snprintf(g->trace, sizeof(g->trace), "%s", b->options.trace);
	return g;
}

struct stage *stage_free(struct stage *g)
{
	munmap(g, sizeof(*g));
	close_fd(&stage_fd);
	return NULL;
}

static pid_t start_worker(uint32_t index)
{
	char where[32];
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	snprintf(where, sizeof(where), "%u:%d", index, stage_fd);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl("/proc/self/exe", "swakv-bench", "--worker", where, (char *)NULL);
	_exit(127);
}

void stage_start(struct stage *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		g->lanes[i].pid = start_worker(i);
		if (g->lanes[i].pid < 0)
			bench_die("worker %u could not be started: %s", i, strerror(errno));
	}
	while (load_acquire(&g->ready) < g->n) {
		int status;

		if (waitpid(-1, &status, WNOHANG) > 0)
			bench_die("a worker ended before it was ready");
		nap(1000000);
	}
}

static void release(shm_u32 *word)
{
	store_release(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_for_release(shm_u32 *word)
{
	while (!load_acquire(word))
		syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void collect(struct stage *g)
{
	for (uint32_t i = 0; i < g->n; i++) {
		int status = 0;

		if (waitpid(g->lanes[i].pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			bench_die("worker %u failed", i);
	}
}

void stage_run(struct stage *g, struct bench *b, uint64_t ns)
{
	uint64_t stopped;

	release(&g->go);
	nap(ns);
	store_release(&g->stop, 1);
	stopped = clock_ns();
	do {
		nap(10000000);
		bench_read_status(b);
	} while (b->snapshot->published_ns < stopped && clock_ns() - stopped < 60 * NS_PER_S);
	release(&g->end);
	collect(g);
}

void stage_finish(struct stage *g)
{
	release(&g->go);
	release(&g->end);
	collect(g);
}

/* ---- a worker -------------------------------------------------------------------- */

static void run_noop(struct stage *g, struct lane *l, swakv_session *s)
{
	while (!load_relaxed(&g->stop)) {
		uint64_t start = ticks();

		bench_ok(s, swakv_session_ping(s, NULL), "ping");
		histogram_add(&l->latency, ticks() - start);
		l->ops++;
	}
}

static void run_flood(struct stage *g, struct lane *l, swakv_session *s)
{
	swakv_ticket tickets[IN_FLIGHT];

	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		bench_ok(s, swakv_session_ping(s, &tickets[i]), "ping");
	for (; !load_relaxed(&g->stop); l->ops++) {
		bench_ok(s, swakv_wait(s, tickets[l->ops % IN_FLIGHT]), "ping");
		bench_ok(s, swakv_session_ping(s, &tickets[l->ops % IN_FLIGHT]), "ping");
	}
	for (uint32_t i = 0; i < IN_FLIGHT; i++)
		bench_ok(s, swakv_wait(s, tickets[(l->ops + i) % IN_FLIGHT]), "ping");
}

static void run_long(struct stage *g, struct lane *l, swakv_session *s)
{
	for (; !load_relaxed(&g->stop); l->ops++) {
		swakv_request *r = bench_begin(s, 0, LONG_BATCH);

		bench_ok(s, swakv_request_finish(r, NULL), "finish");
		swakv_request_free(r);
	}
}

static void run_spin(struct stage *g, struct lane *l)
{
	while (!load_relaxed(&g->stop))
		cpu_relax();
}

static void run_lane(struct stage *g, struct lane *l, swakv_session *s, uint32_t index)
{
	switch ((enum stage_role)l->role) {
	case ROLE_NOOP:
		run_noop(g, l, s);
		break;
	case ROLE_FLOOD:
		run_flood(g, l, s);
		break;
	case ROLE_SPIN:
		run_spin(g, l);
		break;
	case ROLE_LONG:
		run_long(g, l, s);
		break;
	case ROLE_HOLDER:
		pause();
		break;
	case ROLE_TRACE:
		serve_trace(s, g->trace, index, g->n, l);
		break;
	}
}

int stage_worker(const char *where)
{
	struct bench b = { 0 };
	struct swakv_session_info info = { .size = sizeof(info) };
	struct stage *g;
	struct lane *l;
	swakv_session *s;
	uint64_t start;
	uint32_t index;
	int fd;

	if (sscanf(where, "%u:%d", &index, &fd) != 2 || index >= STAGE_MAX)
		return 2;
	g = mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (g == MAP_FAILED)
		return 2;
	l = &g->lanes[index];
	sched_setaffinity(0, sizeof(g->cpus), &g->cpus);
	memcpy(b.broker.name, g->name, sizeof(g->name));
	memcpy(b.broker.socket, g->socket, sizeof(g->socket));
	b.options.spin_us = g->spin_us;
	s = l->role == ROLE_LONG ? bench_attach_tiny(&b, LONG_BATCH)
				 : bench_attach(&b, 1024, l->role == ROLE_HOLDER ? HOLDER_BATCH : WORKER_BATCH, 0);
	if (l->role == ROLE_HOLDER)
		bench_begin(s, 0, HOLDER_BATCH);
	swakv_session_get_info(s, &info);
	l->session = info.session_id;
	add_relaxed(&g->ready, 1);
	wait_for_release(&g->go);
	start = clock_ns();
	run_lane(g, l, s, index);
	l->ns = clock_ns() - start;
	wait_for_release(&g->end);
	swakv_session_close(s);
	return 0;
}
