/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_ceiling.c - floors and ceilings of models, and what is to be kept for others
 *
 * A ceiling is a number to compare with. A floor is a promise: what a model has
 * not used of it must be there the moment it is asked for, so it is kept as free
 * pages of its page sizes, in whole extents where there are none.
 *
 * How a floor in bytes becomes pages: in the proportion in which one sequence of
 * max_seq takes them. Of a model that never attached, that is not known; whole
 * extents are kept for it then.
 */
#include "floor_ceiling.h"

#include <string.h>

#include "internal.h"
#include "managed.h"
#include "slice.h"

/* Models without a session whose limits are remembered. */
#define QUOTAS_WITHOUT_SESSION 64

/* ---- limits -------------------------------------------------------------------- */

uint64_t floors_but(const struct engine *e, const struct quota *but)
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

int64_t extents_of(const struct pool *p, uint64_t half_bytes)
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

void session_limit_pages(const struct session *s, uint32_t group, int64_t *floor, int64_t *ceiling)
{
	uint64_t page = page_class_whole(s->groups[group].class);
	int64_t all = s->groups[group].class->num_pages;
	uint64_t most = s->quota->ceiling ? s->quota->ceiling / page : (uint64_t)all;

	*floor = s->quota->floor / page < (uint64_t)all ? (int64_t)(s->quota->floor / page) : all;
	*ceiling = most < (uint64_t)all ? (int64_t)most : all;
}
