/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_turn.c - a decode step in one message: the complete of the last, the prepare of the next
 *
 * Of one request of 1, 8 and 256 sequences, and of 256 requests of one sequence, as
 * a serving engine has them. The sequences do not run in step: each begins at
 * another place of its page, so that a step of 256 maps about two pages. `mean` is
 * over 1,000 steps, `plain` the median.
 */
#include <stdio.h>

#include "bench.h"

#define P     128
#define STEPS 1000
#define FROM  4000 /* tokens before the first step, at least */
#define MOST  256

struct turns {
	swakv_session *s;
	uint32_t n_requests, batch; /* sequences of each */
	bool plain;                 /* the median is asked for */
	struct swakv_turn list[MOST];
};

static void begin_all(struct turns *t)
{
	for (uint32_t i = 0; i < t->n_requests; i++) {
		swakv_request *r = bench_begin(t->s, i * t->batch, t->batch);
		int32_t lengths[MOST];

		for (uint32_t k = 0; k < t->batch; k++)
			lengths[k] = FROM + (int32_t)((i * t->batch + k) * 37 % P);
		bench_ok(t->s, swakv_prefill_prepare(r, lengths, t->batch, NULL), "prefill");
		bench_ok(t->s, swakv_prefill_complete(r, SWAKV_DONE, NULL), "prefill");
		t->list[i] =
			(struct swakv_turn){ .size = sizeof(t->list[0]), .what = SWAKV_TURN_PREPARE, .request = r };
	}
}

static void end_all(struct turns *t)
{
	for (uint32_t i = 0; i < t->n_requests; i++)
		t->list[i].what = SWAKV_TURN_COMPLETE | SWAKV_TURN_FINISH;
	bench_ok(t->s, swakv_step_turn(t->s, t->list, t->n_requests, NULL), "finish");
	for (uint32_t i = 0; i < t->n_requests; i++)
		swakv_request_free(t->list[i].request);
}

static double sample_turn(struct bench *b, void *arg)
{
	struct turns *t = arg;
	static double each[SERIES_MAX];
	uint32_t n = 0;
	uint64_t sum = 0;

	begin_all(t);
	bench_ok(t->s, swakv_step_turn(t->s, t->list, t->n_requests, NULL), "prepare");
	for (uint32_t i = 0; i < t->n_requests; i++)
		t->list[i].what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE;
	for (int e = 0; e < STEPS; e++) {
		uint64_t start = ticks(), took;

		bench_ok(t->s, swakv_step_turn(t->s, t->list, t->n_requests, NULL), "turn");
		took = ticks() - start;
		sum += took;
		if (n < SERIES_MAX)
			each[n++] = (double)took;
	}
	end_all(t);
	return t->plain ? series_median(each, n) * b->ns_per_tick : (double)sum * b->ns_per_tick / STEPS;
}

static void one(struct bench *b, uint32_t n_requests, uint32_t batch, const char *name)
{
	static struct turns t;
	char plain[48];

	t = (struct turns){ .s = bench_attach(b, 1024, MOST, 0), .n_requests = n_requests, .batch = batch };
	bench_figure(b, name, sample_turn, &t);
	t.plain = true;
	snprintf(plain, sizeof(plain), "%s_plain", name);
	bench_figure(b, plain, sample_turn, &t);
	swakv_session_close(t.s);
}

void figure_turn(struct bench *b)
{
	one(b, 1, 1, "turn_1");
	one(b, 1, 256, "turn_256");
	one(b, 256, 1, "turn_256_requests");
	if (!b->options.quick)
		one(b, 1, 8, "turn_8");
}
