/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h - many worker processes at a time: this program run again, one process a worker
 *
 * They meet in shared memory: each attaches, says that it is ready, works from
 * `go` to `stop` and leaves its counts in its lane.
 */
#ifndef SWAKV_BENCH_STAGE_H
#define SWAKV_BENCH_STAGE_H

#include "atomics.h"
#include "bench.h"
#include "histogram.h"

#define STAGE_MAX 64

enum stage_role {
	ROLE_NOOP,   /* one command that does nothing after the other */
	ROLE_FLOOD,  /* as many of them in flight as it can have */
	ROLE_SPIN,   /* attached, burns its CPU, sends nothing */
	ROLE_HOLDER, /* begins a large request and waits to be killed */
	ROLE_LONG,   /* begins and finishes requests of BENCH_TINY_PAGES pages, one after the other */
	ROLE_TRACE,  /* serves its share of the trace */
};

struct lane {
	_Alignas(CACHELINE) uint32_t role; /* enum stage_role */
	pid_t pid;
	uint32_t session; /* its id at the broker */
	uint64_t ops;
	uint64_t ns; /* it worked for */
	uint64_t requests;
	struct histogram latency; /* ticks */
};

struct stage {
	_Alignas(CACHELINE) shm_u32 ready;
	_Alignas(CACHELINE) shm_u32 go;
	_Alignas(CACHELINE) shm_u32 stop;
	_Alignas(CACHELINE) shm_u32 end;       /* until then they stay attached */
	char name[32], socket[80], trace[256]; /* broker; file */
	cpu_set_t cpus;                        /* of the workers */
	uint32_t spin_us;
	uint32_t n;
	struct lane lanes[STAGE_MAX];
};

/* Shared memory for @n workers of @b's broker, not started. Exits on failure. */
struct stage *stage_new(const struct bench *b, uint32_t n);
struct stage *stage_free(struct stage *g);
/* Starts all workers and waits until they are attached. */
void stage_start(struct stage *g);
/* From go to stop in @ns; then all have ended, and b->snapshot shows them between the two. */
void stage_run(struct stage *g, struct bench *b, uint64_t ns);
/* Lets them go and waits until all have ended by themselves. */
void stage_finish(struct stage *g);
/* The worker: `swakv-bench --worker INDEX:FD`. Returns its exit code. */
int stage_worker(const char *where);

#endif
