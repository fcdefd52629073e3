/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c - see claim.h */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bug.h"
#include "floor_ceiling.h"
#include "internal.h"

void claim_init(struct claim *c)
{
	*c = (struct claim){ 0 };
	for (int g = 0; g < WIRE_MAX_GROUPS; g++)
		c->of_group[g].chosen.first = -1;
}

static struct quota *quota_of(const struct claim *c)
{
	return c->of->session->quota;
}

static uint64_t joined_by(const struct claim *c)
{
	uint64_t n = 0;

	for (int g = 0; g < WIRE_MAX_GROUPS; g++)
		n += c->of_group[g].chosen.joined;
	return n;
}

static void claim_drop(struct engine *e, struct claim *c)
{
	for (int g = 0; g < WIRE_MAX_GROUPS; g++)
		choice_drop(&e->pool, &c->of_group[g].chosen, c->lifted);
	claim_init(c);
}

/* @c has kept for nothing: nobody chooses for as long as it has, with those that it overlapped. */
static void claims_pause(struct engine *e, const struct claim *c)
{
	uint64_t held = e->stamp - c->first;
	struct claim *other;

	e->claims_paused_until = e->stamp + (held ? held : 1);
	TAILQ_FOREACH (other, &e->claims, link)
		if (other->first > c->first)
			other->first = c->first;
}

void claim_end(struct engine *e, struct quota *q, bool admitted)
{
	if (!q->claim.of)
		return;
	if (!admitted) {
		claims_pause(e, &q->claim);
		q->claim.of->gave_up = e->stamp;
	}
	TAILQ_REMOVE(&e->claims, &q->claim, link);
	e->n_claims--;
	e->shifts++;
	claim_drop(e, &q->claim);
	e->retry = true; /* what was kept may admit others */
}

/* What it waited for in vain is not what its begin will wait for next. */
static void claim_give_up(struct engine *e, struct quota *q)
{
	for (int g = 0; g < WIRE_MAX_GROUPS; g++)
		choice_give_up(&e->pool, &q->claim.of_group[g].chosen, e->stamp);
	claim_end(e, q, false);
}

/* ---- what is chosen ------------------------------------------------------------- */

/* Pages of the class of @g that @w needs in all groups; 0 when an earlier group has said so. */
static int64_t class_needs(const struct wait *w, const struct group *g)
{
	const struct session *s = w->session;
	int64_t pages = 0;

	FOR_EACH_GROUP (other, s) {
		if (other->class != g->class)
			continue;
		if (other->index < g->index)
			return 0;
		pages += w->needs[other->index];
	}
	return pages;
}

/* Chooses for all groups what @w lacks above the floor of its own model; what others are promised is promised. */
static bool choose(struct engine *e, struct claim *c, const struct wait *w, const struct pool_keep *own, int64_t spare)
{
	FOR_EACH_GROUP (g, w->session) {
		int64_t pages = class_needs(w, g), floor = own->floors[g->class_index];

		pages -= pool_promise_more(&e->pool, g->class, floor < pages ? floor : pages);
		if (pages > 0 && !choice_make(&e->pool, &c->of_group[g->index].chosen, g->class, pages, spare, w->since,
					      &c->of_group[g->index].kept))
			return false;
	}
	return true;
}

static void claim_begin(struct engine *e, struct wait *w)
{
	struct quota *q = w->session->quota;
	struct claim *c = &q->claim;
	struct pool_keep keep, own;
	uint64_t hands = e->pool.hands;
	int64_t spare;

	keep_for_others(&keep, e, q, true);
	keep_floor(&own, e, q);
	pool_promise(&e->pool, &keep);
	spare = pool_spare_extents(&e->pool);
	if (choose(e, c, w, &own, keep.extents < spare ? keep.extents : spare)) {
		c->of = w;
		c->since = c->moved = c->first = e->stamp;
		TAILQ_INSERT_TAIL(&e->claims, c, link);
		e->n_claims++;
		e->shifts++;
	} else {
		/* Nothing that may be kept would do. */
		claim_drop(e, c);
		w->paused_until = e->stamp + (e->claim_hold ? e->claim_hold : 1);
	}
	pool_unpromise(&e->pool);
	e->retry |= e->pool.hands != hands;
}

