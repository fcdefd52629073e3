/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.c - whether pages can be had, beside what is kept for others
 *
 * Every admission is tried with the others' floors provided for first; extents
 * that are moved to that end stay with the class that may need them, so that the
 * next admission finds them in place.
 *
 * Beside the floors stand the claims (claim.h). Requests that run already, and
 * such as stay within their model's floor, owe a claim nothing: what they cannot
 * have beside it they take from it.
 */
#include "admission.h"

#include <string.h>

#include "floor_ceiling.h"
#include "internal.h"
#include "managed.h"
#include "slice.h"

static void fill_need(const struct session *s, const int64_t *needs, struct pool_need *need)
{
	FOR_EACH_GROUP (g, s)
		need[g->index] = (struct pool_need){ g->class, needs[g->index] };
}

/* Pages of all of @need that are of the class of @need[i]. */
static int64_t pages_of_class(const struct session *s, const struct pool_need *need, uint32_t i)
{
	int64_t sum = 0;

	for (uint32_t j = 0; j < s->n_groups; j++)
		sum += need[j].class == need[i].class ? need[j].pages : 0;
	return sum;
}

/* What could never be: a class would need more pages than it has ids, or all together more than the pool. */
static int never_fault(const struct session *s, const struct pool_need *need, uint64_t bytes, struct fault *f)
{
	for (uint32_t i = 0; i < s->n_groups; i++)
		if (pages_of_class(s, need, i) > page_class_most(need[i].class))
			return fault_set(f, FAULT_NEVER_FITS, -1, pages_of_class(s, need, i),
					 page_class_most(need[i].class));
	return fault_set(f, FAULT_NEVER_TOGETHER, -1, (int64_t)bytes, (int64_t)(2 * s->engine->pool.half_bytes));
}

int session_check_never(const struct session *s, const int64_t *needs, struct fault *f)
{
	uint64_t bytes = needs_bytes(s, needs), ceiling = s->quota->ceiling, others;
	struct pool_need need[WIRE_MAX_GROUPS] = { 0 };

	fill_need(s, needs, need);
	if (!pool_could_provide(&s->engine->pool, need, s->n_groups))
		return never_fault(s, need, bytes, f);
	if (ceiling && bytes > ceiling)
		return fault_set(f, FAULT_CEILING_NEVER, -1, (int64_t)bytes, (int64_t)ceiling);
	others = s->engine->n_floors ? floors_but(s->engine, s->quota) : 0;
	if (others && bytes > 2 * s->engine->pool.half_bytes - others)
		return fault_set(f, FAULT_FLOORS_NEVER, -1, (int64_t)bytes,
				 (int64_t)(2 * s->engine->pool.half_bytes - others));
	return 0;
}

/*
 * Why @need cannot be met beside @keep. Where nobody holds anything, and nothing
 * is kept for who waits, it never can.
 */
static int beside_fault(struct session *s, const struct pool_need *need, const struct pool_keep *keep, int missing,
			int64_t available, struct fault *f)
{
	const struct pool *p = &s->engine->pool;
	bool claimed = p->n_chosen > 0, kept = keep->extents > 0, never;
	int64_t pages = 0, without;
	uint64_t bytes = 0;

	for (int i = 0; i < p->n_classes; i++) {
		claimed |= keep->claims[i] > 0;
		kept |= keep->floors[i] > 0;
	}
	never = pool_is_idle(p) && !claimed;
	for (uint32_t i = 0; i < s->n_groups; i++) {
		pages += need[i].pages;
		bytes += (uint64_t)need[i].pages * page_class_whole(need[i].class);
	}
	if (never && !kept)
		return never_fault(s, need, bytes, f);
	if (claimed && missing >= 0)
		return fault_set(f, FAULT_CLAIMED, -1, pages_of_class(s, need, (uint32_t)missing), available);
	if (missing == POOL_KEPT)
		return fault_set(f, never ? FAULT_FLOORS_EXTENTS_NEVER : FAULT_FLOORS_EXTENTS, -1, pages,
				 keep->extents);
	pages = pages_of_class(s, need, (uint32_t)missing);
	if (never)
		return fault_set(f, FAULT_FLOORS_PAGES_NEVER, -1, pages, available);
	without = pool_available(&s->engine->pool, need[missing].class);
	if (without < pages || !kept)
		return fault_set(f, FAULT_NO_PAGES, -1, pages, kept ? without : available);
	return fault_set(f, FAULT_FLOORS, -1, pages, available);
}

/* As session_provide(), where others are to find something, too. */
static int provide_beside(struct session *s, const struct pool_need *need, bool claims, struct fault *f)
{
	struct engine *e = s->engine;
	struct pool_keep keep;
	int64_t available = 0;
	int missing;

	keep_for_others(&keep, e, s->quota, claims);
	missing = pool_provide_beside(&e->pool, &keep, need, s->n_groups, &available);
	return missing == POOL_PROVIDED ? 0 : beside_fault(s, need, &keep, missing, available, f);
}

