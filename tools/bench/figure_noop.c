/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_noop.c - the spin itself, and a command that does nothing, there and back
 *
 * The mean comes from a run without a look at the clock between the commands;
 * the percentiles from runs with one round each of them, so they contain it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

#define PASSES 9

static double sample_spin(struct bench *b, void *arg)
{
	return peer_spin(b->peer, b->options.quick ? 5000 : 20000);
}

void figure_spin(struct bench *b)
{
	bench_figure(b, "spin", sample_spin, NULL);
}

static void pings(swakv_session *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bench_ok(s, swakv_session_ping(s, NULL), "ping");
}

static double sample_noop(struct bench *b, void *arg)
{
	uint32_t n = 5000; /* less than a scheduler's time slice */
	uint64_t start;

	pings(arg, 500);
	start = clock_ns();
	pings(arg, n);
	return (double)(clock_ns() - start) / n;
}

static int by_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void distribution(struct bench *b, swakv_session *s)
{
	uint32_t n = b->options.quick ? 20000 : 100000;
	uint64_t *t = calloc(n, sizeof(*t));
	double p50[PASSES], p99[PASSES], p999[PASSES], tail[PASSES];
	struct curve *c = results_curve(b->results, "round trip of a command", "percentile", "ns");

	for (int pass = 0; t && pass < PASSES; pass++) {
		pings(s, 1000);
		for (uint32_t i = 0; i < n; i++) {
			uint64_t start = ticks();

			bench_ok(s, swakv_session_ping(s, NULL), "ping");
			t[i] = ticks() - start;
		}
		qsort(t, n, sizeof(*t), by_ticks);
		p50[pass] = (double)t[n / 2] * b->ns_per_tick;
		p99[pass] = (double)t[n / 100 * 99] * b->ns_per_tick;
		p999[pass] = (double)t[n / 1000 * 999] * b->ns_per_tick;
		tail[pass] = p99[pass] / p50[pass];
	}
	for (int i = 0; t && i < 100; i++)
		curve_add(c, i, (double)t[(uint64_t)n * (uint32_t)i / 100] * b->ns_per_tick);
	free(t);
	results_value(b->results, "noop_p50", UNIT_NS, series_median(p50, PASSES));
	results_value(b->results, "noop_p99", UNIT_NS, series_median(p99, PASSES));
	results_value(b->results, "noop_p999", UNIT_NS, series_median(p999, PASSES));
	results_value(b->results, "noop_p99_over_p50", UNIT_RATIO, series_median(tail, PASSES));
}

/* Both sides make a system call only to sleep or to wake the other, and this side counts its own of both. */
static void system_calls(struct bench *b, swakv_session *s)
{
	struct swakv_session_counters before = { .size = sizeof(before) }, after = { .size = sizeof(after) };
	uint32_t n = b->options.quick ? 20000 : 200000;

	pings(s, 1000);
	swakv_session_get_counters(s, &before);
	pings(s, n);
	swakv_session_get_counters(s, &after);
	results_value(b->results, "noop_system_calls", UNIT_COUNT,
		      (double)(after.wakeups_sent - before.wakeups_sent + after.sleeps - before.sleeps) / n);
}

void figure_noop(struct bench *b)
{
	swakv_session *s = bench_attach(b, 1024, 1, 0);

	bench_figure(b, "noop", sample_noop, s);
	distribution(b, s);
	system_calls(b, s);
	swakv_session_close(s);
}
