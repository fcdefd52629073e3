/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - requests that wait for pages
 *
 * Each model has a queue: its head is admitted before those behind it, and
 * nobody of that model overtakes. Between models there is no order but age,
 * where two could be admitted: a head that lacks pages holds up no other model,
 * until it has waited for so long that it claims what comes free (quota.c).
 *
 * Nothing is looked at until something changed that may help: pages that came
 * back, a limit, a head that left. Only a head that its own session hinders, with
 * all its points or entries taken, is looked at whenever it is asked. Times are
 * stamps.
 */
#include <inttypes.h>
#include <stdio.h>

#include "bug.h"
#include "quota.h"
#include "slice.h"

static void slots_mark(const struct wait *w, bool waiting)
{
	struct session *s = w->session;
	int32_t slot = w->first_slot;

	for (uint32_t i = 0; i < w->n_slots; i++, slot = s->slots[slot].next_waiting)
		s->slots[slot].waiting = waiting;
}

/* The next stamp at which somebody's time is up, or its claim begins. */
static uint64_t due_of(const struct engine *e, const struct wait *w)
{
	uint64_t claim = w->since + e->wait_claim;

	return !w->claims && claim < w->deadline ? claim : w->deadline;
}

static void note_due(struct engine *e, const struct wait *w)
{
	uint64_t due = due_of(e, w);

	if (e->next_due == 0 || due < e->next_due)
		e->next_due = due ? due : 1;
}

int wait_add(struct session *s, const struct begin *b, const int64_t *needs, struct fault *f)
{
	struct engine *e = s->engine;
	struct wait *w = s->free_wait;

	if (e->n_waiting == 0)
		e->returned_seen = e->pool.returned;
	if (!w)
		return fault_set(f, FAULT_WAITS_FULL, -1, s->n_waits, 0);
	s->free_wait = w->next_free;
	s->n_waits++;
	*w = (struct wait){
		.session = s,
		.number = ++e->last_wait,
		.ticket = b->ticket,
		.since = e->stamp,
		.deadline = b->wait < UINT64_MAX - e->stamp ? e->stamp + b->wait : UINT64_MAX,
		.stream = b->stream,
		.n_slots = b->n_slots,
		.first_slot = b->slots[0],
		.max_tokens = b->max_tokens,
		.unordered = b->unordered,
	};
	memcpy(w->needs, needs, s->n_groups * sizeof(needs[0]));
	for (uint32_t i = 0; i + 1 < b->n_slots; i++)
		s->slots[b->slots[i]].next_waiting = b->slots[i + 1];
	slots_mark(w, true);
	TAILQ_INSERT_TAIL(&s->quota->queue, w, in_quota);
	TAILQ_INSERT_TAIL(&e->waits, w, in_engine);
	s->quota->n_waiting++;
	e->n_waiting++;
	note_due(e, w);
	return SWAKV_EAGAIN;
}

static void wait_remove(struct wait *w)
{
	struct session *s = w->session;
	struct quota *q = s->quota;

	if (TAILQ_FIRST(&q->queue) == w)
		s->engine->retry = true; /* the next one's turn; and a claim may be gone */
	slots_mark(w, false);
	TAILQ_REMOVE(&q->queue, w, in_quota);
	TAILQ_REMOVE(&s->engine->waits, w, in_engine);
	q->n_waiting--;
	s->engine->n_waiting--;
	s->n_waits--;
	w->next_free = s->free_wait;
	s->free_wait = w;
}

void wait_forget(struct session *s)
{
	struct wait *w, *next;

	TAILQ_FOREACH_SAFE(w, &s->engine->waits, in_engine, next)
	if (w->session == s)
		wait_remove(w);
}

void session_refuse_waiting(struct session *s, enum fault_reason reason)
{
	struct wait *w;

	TAILQ_FOREACH (w, &s->engine->waits, in_engine) {
		if (w->session != s || w->refusal)
			continue;
		w->refusal = reason;
		s->engine->doomed = true;
	}
}

/* ---- answers ------------------------------------------------------------------- */

static bool answer(struct wait *w, int code, struct admission *out)
{
	struct session *s = w->session;
	int32_t slot = w->first_slot;

	for (uint32_t i = 0; i < w->n_slots; i++, slot = s->slots[slot].next_waiting)
		s->slot_scratch[i] = slot;
	out->session = s;
	out->ticket = w->ticket;
	out->code = code;
	out->waited = s->engine->stamp - w->since;
	out->slots = s->slot_scratch;
	out->n_slots = w->n_slots;
	wait_remove(w);
	return true;
}

static bool answer_doomed(struct engine *e, struct admission *out)
{
	struct wait *w;

	TAILQ_FOREACH (w, &e->waits, in_engine)
		if (w->refusal && !w->session->busy)
			return answer(w,
				      fault_set(&out->fault, (enum fault_reason)w->refusal, -1,
						session_quarantined(w->session), 0),
				      out);
	e->doomed = e->slice.paused;
	return false;
}

