/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_scale.c - many workers at a time: throughput, latency, rounds of the broker waited
 *
 * Where there are fewer CPUs than workers the latencies are those of the
 * scheduler; the rounds that a command waits are the broker's own fairness.
 */
#include <math.h>

#include "stage.h"

static void value(struct bench *b, const char *stem, uint32_t n, const char *what, enum figure_unit unit, double v)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_%u_%s", stem, n, what);
	results_value(b->results, name, unit, v);
}

static void merge(struct histogram *to, const struct histogram *from)
{
	to->n += from->n;
	for (size_t i = 0; i < sizeof(to->counts) / sizeof(to->counts[0]); i++)
		to->counts[i] += from->counts[i];
}

/* The most rounds of the broker that a command of this worker waited. */
static double longest_wait(const struct bench *b, const struct lane *l)
{
	for (uint32_t i = 0; i < b->snapshot->n_sessions; i++)
		if (b->snapshot->sessions[i].id == l->session && b->snapshot->sessions[i].state == STATUS_ATTACHED)
			return (double)b->snapshot->sessions[i].longest_wait;
	return 0;
}

void figure_scale(struct bench *b)
{
	static const uint32_t workers[] = { 1, 2, 8, 32, 64 };
	struct curve *rate = results_curve(b->results, "throughput of many workers", "workers", "commands/s");
	double of_8 = 0;
	struct curve *tail = results_curve(b->results, "99th percentile of a command", "workers", "ns");

	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		static struct histogram latency;
		struct stage *g = stage_new(b, workers[i]);
		double per_s = 0, rounds = 0;

		latency = (struct histogram){ 0 };
		stage_start(g);
		stage_run(g, b, b->options.quick ? 300000000 : 2000000000);
		for (uint32_t k = 0; k < g->n; k++) {
			merge(&latency, &g->lanes[k].latency);
			rounds = fmax(rounds, longest_wait(b, &g->lanes[k]));
			per_s += (double)g->lanes[k].ops * 1e9 / (double)g->lanes[k].ns;
		}
		value(b, "workers", g->n, "commands", UNIT_PER_S, per_s);
		if (g->n == 8)
			of_8 = per_s;
		else if (g->n == 64)
			results_value(b->results, "workers_64_over_8", UNIT_RATIO, per_s / of_8);
		value(b, "workers", g->n, "p50", UNIT_NS, (double)histogram_quantile(&latency, 0.5) * b->ns_per_tick);
		value(b, "workers", g->n, "p99", UNIT_NS, (double)histogram_quantile(&latency, 0.99) * b->ns_per_tick);
		value(b, "workers", g->n, "p999", UNIT_NS,
		      (double)histogram_quantile(&latency, 0.999) * b->ns_per_tick);
		value(b, "workers", g->n, "rounds", UNIT_COUNT, rounds);
		curve_add(rate, g->n, per_s);
		curve_add(tail, g->n, (double)histogram_quantile(&latency, 0.99) * b->ns_per_tick);
		stage_free(g);
	}
}

/* p99 of a worker beside one of @role. */
static double victim_beside(struct bench *b, enum stage_role role, const char *name)
{
	struct stage *g = stage_new(b, 2);
	char text[64];
	double p99;

	g->lanes[1].role = role;
	stage_start(g);
	stage_run(g, b, b->options.quick ? 500000000 : 3000000000);
	p99 = (double)histogram_quantile(&g->lanes[0].latency, 0.99) * b->ns_per_tick;
	snprintf(text, sizeof(text), "victim_%s_p50", name);
	results_value(b->results, text, UNIT_NS,
		      (double)histogram_quantile(&g->lanes[0].latency, 0.5) * b->ns_per_tick);
	snprintf(text, sizeof(text), "victim_%s_p99", name);
	results_value(b->results, text, UNIT_NS, p99);
	if (role == ROLE_FLOOD)
		results_value(b->results, "victim_rounds", UNIT_COUNT, longest_wait(b, &g->lanes[0]));
	stage_free(g);
	return p99;
}

void figure_victim(struct bench *b)
{
	double flooded = victim_beside(b, ROLE_FLOOD, "flooder");

	results_value(b->results, "victim_over_spinner", UNIT_RATIO, flooded / victim_beside(b, ROLE_SPIN, "spinner"));
}

static double per_s(const struct lane *l)
{
	return (double)l->ops * 1e9 / (double)l->ns;
}

/* p50, p99 and longest wait of a worker alone, or beside one that makes long work, as figures of @name. Returns the
 * p99. */
static double beside(struct bench *b, bool busy, const char *name)
{
	static const struct {
		const char *what;
		double quantile;
	} parts[] = { { "p50", 0.5 }, { "p99", 0.99 }, { "longest", 1 } };
	struct stage *g = stage_new(b, busy ? 2 : 1);
	double ns[3];
	char text[64];

	if (busy)
		g->lanes[1].role = ROLE_LONG;
	stage_start(g);
	stage_run(g, b, b->options.quick ? 500000000 : 5000000000);
	for (int i = 0; i < 3; i++) {
		ns[i] = (double)histogram_quantile(&g->lanes[0].latency, parts[i].quantile) * b->ns_per_tick;
		snprintf(text, sizeof(text), "%s_%s", name, parts[i].what);
		results_value(b->results, text, UNIT_NS, ns[i]);
	}
	if (busy)
		results_value(b->results, "long_requests", UNIT_PER_S, per_s(&g->lanes[1]));
	stage_free(g);
	return ns[1];
}

/* Long requests, with nobody else to look at. */
static void figure_long_alone(struct bench *b)
{
	struct stage *g = stage_new(b, 1);

	g->lanes[0].role = ROLE_LONG;
	stage_start(g);
	stage_run(g, b, b->options.quick ? 500000000 : 5000000000);
	results_value(b->results, "long_alone_requests", UNIT_PER_S, per_s(&g->lanes[0]));
	stage_free(g);
}

void figure_long(struct bench *b)
{
	double quiet = beside(b, false, "quiet");

	results_value(b->results, "long_over_quiet", UNIT_RATIO, beside(b, true, "long") / quiet);
	figure_long_alone(b);
	results_value(b->results, "long_pages", UNIT_COUNT, BENCH_TINY_PAGES);
}

void figure_trace(struct bench *b)
{
	static const uint32_t workers[] = { 1, 4, 16 };

	for (size_t i = 0; b->options.trace && i < sizeof(workers) / sizeof(workers[0]); i++) {
		static struct histogram latency;
		struct stage *g = stage_new(b, workers[i]);
		uint64_t tokens = 0, requests = 0, start;
		double s;

		latency = (struct histogram){ 0 };
		for (uint32_t k = 0; k < g->n; k++)
			g->lanes[k].role = ROLE_TRACE;
		stage_start(g);
		start = clock_ns();
		stage_finish(g);
		s = (double)(clock_ns() - start) / 1e9;
		for (uint32_t k = 0; k < g->n; k++) {
			merge(&latency, &g->lanes[k].latency);
			tokens += g->lanes[k].ops;
			requests += g->lanes[k].requests;
		}
		value(b, "trace", g->n, "tokens", UNIT_PER_S, (double)tokens / s);
		value(b, "trace", g->n, "requests", UNIT_PER_S, (double)requests / s);
		value(b, "trace", g->n, "step_p50", UNIT_NS,
		      (double)histogram_quantile(&latency, 0.5) * b->ns_per_tick);
		value(b, "trace", g->n, "step_p99", UNIT_NS,
		      (double)histogram_quantile(&latency, 0.99) * b->ns_per_tick);
		stage_free(g);
	}
}
