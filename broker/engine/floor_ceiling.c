/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_ceiling.c - floors and ceilings of models, and what an admission must leave to others
 *
 * A ceiling is a number to compare with. A floor is a promise: what a model has
 * not used of it must be there the moment it is asked for, so it is kept as free
 * pages of its page sizes, in whole extents where there are none. Every
 * admission is tried with the others' floors provided for first; extents that
 * are moved to that end stay with the class that may need them, so that the
 * next admission finds them in place.
 *
 * How a floor in bytes becomes pages: in the proportion in which one sequence of
 * max_seq takes them. Of a model that never attached, that is not known; whole
 * extents are kept for it then.
 *
 * Beside the floors stand the claims (claim.h). Requests that run already, and
 * such as stay within their model's floor, owe a claim nothing: what they cannot
 * have beside it they take from it.
 */
#include "floor_ceiling.h"

#include <string.h>

#include "internal.h"
#include "managed.h"
#include "slice.h"

/* Models without a session whose limits are remembered. */
#define QUOTAS_WITHOUT_SESSION 64

/* ---- limits -------------------------------------------------------------------- */

static uint64_t floors_but(const struct engine *e, const struct quota *but)
{
	const struct quota *q;
	uint64_t sum = 0;

	TAILQ_FOREACH (q, &e->quotas, link)
		sum += q == but ? 0 : q->floor;
	return sum;
}

/* Whether all floors are there together, with that of @but (NULL: a new one's) raised to @floor. */
static int check_extents(const struct engine *e, const struct quota *but, uint64_t floor, struct fault *f)
{
	const struct quota *q;
	struct floors all;

	floors_init(&all, e->pool.half_bytes, e->pool.extent_bytes);
	TAILQ_FOREACH (q, &e->quotas, link)
		if (q != but && q->floor)
			floors_add(&all, q->floor, q->shares, q->n_shares);
	floors_add(&all, floor, but ? but->shares : NULL, but ? but->n_shares : 0);
	return floors_check(&all, f);
}

static int check_limit(const struct engine *e, const char *name, uint64_t floor, uint64_t ceiling, struct fault *f)
{
	const struct quota *q = quota_find(e, name), *other;
	uint64_t total = 2 * e->pool.half_bytes, others = floors_but(e, q);
	uint32_t n = 0;
	int code;

	if (ceiling && floor > ceiling)
		return fault_set(f, FAULT_LIMIT_ORDER, -1, (int64_t)floor, (int64_t)ceiling);
	if (floor > total - others)
		return fault_set(f, others ? FAULT_LIMIT_FLOORS : FAULT_LIMIT_POOL, -1, (int64_t)floor,
				 (int64_t)(total - others));
	if (floor > (q ? q->floor : 0) && (code = check_extents(e, q, floor, f)))
		return code;
	TAILQ_FOREACH (other, &e->quotas, link)
		n += other != q && other->n_sessions == 0;
	if ((!q || q->n_sessions == 0) && (floor || ceiling) && n >= QUOTAS_WITHOUT_SESSION)
		return fault_set(f, FAULT_LIMIT_NAMES, -1, n, 0);
	return 0;
}

int engine_limit(struct engine *e, const char *name, const uint64_t *floor, const uint64_t *ceiling, struct fault *f)
{
	const struct quota *was = quota_find(e, name);
	uint64_t low = floor ? *floor : was ? was->floor : 0, high = ceiling ? *ceiling : was ? was->ceiling : 0;
	int code = check_limit(e, name, low, high, f);
	struct quota *q;

	if (code)
		return code;
	q = quota_get(e, name);
	if (!q)
		return fault_set(f, FAULT_BROKER_MEMORY, -1, sizeof(*q), 0);
	e->n_floors += (low > 0) - (q->floor > 0);
	q->floor = low;
	q->ceiling = high;
	e->retry = true;
	claim_check_ceiling(e, q, 0);
	quota_drop(e, q);
	return 0;
}