/* Tries to admit @w. SWAKV_ENOPAGES: not yet. */
static int try(struct wait *w, struct admission *out)
{
	struct session *s = w->session;
	struct begin b = {
		.stream = w->stream,
		.max_tokens = w->max_tokens,
		.slots = s->slot_scratch,
		.n_slots = w->n_slots,
		.unordered = w->unordered,
	};
	int32_t slot = w->first_slot;
	int code;

	for (uint32_t i = 0; i < w->n_slots; i++, slot = s->slots[slot].next_waiting)
		s->slot_scratch[i] = slot;
	slots_mark(w, false);
	s->engine->admitting = true; /* it may be paused, and is not asked again before it has ended */
	code = request_admit(s, &b, w->number, &out->handle, &out->fault);
	s->engine->admitting = false;
	slots_mark(w, true);
	return code;
}

static struct wait *next_head(const struct engine *e, uint64_t after)
{
	struct wait *w;

	TAILQ_FOREACH (w, &e->waits, in_engine)
		if (w->number > after && TAILQ_FIRST(&w->session->quota->queue) == w)
			return w;
	return NULL;
}

/* In the middle of somebody's work: not of that session, and not to begin another long work in it. */
static bool must_wait(const struct wait *w)
{
	const struct engine *e = w->session->engine;
	int64_t pages = 0;

	for (uint32_t i = 0; i < w->session->n_groups; i++)
		pages += w->needs[i];
	return w->session->busy || (e->slice.paused && pages > ENGINE_SLICE / 2);
}

/* One sweep over the heads, oldest first, goes on where the last answer left it. */
static bool admit_head(struct engine *e, struct admission *out)
{
	struct wait *w;

	while ((w = next_head(e, e->swept))) {
		int code;

		e->swept = w->number;
		if (must_wait(w)) {
			e->hindered = true;
			continue;
		}
		code = try(w, out);
		if (code == SWAKV_EPENDING || code == SWAKV_EBUSY)
			e->hindered = true;
		else if (code != SWAKV_ENOPAGES)
			return answer(w, code, out);
	}
	return false;
}

/* Those whose time is up; else notes when that is next, and which heads claim. */
static bool answer_late(struct engine *e, struct admission *out)
{
	struct wait *w;
	int64_t pages = 0;

	e->next_due = 0;
	TAILQ_FOREACH (w, &e->waits, in_engine) {
		if (e->stamp >= w->deadline && !w->session->busy)
			break;
		if (!w->claims && e->stamp - w->since >= e->wait_claim)
			w->claims = true;
		note_due(e, w);
	}
	if (!w)
		return false;
	e->next_due = e->stamp ? e->stamp : 1; /* there may be more */
	for (uint32_t i = 0; i < w->session->n_groups; i++)
		pages += w->needs[i];
	return answer(
		w, fault_set(&out->fault, FAULT_WAITED, -1, (int64_t)((e->stamp - w->since) / e->stamps_a_ms), pages),
		out);
}

bool engine_admit(struct engine *e, struct admission *out)
{
	*out = (struct admission){ 0 };
	if (e->n_waiting == 0 || e->admitting)
		return false;
	if (e->doomed && answer_doomed(e, out))
		return true;
	for (;;) {
		if (e->swept == 0 && (e->retry || e->hindered || e->returned_seen != e->pool.returned)) {
			e->retry = e->hindered = false;
			e->returned_seen = e->pool.returned;
			e->sweeping = true;
		}
		if (e->sweeping && admit_head(e, out))
			return true;
		e->sweeping = false;
		e->swept = 0;
		if (!e->retry)
			break;
	}
	return e->next_due && e->stamp >= e->next_due && answer_late(e, out);
}

uint32_t engine_waiting(const struct engine *e)
{
	return e->n_waiting;
}

uint64_t engine_due(const struct engine *e)
{
	return e->n_waiting ? e->next_due : 0;
}

/* ---- check --------------------------------------------------------------------- */

bool wait_check(const struct engine *e, char *buf, size_t size)
{
	const struct quota *q;
	const struct wait *w;
	uint32_t n = 0, queued = 0, sessions, floors = 0;
	uint64_t last = 0;

	TAILQ_FOREACH (w, &e->waits, in_engine) {
		int32_t slot = w->first_slot;

		if (w->number <= last || w->session->ended)
			return snprintf(buf, size, "wait %" PRIu64 " is out of order, or its session has ended",
					w->number),
			       false;
		for (uint32_t i = 0; i < w->n_slots && !w->session->busy;
		     i++, slot = w->session->slots[slot].next_waiting)
			if (!w->session->slots[slot].waiting || w->session->slots[slot].seq >= 0)
				return snprintf(buf, size, "slot %" PRId32 " of a wait is not held, or in use", slot),
				       false;
		last = w->number;
		n++;
	}
	TAILQ_FOREACH (q, &e->quotas, link) {
		const struct session *s;

		sessions = 0;
		LIST_FOREACH (s, &q->sessions, sharers)
			sessions++;
		queued += q->n_waiting;
		floors += q->floor > 0;
		if (sessions != q->n_sessions)
			return snprintf(buf, size, "quota \"%s\": %u sessions, counted %u", q->name, q->n_sessions,
					sessions),
			       false;
	}
	if (n != e->n_waiting || queued != n || floors != e->n_floors)
		return snprintf(buf, size, "%u wait, %u in queues, counted %u; %u floors, counted %u", e->n_waiting,
				queued, n, e->n_floors, floors),
		       false;
	return true;
}
