/* SPDX-License-Identifier: Apache-2.0 */
/* figure_pages.c - pages that a worker manages itself: takes of 1, 64 and 4,096 of them, and gives */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

struct pages {
	swakv_session *s;
	uint32_t n;
	bool gives; /* else takes are what counts */
};

enum { TURNS = 1000 };

static int by_ticks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median of some turns. Pages that it overwrites and had last: nothing is scrubbed. */
static double sample_pages(struct bench *b, void *arg)
{
	const struct pages *p = arg;
	int turns = p->n > 1000 ? TURNS / 10 : TURNS;
	int32_t ids[SWAKV_MAX_PAGES];
	uint64_t took[TURNS];

	for (int i = 0; i < turns; i++) {
		uint64_t start = ticks(), middle;
		uint32_t n;

		bench_ok(p->s, swakv_pages_take(p->s, 0, 0, SWAKV_TAKE_OVERWRITES, p->n, p->n, 0, ids, &n, NULL),
			 "take");
		middle = ticks();
		bench_ok(p->s, swakv_pages_give(p->s, 0, ids, n, NULL, 0, NULL), "give");
		took[i] = p->gives ? ticks() - middle : middle - start;
	}
	qsort(took, (size_t)turns, sizeof(took[0]), by_ticks);
	return (double)took[turns / 2] * b->ns_per_tick;
}

void figure_pages(struct bench *b)
{
	static const uint32_t counts[] = { 1, 64, SWAKV_MAX_PAGES };
	struct pages p = { .s = bench_attach(b, 1024, 1, 0) };
	char name[32];

	for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
		p.n = counts[i / 2];
		p.gives = i % 2;
		snprintf(name, sizeof(name), "%s_%u", p.gives ? "give" : "take", p.n);
		bench_figure(b, name, sample_pages, &p);
	}
	swakv_session_close(p.s);
}