/* ---- what others must find there -------------------------------------------------- */

static int class_of_key(const struct pool *p, struct page_key key)
{
	for (int i = 0; i < p->n_classes; i++)
		if (page_key_equal(p->classes[i]->key, key))
			return i;
	return -1;
}

static int64_t extents_of(const struct pool *p, uint64_t half_bytes)
{
	return (int64_t)((half_bytes + p->extent_bytes - 1) / p->extent_bytes);
}

/* @bytes, K and V, are kept for @q. */
static void keep_bytes(struct pool_keep *keep, const struct pool *p, const struct quota *q, uint64_t bytes)
{
	if (q->n_shares == 0)
		keep->extents += extents_of(p, bytes / 2);
	for (uint32_t i = 0; i < q->n_shares; i++) {
		int64_t pages = (int64_t)floor_pages(bytes, q->shares, q->n_shares, i);
		int class = class_of_key(p, q->shares[i].key);

		if (class >= 0)
			keep->floors[class] += pages;
		else
			keep->extents += extents_of(p, ((uint64_t)pages * page_key_whole(q->shares[i].key) + 1) / 2);
	}
}

uint64_t needs_bytes(const struct session *s, const int64_t *needs)
{
	uint64_t bytes = 0;

	FOR_EACH_GROUP (g, s)
		bytes += (uint64_t)needs[g->index] * page_class_whole(g->class);
	return bytes;
}

static void add_floor(struct pool_keep *keep, const struct engine *e, const struct quota *q)
{
	uint64_t used = q->floor ? quota_used(q) : 0;

	if (q->floor > used)
		keep_bytes(keep, &e->pool, q, q->floor - used);
}

void keep_floor(struct pool_keep *keep, const struct engine *e, const struct quota *q)
{
	memset(keep, 0, sizeof(*keep));
	add_floor(keep, e, q);
}

uint64_t engine_floor_lacks(struct engine *e, const char *name)
{
	const struct quota *q = quota_find(e, name), *other;
	uint64_t used = q ? quota_used(q) : 0, total = 2 * e->pool.half_bytes, held = 0, by_class = 0, by_bytes;
	struct pool_keep keep;

	if (!q || q->floor <= used)
		return 0;
	TAILQ_FOREACH (other, &e->quotas, link)
		if (other != q)
			held += quota_used(other) > other->floor ? quota_used(other) : other->floor;
	by_bytes = held + q->floor > total ? held + q->floor - total : 0;
	keep_floor(&keep, e, q);
	for (uint32_t i = 0; i < (uint32_t)e->pool.n_classes && !e->n_claims;
	     i++) { /* a claim owes a floor its pages */
		int64_t there = keep.floors[i] ? pool_available(&e->pool, e->pool.classes[i]) : 0;

		if (keep.floors[i] > there)
			by_class += (uint64_t)(keep.floors[i] - there) * page_class_whole(e->pool.classes[i]);
	}
	return by_class > by_bytes ? by_class : by_bytes;
}

void keep_for_others(struct pool_keep *keep, const struct engine *e, const struct quota *own, bool claims)
{
	const struct quota *q;

	memset(keep, 0, sizeof(*keep));
	TAILQ_FOREACH (q, &e->quotas, link)
		if (q != own)
			add_floor(keep, e, q);
	if (claims && e->n_claims)
		claims_keep(e, keep);
}

/* ---- admission ---------------------------------------------------------------------- */

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

void session_limit_pages(const struct session *s, uint32_t group, int64_t *floor, int64_t *ceiling)
{
	uint64_t page = page_class_whole(s->groups[group].class);
	int64_t all = s->groups[group].class->num_pages;
	uint64_t most = s->quota->ceiling ? s->quota->ceiling / page : (uint64_t)all;

	*floor = s->quota->floor / page < (uint64_t)all ? (int64_t)(s->quota->floor / page) : all;
	*ceiling = most < (uint64_t)all ? (int64_t)most : all;
}
