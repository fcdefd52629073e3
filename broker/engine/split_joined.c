/* SPDX-License-Identifier: Apache-2.0 */
/* split_joined.c - see split_joined.h */
#include "split_joined.h"

void runs_find(struct page_class *c, uint64_t half_bytes)
{
	for (int r = 0; r < 2; r++) {
		c->runs[r].from = (uint64_t)r * half_bytes;
		c->runs[r].first = (int32_t)((c->runs[r].from + c->page_bytes - 1) / c->page_bytes);
		c->runs[r].end = (int32_t)((c->runs[r].from + half_bytes) / c->page_bytes);
	}
}

void pages_within(const struct pool *p, const struct page_class *c, int run, int32_t first, int32_t last, int32_t *lo,
		  int32_t *hi)
{
	uint64_t a = c->runs[run].from + extent_start(p, first), b = c->runs[run].from + extent_start(p, last);

	*lo = (int32_t)((a + c->page_bytes - 1) / c->page_bytes);
	*hi = (int32_t)(b / c->page_bytes);
	if (*hi < *lo)
		*hi = *lo;
}

int64_t pages_count(const struct pool *p, const struct page_class *c, int32_t first, int32_t last)
{
	int64_t n = 0;
	int32_t lo, hi;

	for (int r = 0; r < c->n_runs; r++) {
		pages_within(p, c, r, first, last, &lo, &hi);
		n += hi - lo;
	}
	return n;
}

void page_extents(const struct pool *p, const struct page_class *c, int32_t page, int32_t *first, int32_t *last)
{
	uint64_t a = (uint64_t)page * c->page_bytes - c->runs[page_run(c, page)].from;

	*first = (int32_t)(a / p->extent_bytes);
	*last = (int32_t)((a + c->page_bytes - 1) / p->extent_bytes);
}

bool page_is_whole(const struct pool *p, const struct page_class *c, int index, int32_t page)
{
	int32_t first, last;

	if (page_is_middle(c, page))
		return false;
	page_extents(p, c, page, &first, &last);
	for (int32_t x = first; x <= last; x++)
		if (p->extent_class[x] != index)
			return false;
	return true;
}

int32_t page_over(const struct page_class *c, int run, uint64_t at)
{
	uint64_t byte = c->runs[run].from + at;
	int32_t page = (int32_t)(byte / c->page_bytes);

	/* What lies before the first page of the half, or behind the last, is none of its own. */
	return byte % c->page_bytes && page >= c->runs[run].first && page < c->runs[run].end ? page : -1;
}

int border_pages(const struct pool *p, const struct page_class *c, int32_t x, int32_t pages[BORDERS])
{
	int n = 0;

	for (int r = 0; r < c->n_runs; r++) {
		int32_t below = page_over(c, r, extent_start(p, x)), above = page_over(c, r, extent_start(p, x + 1));

		if (below >= 0)
			pages[n++] = below;
		if (above >= 0 && above != below)
			pages[n++] = above;
	}
	return n;
}
