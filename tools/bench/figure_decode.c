/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_decode.c - decode prepare and complete of one request, there and back
 *
 * All sequences of the batch run in step, which is the worst case: in one step
 * of P all of them map a page, in another all of them stage one. `mean` is over
 * 1,000 steps, `plain` the steps that change no entry, `map` those in which all
 * sequences map a page.
 */
#include <stdlib.h>

#include "bench.h"

#define P     128
#define STEPS 1000
#define FROM  4000 /* tokens before the first step */

struct decode {
	swakv_session *s;
	uint32_t batch;
	double plain, map;
};

static void prefilled(struct decode *d, swakv_request *r)
{
	int32_t lengths[256];

	for (uint32_t i = 0; i < d->batch; i++)
		lengths[i] = FROM;
	bench_ok(d->s, swakv_prefill_prepare(r, lengths, d->batch, NULL), "prefill");
	bench_ok(d->s, swakv_prefill_complete(r, SWAKV_DONE, NULL), "prefill");
}

/* Returns the mean; leaves the medians of the plain and of the mapping steps in *@d. */
static double sample_decode(struct bench *b, void *arg)
{
	struct decode *d = arg;
	swakv_request *r = bench_begin(d->s, 0, d->batch);
	static double plain[SERIES_MAX], map[SERIES_MAX];
	uint32_t n_plain = 0, n_map = 0;
	uint64_t sum = 0;

	prefilled(d, r);
	for (int64_t e = FROM + 1; e <= FROM + STEPS; e++) {
		uint64_t start = ticks(), t;

		bench_ok(d->s, swakv_decode_prepare(r, NULL), "prepare");
		bench_ok(d->s, swakv_decode_complete(r, SWAKV_DONE, NULL), "complete");
		t = ticks() - start;
		sum += t;
		if (e % P == 1)
			map[n_map++] = (double)t;
		/* 0 stages a page, 1 maps one; 2 clears nothing any more */
		else if (e % P > 1 && n_plain < SERIES_MAX)
			plain[n_plain++] = (double)t;
	}
	d->plain = series_median(plain, n_plain) * b->ns_per_tick;
	d->map = series_median(map, n_map) * b->ns_per_tick;
	bench_ok(d->s, swakv_request_finish(r, NULL), "finish");
	swakv_request_free(r);
	return (double)sum * b->ns_per_tick / STEPS;
}

static double take_plain(struct bench *b, void *arg)
{
	sample_decode(b, arg);
	return ((struct decode *)arg)->plain;
}

static double take_map(struct bench *b, void *arg)
{
	sample_decode(b, arg);
	return ((struct decode *)arg)->map;
}

static void one(struct bench *b, uint32_t batch, int64_t window, const char *suffix)
{
	struct decode d = { .s = bench_attach(b, window, batch, 0), .batch = batch };
	char name[48];

	snprintf(name, sizeof(name), "decode_%u%s", batch, suffix);
	bench_figure(b, name, sample_decode, &d);
	snprintf(name, sizeof(name), "decode_%u%s_plain", batch, suffix);
	bench_figure(b, name, take_plain, &d);
	snprintf(name, sizeof(name), "decode_%u%s_map", batch, suffix);
	bench_figure(b, name, take_map, &d);
	swakv_session_close(d.s);
}

void figure_decode(struct bench *b)
{
	one(b, 256, 1024, "");
	one(b, 1, 1024, "");
	one(b, 256, 4096, "_w4096");
	if (b->options.quick)
		return;
	one(b, 8, 1024, "");
	one(b, 64, 1024, "");
	one(b, 1, 4096, "_w4096");
	one(b, 8, 4096, "_w4096");
	one(b, 64, 4096, "_w4096");
}
