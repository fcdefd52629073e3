/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fair.c - no begin or take that fits waits behind one that does not for longer than claims may last
 *
 * Claims that overlap and give nothing last three times as long as one at most:
 * those that hold when the first ends, and those that begin after the first pause
 * while one of these still holds. Then nobody claims for as long as they held.
 *
 * "Fits" is said without the broker's own reckoning, and only where nobody can
 * doubt it: in extents that no page of anybody touches, beside whole floors of
 * all other models, counting what the oldest rule would reserve.
 */
#include "clock.h"
#include "engine/internal.h"
#include "worker.h"

#define MARGIN_NS (50 * NS_PER_MS)
#define STAMP_NS  (2 * NS_PER_MS) /* the engine's date may be that old */

/* Extents of the class of group @g that give @pages whole pages wherever they lie; a very large number: none would. */
static uint64_t extents_for(const struct world *w, const struct geometry *g, uint64_t pages)
{
	uint64_t each = w->plan.ring.engine.extent_bytes / g->page_bytes, whole;

	if (each < 2)
		return INT32_MAX;
	whole = (each - 1) * (g->shape.joined ? 2 : 1); /* joined pages lie in both halves of an extent */
	return (pages + whole - 1) / whole;
}

static uint64_t need_of(const struct worker *v, const struct life *l)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < v->model->n_groups; i++) {
		const struct wire_group *g = &v->model->groups[i];
		uint64_t pages = ((uint64_t)l->capacity + g->page_tokens - 1) / g->page_tokens;

		n += extents_for(v->world, &v->world->plan.geometry[v->model_index][i], pages * l->n);
	}
	return n;
}

/* Extents that nobody's page touches, less all that other models than @model may find kept for them. */
static int64_t room_for(const struct world *w, uint32_t model)
{
	const struct engine_config *e = &w->plan.ring.engine;
	int64_t n = e->half_bytes % e->extent_bytes ? -1 : 0; /* the last extent may be a short one */
	struct class_counts c;

	for (uint32_t x = 0; x < e->half_bytes / e->extent_bytes; x++)
		n += engine_extent_class(w->ring->engine, x) < 0;
	for (uint32_t i = 0; engine_class_count(w->ring->engine, i, &c); i++)
		n += c.empty;
	for (uint32_t i = 0; i < w->plan.n_models; i++)
		if (i != model && w->floors[i])
			n -= (int64_t)(w->floors[i] / 2 / e->extent_bytes) + 1 + 2 * SIM_GROUPS;
	return n;
}

/* A slot of it was another stream's, which may not be through with it: it waits for its own worker. */
static bool waits_for_itself(const struct worker *v, const struct life *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t stream = v->slots[l->seqs[i].slot].stream;

		if (stream != l->stream && load_acquire(&v->gpu.streams[stream].line->word) < v->armed[stream])
			return true;
	}
	return false;
}

/* @room: it may not wait now; *@room_since: so long it has been so, 0: it is not. */
static void look(struct world *w, const struct worker *v, const char *what, uint64_t since, bool room,
		 uint64_t *room_since)
{
	const struct engine_config *e = &w->plan.ring.engine;
	uint64_t bound = e->wait_claim + 3 * e->claim_max + MARGIN_NS +
			 (w->quiet ? WORKER_QUIET_NS : 0); /* the answer may be there, unread */

	if (!room)
		*room_since = 0;
	else if (*room_since == 0)
		*room_since = w->now;
	if (room && w->now - *room_since > bound)
		world_break(w, "a %s of worker %u has waited %.1f ms, %.1f of them beside room for it", what, v->number,
			    (double)(w->now - since) / 1e6, (double)(w->now - *room_since) / 1e6);
}

static void look_at_begin(struct world *w, const struct worker *v, struct life *l)
{
	bool room = !w->limited[v->model_index] && !waits_for_itself(v, l) &&
		    room_for(w, v->model_index) >= (int64_t)need_of(v, l);

	look(w, v, "begin", l->since, room, &l->room_since);
}

