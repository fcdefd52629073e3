/* SPDX-License-Identifier: Apache-2.0 */
/* extent_view.c - see extent_view.h */
#include "extent_view.h"

#include "dirty.h"
#include "extents.h"
#include "internal.h"

uint32_t engine_extents(const struct engine *e)
{
	return (uint32_t)e->pool.n_extents;
}

void engine_extent_view(const struct engine *e, uint32_t extent, struct extent_view *out)
{
	const struct extent *x = &e->pool.extents[extent];

	*out = (struct extent_view){ .page_class = e->pool.extent_class[extent], .claimed = x->choice };
	if (out->page_class < 0)
		return;
	out->live = (uint32_t)x->n_live;
	out->quarantined = (uint32_t)x->n_quarantined;
	out->free = (uint32_t)x->n_free;
	out->emptying = x->emptying;
}

uint32_t session_serial(const struct session *s, uint32_t group)
{
	return s->groups[group].serial;
}

/* Of the pages that were looked at what has a majority, if anything has, keeps a lead: each other one takes a vote off
 * it. */
static void vote(struct extent_users *u, uint32_t *lead, uint32_t serial)
{
	if (serial == PAGE_FRESH || serial == PAGE_USED)
		return;
	if (u->lowest == 0 || serial < u->lowest)
		u->lowest = serial;
	if (serial > u->highest)
		u->highest = serial;
	if (*lead == 0)
		u->most = serial;
	*lead += serial == u->most ? 1 : -1;
}

struct extent_users engine_extent_users(const struct engine *e, uint32_t extent, uint32_t looks, uint32_t turn)
{
	const struct pool *p = &e->pool;
	int16_t index = p->extent_class[extent];
	const struct page_class *c = index < 0 ? NULL : p->classes[index];
	struct extent_users u = { 0 };
	uint32_t lead = 0;

	for (int run = 0; c && run < c->n_runs; run++) {
		int32_t lo, hi;
		uint32_t n, step;

		pages_within(p, c, run, (int32_t)extent, (int32_t)extent + 1, &lo, &hi);
		n = hi > lo ? (uint32_t)(hi - lo) : 0;
		step = n > looks ? n / looks : 1;
		for (uint32_t i = n > looks ? turn % step : 0, k = 0; i < n && k < looks; i += step, k++)
			if (c->state[lo + (int32_t)i] == PAGE_LEASED || c->state[lo + (int32_t)i] == PAGE_QUARANTINED)
				vote(&u, &lead, c->user[lo + (int32_t)i]);
	}
	return u;
}
