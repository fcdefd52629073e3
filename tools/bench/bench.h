/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - what the figures share: the broker, the CPUs, the clock, the way a sample is taken
 *
 * Two processes on two CPUs: this one (a worker), and either the broker's ring
 * thread or the peer of a bare mechanism. The same spin round trip between the
 * same two CPUs is measured before and after each sample; a sample whose two
 * differ by more than 35 % is dropped, since the machine changed under it.
 */
#ifndef SWAKV_BENCH_H
#define SWAKV_BENCH_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <swakv/swakv.h>

#include "clock.h"
#include "private_broker.h"
#include "results.h"
#include "status_page.h"

struct peer;

struct bench_options {
	bool quick;
	bool pin;
	int cpu[2];        /* worker, broker */
	cpu_set_t allowed; /* all that this process may use */
	int n_cpus;
	const char *only;  /* figures whose name contains it; NULL: all */
	const char *trace; /* NULL: none */
	uint32_t spin_us;  /* of broker and workers; 0: their defaults */
};

struct bench {
	struct bench_options options;
	struct private_broker broker;
	struct status_reader status;
	struct status_snapshot *snapshot;
	pid_t broker_tid; /* of its ring thread */
	struct peer *peer;
	struct results *results;
	double ns_per_tick;
	bool pinned;
};

/* A sentence to the standard error, then exit(1); the broker and its traces are removed. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- clock ---- */

/* A time stamp counter where there is one, else nanoseconds. */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	unsigned int aux;

	return __builtin_ia32_rdtscp(&aux);
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#else
	return clock_ns();
#endif
}

/* ---- samples ---- */

/* Does the work once and returns nanoseconds for one operation of it. */
typedef double sample_fn(struct bench *b, void *arg);
/*
 * Takes samples of @fn until @wanted good ones are there or @seconds have
 * passed (at least one is taken), and records figure @name. Returns it.
 */
struct figure *bench_figure(struct bench *b, const char *name, sample_fn *fn, void *arg);
/* The parts of bench_figure(), for what is sampled in turn with something else: one sample; whether to go on. */
void bench_sample(struct bench *b, struct series *s, sample_fn *fn, void *arg);
bool bench_more(const struct bench *b, const struct series *s, uint64_t started_ns);
/* True when figure @name was asked for. */
bool bench_wants(const struct bench *b, const char *name);

/* ---- the broker ---- */

#define BENCH_PAGES      40000 /* of the pool */
#define BENCH_TINY_PAGES 2000000
#define BENCH_TINY_BYTES 32 /* of the K of one */
/* Its ring thread to CPU @cpu. */
void bench_pin_broker(struct bench *b);
void bench_pin_self(const struct bench *b, int cpu);
/* A current snapshot to b->snapshot. */
void bench_read_status(struct bench *b);

/* A session of a model of P 128 whose window is @window. Exits on failure. */
swakv_session *bench_attach(const struct bench *b, int64_t window, uint32_t max_batch, uint32_t spin_us);
/* A session of full attention in pages of BENCH_TINY_BYTES, whose @max_batch sequences hold BENCH_TINY_PAGES. */
swakv_session *bench_attach_tiny(const struct bench *b, uint32_t max_batch);
/* A request of slots [first, first + n). Exits on failure. */
swakv_request *bench_begin(swakv_session *s, uint32_t first, uint32_t n);
/* Exits with the session's sentence when @code is not 0. */
void bench_ok(swakv_session *s, int code, const char *what);

/* ---- figures, one a file ---- */

typedef void figure_fn(struct bench *b);
figure_fn figure_spin, figure_noop, figure_oneway, figure_decode, figure_begin, figure_prefill, figure_compact,
	figure_wake, figure_scale, figure_victim, figure_long, figure_attach, figure_kill, figure_idle, figure_memory,
	figure_trace, figure_pages, figure_turn, figure_step;

#endif
