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

/* What of the pages that were looked at has a majority, if anything has: each other one takes a vote off it. */
struct vote {
	uint32_t serial, lead;
	bool several;
};

static void vote(struct vote *v, uint32_t serial)
{
	if (serial == PAGE_FRESH || serial == PAGE_USED)
		return;
	v->several |= v->serial && serial != v->serial;
	if (v->lead == 0)
		v->serial = serial;
	v->lead += serial == v->serial ? 1 : -1;
}

uint32_t engine_extent_user(const struct engine *e, uint32_t extent, uint32_t looks, uint32_t turn, bool *shared)
{
	const struct pool *p = &e->pool;
	int16_t index = p->extent_class[extent];
	const struct page_class *c = index < 0 ? NULL : p->classes[index];
	struct vote v = { 0 };

	for (int run = 0; c && run < c->n_runs; run++) {
		int32_t lo, hi;
		uint32_t n, step;

		pages_within(p, c, run, (int32_t)extent, (int32_t)extent + 1, &lo, &hi);
		n = hi > lo ? (uint32_t)(hi - lo) : 0;
		step = n > looks ? n / looks : 1;
		for (uint32_t i = n > looks ? turn % step : 0, k = 0; i < n && k < looks; i += step, k++)
			if (c->state[lo + (int32_t)i] == PAGE_LEASED || c->state[lo + (int32_t)i] == PAGE_QUARANTINED)
				vote(&v, c->user[lo + (int32_t)i]);
	}
	*shared = v.several;
	return v.serial;
}