/* ---- as time passes --------------------------------------------------------------- */

static bool exceeds_ceiling(const struct quota *q, const struct wait *w, uint64_t bytes)
{
	return q->ceiling && quota_used(q) + bytes + needs_bytes(w->session, w->needs) > q->ceiling;
}

void claim_check_ceiling(struct engine *e, struct quota *q, uint64_t bytes)
{
	if (q->claim.of && !q->claim.served && exceeds_ceiling(q, q->claim.of, bytes))
		claim_end(e, q, false);
}

static uint64_t later(uint64_t stamp, uint64_t by)
{
	return by && by < UINT64_MAX - stamp ? stamp + by : UINT64_MAX;
}

static uint64_t may_choose_from(const struct engine *e, const struct wait *w)
{
	return w->paused_until > e->claims_paused_until ? w->paused_until : e->claims_paused_until;
}

static uint64_t claim_due(const struct engine *e, const struct quota *q)
{
	const struct claim *c = &q->claim;
	const struct wait *w = TAILQ_FIRST(&q->queue);
	uint64_t hold, most;

	if (!c->of && w && w->overdue && e->stamp < may_choose_from(e, w))
		return may_choose_from(e, w);
	if (!c->of)
		return UINT64_MAX;
	hold = later(c->moved, e->claim_hold);
	most = later(c->since, e->claim_max);
	return hold < most ? hold : most;
}

static bool may_claim(const struct engine *e, const struct wait *w)
{
	const struct quota *q = w->session->quota;

	return w->overdue && !w->refusal && !q->claim.of && e->stamp >= may_choose_from(e, w) &&
	       !exceeds_ceiling(q, w, 0);
}

/* Since it began to wait, or since its last claim ended. */
static bool waits_longer(const struct wait *w, const struct wait *than)
{
	uint64_t since = w->gave_up ? w->gave_up : w->since, than_since = than->gave_up ? than->gave_up : than->since;

	return since < than_since || (since == than_since && w->number < than->number);
}

/* Of those that may the one that has waited longest for its turn; NULL: none may. */
static struct wait *next_to_claim(const struct engine *e)
{
	struct wait *next = NULL, *w;
	const struct quota *q;

	TAILQ_FOREACH (q, &e->quotas, link) {
		w = TAILQ_FIRST(&q->queue);
		if (w && (!next || waits_longer(w, next)) && may_claim(e, w))
			next = w;
	}
	return next;
}

void claims_review(struct engine *e)
{
	struct claim *c, *next;
	struct quota *q;
	struct wait *w;

	claims_restore(e);
	TAILQ_FOREACH_SAFE(c, &e->claims, link, next)
	{
		q = quota_of(c);
		if (joined_by(c) != c->joined) {
			c->joined = joined_by(c);
			c->moved = e->stamp;
		}
		if (e->stamp >= claim_due(e, q))
			claim_give_up(e, q);
		else if (exceeds_ceiling(q, c->of, 0))
			claim_end(e, q, false);
	}
	while ((w = next_to_claim(e)))
		claim_begin(e, w);
	e->claims_due = 0;
	TAILQ_FOREACH (q, &e->quotas, link) {
		uint64_t due = claim_due(e, q);

		if (due != UINT64_MAX && (!e->claims_due || due < e->claims_due))
			e->claims_due = due;
	}
	if (e->look)
		e->look(e->look_arg);
}

/* ---- whom it is in the way -------------------------------------------------------- */

void claims_keep(const struct engine *e, struct pool_keep *keep)
{
	const struct claim *c;

	TAILQ_FOREACH (c, &e->claims, link) {
		if (c->lifted)
			continue;
		FOR_EACH_GROUP (g, c->of->session)
			keep->claims[g->class_index] += c->of_group[g->index].kept;
	}
}

static void claim_lift(struct engine *e, struct claim *c)
{
	if (!c->of || c->lifted)
		return;
	for (int g = 0; g < WIRE_MAX_GROUPS; g++)
		choice_lift(&e->pool, &c->of_group[g].chosen);
	c->lifted = true;
	e->claims_lifted = true;
}

void claims_lift(struct engine *e)
{
	struct claim *c;

	TAILQ_FOREACH (c, &e->claims, link)
		claim_lift(e, c);
}