static void look_at_take(struct world *w, const struct worker *v, struct call *c)
{
	const struct geometry *g = &w->plan.geometry[v->model_index][c->hold.group];
	bool room =
		!w->limited[v->model_index] && room_for(w, v->model_index) >= (int64_t)extents_for(w, g, c->hold.min);

	look(w, v, "take", c->sent, room, &c->hold.room_since);
}

/*
 * @c has ended, and its begin waits on: it was in vain at least until it was seen
 * last, and all pause for as long as it held at least. Dates are the engine's,
 * whose own may be some rounds old. Of several that ended between two looks the
 * shortest counts; claims that were withdrawn are not seen.
 */
static void note_vain(struct world *w, const struct claim_seen *c)
{
	struct vain_seen *v = &w->vain;

	if (c->last < v->until || (c->last == v->until && c->since < v->since))
		return;
	v->since = c->since;
	v->until = c->last;
	v->gone = w->ring->engine->stamp;
}

/* Whoever claims had no part in that, or all have paused before. */
static void check_pause(struct world *w, uint32_t model, uint64_t since)
{
	const struct vain_seen *v = &w->vain;

	if (since > v->gone && since < v->until + (v->until - v->since))
		world_break(w, "model %u claims %.1f ms after claims that gave nothing for %.1f", model,
			    (double)(since - v->until) / 1e6, (double)(v->until - v->since) / 1e6);
}

/* The claim of model @i, and who waits first of it; NULL: there is none. */
static const struct quota *quota_of(const struct world *w, uint32_t i)
{
	const char name[] = { 'm', (char)('0' + i), '\0' };

	return quota_find(w->ring->engine, name);
}

void fair_check_admitted(struct worker *v, uint64_t sent)
{
	struct world *w = v->world;
	const struct quota *q = quota_of(w, v->model_index);
	const struct wait *x;

	if (!q)
		return;
	TAILQ_FOREACH (x, &q->queue, in_quota)
		if (!x->refusal && !x->overdue && x->since + STAMP_NS < sent)
			world_break(
				w, "worker %u got pages that it asked for %.1f ms after one of its model that waits on",
				v->number, (double)(sent - x->since) / 1e6);
}

static void look_at_claims(struct world *w)
{
	for (uint32_t i = 0; i < w->plan.n_models; i++) {
		struct claim_seen *c = &w->claims[i];
		const struct quota *q = quota_of(w, i);
		const struct wait *first = q ? TAILQ_FIRST(&q->queue) : NULL;

		if (!c->last || (q && q->claim.of && q->claim.since == c->since))
			continue;
		if (first && first->number == c->number)
			note_vain(w, c);
		c->last = 0;
	}
	for (uint32_t i = 0; i < w->plan.n_models; i++) {
		struct claim_seen *c = &w->claims[i];
		const struct quota *q = quota_of(w, i);

		if (!q || !q->claim.of)
			continue;
		if (!c->last)
			check_pause(w, i, q->claim.since);
		*c = (struct claim_seen){ .since = q->claim.since,
					  .last = w->ring->engine->stamp,
					  .number = q->claim.of->number };
	}
}

void fair_check(struct world *w)
{
	look_at_claims(w);
	for (uint32_t i = 0; i < w->plan.n_workers; i++) {
		struct worker *v = w->workers[i];

		/* One that does not read its answers, or has ended, may have been admitted. */
		if (v->state != WORKER_LIVE || v->stopped || w->now < v->deaf_until || v->poisoned)
			continue;
		for (int k = 0; k < SIM_BATCH; k++)
			if (v->lives[k].state == LIFE_BEGINNING && v->lives[k].wait_ns)
				look_at_begin(w, v, &v->lives[k]);
		for (int k = 0; k < WORKER_CALLS; k++)
			if (v->calls[k].used && v->calls[k].op == WIRE_OP_TAKE && v->calls[k].waits)
				look_at_take(w, v, &v->calls[k]);
	}
}
