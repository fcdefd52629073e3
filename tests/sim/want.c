/* SPDX-License-Identifier: Apache-2.0 */
/* want.c - see want.h */
#include "want.h"

#include <inttypes.h>

#include "clock.h"
#include "engine/internal.h"
#include "worker.h"

/* Boards are written every 2 ms at most, and a broker that sleeps wakes up for it. */
#define LATE_NS (20 * NS_PER_MS)

static bool was_refused(const struct session *s, uint64_t stamp)
{
	return !s->ended && s->refused_until > stamp;
}

static bool lacks(const struct session *s, uint64_t stamp)
{
	return s->n_waits > 0 || was_refused(s, stamp);
}

/* ---- what is asked ------------------------------------------------------------------- */

/* Bytes that the session is asked for in all groups. */
static uint64_t asked_of(struct world *w, const struct session *s, uint64_t stamp)
{
	uint64_t bytes = 0;

	FOR_EACH_GROUP (g, s) {
		if (g->wanted < 0 || g->wanted > g->n_managed)
			world_break(w, "a session is asked for %" PRId64 " pages of group %u, and manages %" PRId64,
				    g->wanted, g->index, g->n_managed);
		if (was_refused(s, stamp) && g->wanted > 0 && (uint64_t)g->wanted > g->offered)
			world_break(w, "a session that was refused pages offers %" PRIu64 " and is asked for %" PRId64,
				    g->offered, g->wanted);
		bytes += (uint64_t)g->wanted * page_key_whole(g->key);
	}
	if (bytes && (s->ended || s->n_waits > 0))
		world_break(w, "a session that %s is asked for %" PRIu64 " bytes",
			    s->ended ? "has ended" : "waits for pages itself", bytes);
	return bytes;
}

/* No model is asked for what lies below its floor. */
static void check_floors(struct world *w, const struct engine *e)
{
	const struct quota *q;
	const struct session *s;

	TAILQ_FOREACH (q, &e->quotas, link) {
		uint64_t used = quota_used(q), asked = 0;

		LIST_FOREACH (s, &e->sessions, siblings)
			FOR_EACH_GROUP (g, s)
				asked += s->quota == q ? (uint64_t)g->wanted * page_key_whole(g->key) : 0;
		if (asked && asked + q->floor > used)
			world_break(w,
				    "a model that uses %" PRIu64 " bytes and has a floor of %" PRIu64
				    " is asked for %" PRIu64,
				    used, q->floor, asked);
	}
}

/* What is lacking of each class, of what is on its way at most. */
static void add_needs(int64_t *lack, const struct session *s, const int64_t *needs)
{
	FOR_EACH_GROUP (g, s)
		lack[g->class_index] += needs[g->index];
}

/* Bytes that can be asked for: all that is lacking, less what is on its way, and less than a page more of each size. */
static uint64_t lacking(const struct engine *e)
{
	int64_t lack[POOL_MAX_CLASSES] = { 0 }, leaving[POOL_MAX_CLASSES] = { 0 };
	const struct session *s;
	const struct wait *x;
	uint64_t bytes = 0, largest = 0;

	TAILQ_FOREACH (x, &e->waits, in_engine)
		if (!x->refusal)
			add_needs(lack, x->session, x->needs);
	LIST_FOREACH (s, &e->sessions, siblings) {
		FOR_EACH_GROUP (g, s) {
			if (was_refused(s, e->stamp) && s->n_waits == 0)
				lack[g->class_index] += g->refused;
			leaving[g->class_index] += s->ended ? 0 : g->n_leaving;
			if (page_key_whole(g->key) > largest)
				largest = page_key_whole(g->key);
		}
	}
	LIST_FOREACH (s, &e->sessions, siblings)
		FOR_EACH_GROUP (g, s) {
			uint32_t i = g->class_index;

			if (lack[i] > leaving[i])
				bytes += (uint64_t)(lack[i] - leaving[i]) * page_key_whole(g->key) + largest;
			lack[i] = 0;
		}
	return bytes;
}

void want_check_asked(struct world *w)
{
	const struct engine *e = w->ring->engine;
	const struct session *s;
	uint64_t asked = 0, most;

	if (w->ring->now < w->ring->next_boards || !engine_presses(e)) /* it was not that */
		return;
	LIST_FOREACH (s, &e->sessions, siblings)
		asked += asked_of(w, s, e->stamp);
	if (!asked)
		return;
	w->asks++;
	w->lack_seen = w->now;
	check_floors(w, e);
	most = lacking(e);
	if (asked > most)
		world_break(w, "%" PRIu64 " bytes of pages are asked for, and %" PRIu64 " are lacking", asked, most);
}