/* 0 when @s stays below its ceiling with @bytes more. *@floored: it stays within its floor, too. */
static int check_ceiling(const struct session *s, uint64_t bytes, bool *floored, struct fault *f)
{
	const struct quota *q = s->quota;
	uint64_t used;

	*floored = false;
	if (!q->ceiling && !q->floor)
		return 0;
	used = quota_used(q);
	*floored = used + bytes <= q->floor;
	if (!q->ceiling || used + bytes <= q->ceiling)
		return 0;
	return fault_set(f, FAULT_CEILING, -1, (int64_t)bytes, q->ceiling > used ? (int64_t)(q->ceiling - used) : 0);
}

/*
 * Who waits is looked at again: extents that changed hands since @hands may lie
 * better for it, as what fits is found class by class; and what is used of a
 * floor is kept no longer, which pages of other sizes may need less than before.
 */
static int provided(struct session *s, uint64_t bytes, uint64_t hands)
{
	struct engine *e = s->engine;

	if (e->n_floors || e->pool.hands != hands)
		e->retry = true;
	claim_check_ceiling(e, s->quota, bytes);
	return 0;
}

/* As session_provide(), of what could be some time. */
static int provide_limited(struct session *s, const struct pool_need *need, const int64_t *needs, enum claims claims,
			   struct fault *f)
{
	struct engine *e = s->engine;
	bool floored;
	int code = check_ceiling(s, needs_bytes(s, needs), &floored, f);

	if (code)
		return code;
	claims_restore(e);
	code = provide_beside(s, need, true, f);
	if (code != SWAKV_ENOPAGES || !e->n_claims || (claims == CLAIMS_ALL && !floored))
		return code;
	claims_lift(e);
	return provide_beside(s, need, false, f);
}

static int provide_pages(struct session *s, const int64_t *needs, const int64_t *held, enum claims claims,
			 struct fault *f)
{
	struct engine *e = s->engine;
	uint64_t hands = e->pool.hands, bytes = needs_bytes(s, needs);
	bool limited = e->n_floors || s->quota->ceiling || e->n_claims;
	struct pool_need need[WIRE_MAX_GROUPS] = { 0 };
	int64_t whole[WIRE_MAX_GROUPS] = { 0 }, available;
	int missing, code;

	if (bytes == 0)
		return 0;
	fill_need(s, needs, need);
	missing = limited ? 0 : pool_provide(&s->engine->pool, need, s->n_groups, &available);
	if (missing < 0)
		return provided(s, bytes, hands);
	FOR_EACH_GROUP (g, s)
		whole[g->index] = needs[g->index] + (held ? held[g->index] : 0);
	if ((code = session_check_never(s, whole, f)))
		return code;
	if (!limited && pool_is_idle(&e->pool))
		return never_fault(s, need, bytes, f);
	if (!limited)
		return fault_set(f, FAULT_NO_PAGES, -1, pages_of_class(s, need, (uint32_t)missing), available);
	code = provide_limited(s, need, needs, claims, f);
	return code ? code : provided(s, bytes, hands);
}

int session_provide(struct session *s, const int64_t *needs, const int64_t *held, enum claims claims, struct fault *f)
{
	uint64_t before = s->engine->pool.looked;
	int code = provide_pages(s, needs, held, claims, f);

	slice_count(s->engine, (s->engine->pool.looked - before) / SLICE_LOOKS);
	return code;
}

int64_t engine_available(struct engine *e, uint32_t index)
{
	struct page_class *c = e->pool.classes[index];
	struct pool_keep keep = { 0 };
	int64_t n;

	if (!e->n_claims)
		return pool_available(&e->pool, c);
	claims_restore(e);
	claims_keep(e, &keep);
	n = pool_available(&e->pool, c) - keep.claims[index];
	return n > 0 ? n : 0;
}

/* Extents that the floors of others still need, and pages of class @index. */
static int64_t lacking_extents(const struct engine *e, const struct pool_keep *keep, uint32_t index)
{
	const struct pool *p = &e->pool;
	int64_t extents = keep->extents;

	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];

		if ((uint32_t)i != index && keep->floors[i] > c->n_free)
			extents +=
				extents_of(p, ((uint64_t)(keep->floors[i] - c->n_free) * page_class_whole(c) + 1) / 2);
	}
	return extents;
}

int64_t session_takeable_pages(const struct session *s, uint32_t group)
{
	const struct group *g = &s->groups[group];
	int64_t needs[WIRE_MAX_GROUPS] = { 0 };
	int64_t n = engine_available(s->engine, g->class_index);
	struct pool_keep keep;
	uint64_t page, used;

	if (s->engine->n_floors) {
		keep_for_others(&keep, s->engine, s->quota, false);
		n -= keep.floors[g->class_index] +
		     lacking_extents(s->engine, &keep, g->class_index) *
			     (int64_t)(2 * s->engine->pool.extent_bytes / page_class_whole(g->class));
	}
	if (s->quota->ceiling) {
		needs[group] = 1;
		page = needs_bytes(s, needs);
		used = quota_used(s->quota);
		if (used + (uint64_t)(n > 0 ? n : 0) * page > s->quota->ceiling)
			n = used < s->quota->ceiling ? (int64_t)((s->quota->ceiling - used) / page) : 0;
	}
	return n > 0 ? n : 0;
}
