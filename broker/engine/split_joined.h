/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split_joined.h - where pages lie in the pool: split ones, K in one half and V in the other, and joined ones
 *
 * Split pages are looked at in the K half alone: the V half mirrors it, and one id
 * stands for both. Joined pages have ids over both halves: a run of them in
 * each, and between the runs the page that lies over the middle, which is never used.
 */
#ifndef SWAKV_ENGINE_SPLIT_JOINED_H
#define SWAKV_ENGINE_SPLIT_JOINED_H

#include "page_class.h"
#include "pool.h"

/* The runs of @c in a pool with halves of @half_bytes. */
void runs_find(struct page_class *c, uint64_t half_bytes);
/* The run of @c that page @page lies in. */
static inline int page_run(const struct page_class *c, int32_t page)
{
	return c->n_runs > 1 && page >= c->runs[1].first;
}

/* Page @page of @c lies over the middle of the pool, in neither run. */
static inline bool page_is_middle(const struct page_class *c, int32_t page)
{
	return page >= c->runs[0].end && page < c->runs[1].first;
}

/* Ids of run @run of class @c that lie wholly in the extents [first, last): [*lo, *hi), empty when none. */
void pages_within(const struct pool *p, const struct page_class *c, int run, int32_t first, int32_t last, int32_t *lo,
		  int32_t *hi);
/* How many ids that is, of all runs. */
int64_t pages_count(const struct pool *p, const struct page_class *c, int32_t first, int32_t last);
/* The extents that page @page touches, which is not the middle one: [*first, *last]. */
void page_extents(const struct pool *p, const struct page_class *c, int32_t page, int32_t *first, int32_t *last);
/* True when every extent that page @page touches belongs to class @index. */
bool page_is_whole(const struct pool *p, const struct page_class *c, int index, int32_t page);

/* The page of run @run that byte @at of the half lies in and that begins before it, -1: none. */
int32_t page_over(const struct page_class *c, int run, uint64_t at);
/* Pages that touch extent @x, but do not lie within it: at most one at each end of each run. Returns how many. */
enum { BORDERS = 4 };
int border_pages(const struct pool *p, const struct page_class *c, int32_t x, int32_t pages[BORDERS]);

#endif