/* ---- when it ends, and when it begins --------------------------------------------------- */

static bool any_lack(const struct world *w)
{
	const struct engine *e = w->ring->engine;
	const struct session *s;

	LIST_FOREACH (s, &e->sessions, siblings)
		if (lacks(s, w->now))
			return true;
	return false;
}

/* What workers read. */
static uint64_t on_boards(const struct world *w)
{
	const struct channel *c;
	uint64_t n = 0;

	TAILQ_FOREACH (c, &w->ring->channels, link)
		for (uint32_t g = 0; c->state == CHANNEL_ATTACHED && g < c->memory.layout.n_groups; g++)
			n += load_relaxed(&c->boards[g].wanted);
	return n;
}

/* No page of class @class is free or on its way, nor an extent, beyond all doubt. */
static bool is_out_of(const struct world *w, uint32_t class)
{
	const struct engine_config *config = &w->plan.ring.engine;
	const struct engine *e = w->ring->engine;
	const struct session *s;
	struct class_counts c;

	if (!engine_class_count(e, class, &c) || c.free)
		return false;
	for (uint32_t i = 0; engine_class_count(e, i, &c); i++)
		if (c.empty)
			return false;
	for (uint64_t at = 0; at < config->half_bytes; at += config->extent_bytes) /* the last may be a short one */
		if (engine_extent_class(e, (uint32_t)(at / config->extent_bytes)) < 0)
			return false;
	LIST_FOREACH (s, &e->sessions, siblings)
		FOR_EACH_GROUP (g, s)
			if (g->class_index == class && g->n_leaving)
				return false;
	return true;
}

/* Somebody who lacks none holds pages of class @class that he manages, and his model has no floor. */
static bool could_be_asked(const struct world *w, uint32_t class)
{
	const struct session *s;

	LIST_FOREACH (s, &w->ring->engine->sessions, siblings)
		FOR_EACH_GROUP (g, s)
			if (g->class_index == class && g->n_managed && !s->ended && !lacks(s, w->now) &&
			    !s->quota->floor)
				return true;
	return false;
}

static bool should_ask(const struct world *w)
{
	const struct wait *x;

	TAILQ_FOREACH (x, &w->ring->engine->waits, in_engine)
		FOR_EACH_GROUP (g, x->session)
			if (!x->refusal && x->needs[g->index] && !x->session->quota->ceiling &&
			    is_out_of(w, g->class_index) && could_be_asked(w, g->class_index))
				return true;
	return false;
}

void want_check_ends(struct world *w)
{
	uint64_t wanted = on_boards(w);
	bool lack = any_lack(w), fine = wanted || !should_ask(w);

	/* What was so at the last look was so until something happened, which may be just now. */
	if (lack || w->lacked)
		w->lack_seen = w->now;
	if (wanted && w->now - w->lack_seen > LATE_NS)
		world_break(w, "%" PRIu64 " pages are asked for, and nobody has lacked any for %.1f ms", wanted,
			    (double)(w->now - w->lack_seen) / 1e6);
	if (fine || w->fine)
		w->asked_seen = w->now;
	if (w->now - w->asked_seen > LATE_NS)
		world_break(w, "pages are lacking for %.1f ms, and who could give some is not asked",
			    (double)(w->now - w->asked_seen) / 1e6);
	w->lacked = lack;
	w->fine = fine;
}

/* Something is under way that may be refused for want of pages. */
static bool asks_for_pages(const struct worker *v)
{
	for (int i = 0; i < WORKER_CALLS; i++) {
		const struct call *c = &v->calls[i];

		if (c->used && (c->op == WIRE_OP_BEGIN || c->op == WIRE_OP_TAKE || c->op == WIRE_OP_RESERVE ||
				c->op == WIRE_OP_STEP_PREPARE || c->op == WIRE_OP_STEP_TURN))
			return true;
	}
	return false;
}

void want_check_given(struct worker *v)
{
	const struct channel *c = v->connection->doorbell->who;

	if (!asks_for_pages(v) && c && c->state == CHANNEL_ATTACHED && was_refused(c->session, v->world->now))
		world_break(v->world, "worker %u has got pages, and counts as one that was refused some", v->number);
}
