/* SPDX-License-Identifier: Apache-2.0 */
/* figure_pages.c - pages that a worker manages itself: takes of 1, 64 and 4,096 of them, and gives */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { TURNS = 1000, TURNS_OF_MANY = TURNS / 10 };

struct pages {
	swakv_session *s;
	uint32_t n;
	bool gives;                /* else takes are what counts */
	double ratios[SERIES_MAX]; /* of each sample: to a command that does nothing, in the same turns */
	uint32_t n_ratios;
};

static int by_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median_of(uint64_t *took, int turns)
{
	qsort(took, (size_t)turns, sizeof(took[0]), by_ticks);
	return took[turns / 2];
}

/* The median of some turns. Pages that it overwrites and had last: nothing is scrubbed. */
static double sample_pages(struct bench *b, void *arg)
{
	struct pages *p = arg;
	int turns = p->n > TURNS ? TURNS_OF_MANY : TURNS;
	uint64_t took[TURNS], nothing[TURNS], median;
	int32_t ids[SWAKV_MAX_PAGES];

	for (int i = 0; i < turns; i++) {
		uint64_t start = ticks(), take, give;
		uint32_t n;

		bench_ok(p->s, swakv_session_ping(p->s, NULL), "ping");
		take = ticks();
		bench_ok(p->s, swakv_pages_take(p->s, 0, 0, SWAKV_TAKE_OVERWRITES, p->n, p->n, 0, ids, &n, NULL),
			 "take");
		give = ticks();
		bench_ok(p->s, swakv_pages_give(p->s, 0, ids, n, NULL, 0, NULL), "give");
		took[i] = p->gives ? ticks() - give : give - take;
		nothing[i] = take - start;
	}
	median = median_of(took, turns);
	if (p->n_ratios < SERIES_MAX)
		p->ratios[p->n_ratios++] = (double)median / (double)median_of(nothing, turns);
	return (double)median * b->ns_per_tick;
}

void figure_pages(struct bench *b)
{
	static const uint32_t counts[] = { 1, 64, SWAKV_MAX_PAGES };
	struct pages p = { .s = bench_attach(b, 1024, 1, 0) };
	char name[32], over[48];

	for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
		p.n = counts[i / 2];
		p.gives = i % 2;
		p.n_ratios = 0;
		snprintf(name, sizeof(name), "%s_%u", p.gives ? "give" : "take", p.n);
		snprintf(over, sizeof(over), "%s_over_noop", name);
		bench_figure(b, name, sample_pages, &p);
		results_value(b->results, over, UNIT_RATIO, series_median(p.ratios, p.n_ratios));
	}
	swakv_session_close(p.s);
}