/* Who had leave to take kept pages may have taken some: only those that are left are kept, for the oldest claim first.
 */
static void keep_what_is_left(struct engine *e)
{
	int64_t by_older[POOL_MAX_CLASSES] = { 0 };
	struct claim *c;

	TAILQ_FOREACH (c, &e->claims, link) {
		if (c->lifted)
			continue;
		FOR_EACH_GROUP (g, c->of->session) {
			int64_t *kept = &c->of_group[g->index].kept, left = g->class->n_free - by_older[g->class_index];

			*kept = *kept < left ? *kept : left;
			by_older[g->class_index] += *kept;
		}
	}
}

static void claim_restore(struct engine *e, struct claim *c)
{
	FOR_EACH_GROUP (g, c->of->session)
		choice_restore(&e->pool, &c->of_group[g->index].chosen);
	c->lifted = false;
}

void claims_restore(struct engine *e)
{
	struct claim *c;

	if (!e->claims_lifted)
		return;
	e->claims_lifted = false;
	TAILQ_FOREACH (c, &e->claims, link) {
		if (c->lifted && !c->served)
			claim_restore(e, c);
		e->claims_lifted |= c->lifted;
	}
	/* When all extents are out of reach again: what ends in one of them is not free. */
	keep_what_is_left(e);
}

void claim_serve(struct engine *e, struct quota *q)
{
	claims_restore(e);
	claim_lift(e, &q->claim);
	q->claim.served = true;
}

void claim_serve_end(struct engine *e, struct quota *q)
{
	q->claim.served = false;
	claims_restore(e);
}

/* ---- what is seen of it ------------------------------------------------------------- */

void engine_on_claims(struct engine *e, void (*look)(void *arg), void *arg)
{
	e->look = look;
	e->look_arg = arg;
}

static const struct claim *claim_named(const struct engine *e, const char *name)
{
	const struct quota *q = quota_find(e, name);

	claims_restore((struct engine *)e);
	return q && q->claim.of ? &q->claim : NULL;
}

int32_t engine_claim_extent(const struct engine *e, const char *name, uint32_t extent)
{
	const struct claim *c = claim_named(e, name);

	if (!c || extent >= (uint32_t)e->pool.n_extents)
		return -1;
	FOR_EACH_GROUP (g, c->of->session)
		if (e->pool.extents[extent].choice == &c->of_group[g->index].chosen)
			return (int32_t)g->class_index;
	return -1;
}

int64_t engine_claim_kept(const struct engine *e, const char *name, uint32_t index)
{
	const struct claim *c = claim_named(e, name);
	int64_t n = 0;

	if (!c)
		return 0;
	FOR_EACH_GROUP (g, c->of->session)
		n += g->class_index == index ? c->of_group[g->index].kept : 0;
	return n;
}

/* ---- check ------------------------------------------------------------------------ */

bool claims_check(const struct engine *e, char *buf, size_t size)
{
	const struct quota *q;
	int32_t chosen = 0;
	uint32_t n = 0;

	TAILQ_FOREACH (q, &e->quotas, link) {
		const struct claim *c = &q->claim;

		n += c->of != NULL;
		if (c->of && (TAILQ_FIRST(&q->queue) != c->of || c->of->refusal))
			return snprintf(buf, size, "\"%s\": a claim outlives its begin", q->name), false;
		for (int g = 0; g < WIRE_MAX_GROUPS; g++) {
			const struct choice *k = &c->of_group[g].chosen;
			int32_t seen = 0;

			for (int32_t x = k->first; x >= 0 && seen <= k->n; x = e->pool.extents[x].next_chosen) {
				if (e->pool.extents[x].choice != (c->lifted ? NULL : k))
					return snprintf(buf, size, "extent %" PRId32 " is not in its choice", x), false;
				seen++;
			}
			if (seen != k->n)
				return snprintf(buf, size, "\"%s\": %" PRId32 " extents chosen, counted %" PRId32,
						q->name, seen, k->n),
				       false;
			chosen += c->lifted ? 0 : k->n;
		}
	}
	if (n == e->n_claims && chosen == e->pool.n_chosen)
		return true;
	snprintf(buf, size, "%u claims, %" PRId32 " extents; counted %u and %" PRId32, e->n_claims, e->pool.n_chosen, n,
		 chosen);
	return false;
}
