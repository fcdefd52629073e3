/* SPDX-License-Identifier: Apache-2.0 */
/* figure_request.c - begin and finish, prefill of 4,000 tokens, compaction: each a batch of 256 sequences, W 1024 */
#include "bench.h"

#define BATCH 256
#define TURNS 20

static double sample_begin(struct bench *b, void *arg)
{
	uint64_t sum = 0;

	for (int i = 0; i < TURNS; i++) {
		uint64_t start = ticks();
		swakv_request *r = bench_begin(arg, 0, BATCH);

		bench_ok(arg, swakv_request_finish(r, NULL), "finish");
		sum += ticks() - start;
		swakv_request_free(r);
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

static void prefill(swakv_session *s, swakv_request *r)
{
	int32_t lengths[BATCH];

	for (int i = 0; i < BATCH; i++)
		lengths[i] = 4000;
	bench_ok(s, swakv_prefill_prepare(r, lengths, BATCH, NULL), "prefill");
	bench_ok(s, swakv_prefill_complete(r, SWAKV_DONE, NULL), "prefill");
}

/* Prepare and complete. The rows hold the pages of the request before: the clears of those travel, too. */
static double sample_prefill(struct bench *b, void *arg)
{
	uint64_t sum = 0;

	for (int i = 0; i < TURNS; i++) {
		swakv_request *r = bench_begin(arg, 0, BATCH);
		uint64_t start = ticks();

		prefill(arg, r);
		sum += ticks() - start;
		bench_ok(arg, swakv_request_finish(r, NULL), "finish");
		swakv_request_free(r);
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

/* Every second sequence is dropped. */
static double sample_compact(struct bench *b, void *arg)
{
	int32_t map[BATCH];
	uint64_t sum = 0;

	for (int i = 0; i < BATCH; i++)
		map[i] = i % 2 ? -1 : i / 2;
	for (int i = 0; i < TURNS; i++) {
		swakv_request *r = bench_begin(arg, 0, BATCH);
		uint64_t start;

		prefill(arg, r);
		start = ticks();
		bench_ok(arg, swakv_compact_begin(r, map, BATCH, BATCH / 2, 0, 0, NULL), "compact");
		bench_ok(arg, swakv_compact_complete(r, SWAKV_DONE, NULL), "compact");
		sum += ticks() - start;
		bench_ok(arg, swakv_request_finish(r, NULL), "finish");
		swakv_request_free(r);
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

static void one(struct bench *b, const char *name, sample_fn *fn)
{
	swakv_session *s = bench_attach(b, 1024, BATCH, 0);

	bench_figure(b, name, fn, s);
	swakv_session_close(s);
}

void figure_begin(struct bench *b)
{
	one(b, "begin_finish_256", sample_begin);
}

void figure_prefill(struct bench *b)
{
	one(b, "prefill_4000_256", sample_prefill);
}

void figure_compact(struct bench *b)
{
	one(b, "compact_256", sample_compact);
}
