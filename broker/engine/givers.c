/* SPDX-License-Identifier: Apache-2.0 */
/* givers.c - see givers.h */
#include "givers.h"

#include "internal.h"
#include "press.h"
#include "slice.h"

static bool may_be_asked(const struct session *s)
{
	const struct quota *q = s->quota;

	return session_may_be_asked(s) && quota_used(q) > q->floor;
}

void givers_find(struct givers *l, struct engine *e)
{
	struct session *s;
	uint64_t looks = 0;

	l->n = 0;
	l->any_asked = false;
	LIST_FOREACH (s, &e->sessions, siblings) {
		FOR_EACH_GROUP (g, s) {
			looks++;
			if (g->n_managed == 0 || s->ended || l->n == GIVERS_MOST)
				continue;
			l->of[l->n] = (struct giver){ s, g, may_be_asked(s) };
			l->any_asked |= l->of[l->n++].asked;
		}
	}
	slice_count(e, looks / SLICE_LOOKS);
}

uint64_t givers_askable(const struct engine *e)
{
	const struct session *s;
	uint64_t sum = 0;

	LIST_FOREACH (s, &e->sessions, siblings) {
		int64_t managed = 0;

		FOR_EACH_GROUP (g, s)
			managed += g->n_managed;
		sight_add(&sum, managed > 0 && may_be_asked(s) ? s->tag + 1 : 0);
	}
	return sum;
}

const struct giver *giver_of(const struct givers *l, const struct page_class *c, int32_t page)
{
	for (int32_t i = 0; i < l->n; i++)
		if (l->of[i].group->class == c &&
		    strip_is_set(l->of[i].group->managed, (struct strip){ page, 1, false }))
			return &l->of[i];
	return NULL;
}

/* ---- what they are told ---------------------------------------------------------------- */

/* Ids of run @run of @c that touch extent @x. */
static struct page_range ids_touching(const struct pool *p, const struct page_class *c, int run, int32_t x)
{
	uint64_t from = c->runs[run].from + extent_start(p, x), end = c->runs[run].from + extent_start(p, x + 1);
	struct page_range r = { (int32_t)(from / c->page_bytes), (int32_t)((end + c->page_bytes - 1) / c->page_bytes) };

	r.first = r.first > c->runs[run].first ? r.first : c->runs[run].first;
	r.end = r.end < c->runs[run].end ? r.end : c->runs[run].end;
	return r;
}

static bool manages_any(const struct group *g, struct page_range r)
{
	struct strip s = { r.first, r.end - r.first, false };
	int32_t n;

	for (; s.n > 0; s.first += n, s.n -= n)
		if (g->managed[s.first / STRIP_WORD] & strip_bits(s, &n))
			return true;
	return false;
}

/* @r comes after all of @g's, or overlaps the last; false: there is no place for it. */
static bool add_range(struct group *g, struct page_range r)
{
	struct page_range *last = g->n_ranges ? &g->ranges[g->n_ranges - 1] : NULL;

	if (last && r.first <= last->end) {
		last->end = r.end;
		return true;
	}
	if (g->n_ranges == WIRE_RANGES)
		return false;
	g->ranges[g->n_ranges++] = r;
	return true;
}

static void tell(const struct giver *giver)
{
	struct group *g = giver->group;
	const struct pool *p = &giver->session->engine->pool;
	const struct page_class *c = g->class;
	bool room = true;

	for (int run = 0; run < c->n_runs; run++) {
		for (int32_t x = 0; x < p->n_extents && room; x++) {
			struct page_range r;

			if (!p->extents[x].emptying || p->extent_class[x] != (int32_t)g->class_index)
				continue;
			r = ids_touching(p, c, run, x);
			if (r.first < r.end && manages_any(g, r))
				room = add_range(g, r);
		}
	}
	slice_count(giver->session->engine, (uint64_t)(c->n_runs * p->n_extents) / SLICE_LOOKS);
}

void givers_tell(const struct givers *l, struct engine *e)
{
	if (e->pool.n_emptying == 0)
		return;
	for (int32_t i = 0; i < l->n; i++)
		if (l->of[i].asked)
			tell(&l->of[i]);
}

void givers_forget(struct engine *e)
{
	struct session *s;

	LIST_FOREACH (s, &e->sessions, siblings)
		FOR_EACH_GROUP (g, s)
			g->n_ranges = 0;
}

uint64_t givers_compare(struct engine *e)
{
	struct session *s;
	uint64_t all = 0;

	LIST_FOREACH (s, &e->sessions, siblings) {
		FOR_EACH_GROUP (g, s) {
			uint64_t sight = 0;

			for (uint32_t i = 0; i < g->n_ranges; i++)
				sight_add(&sight, (uint64_t)g->ranges[i].first << 32 | (uint64_t)g->ranges[i].end);
			g->ranges_new |= sight != g->ranges_sight;
			g->ranges_sight = sight;
			sight_add(&all, sight);
		}
	}
	return all;
}

uint32_t session_give_ranges(const struct session *s, uint32_t group, struct page_range out[])
{
	const struct group *g = &s->groups[group];

	for (uint32_t i = 0; i < g->n_ranges; i++)
		out[i] = g->ranges[i];
	return g->n_ranges;
}
