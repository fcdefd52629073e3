/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - begins and takes that wait for pages
 *
 * Each model has a queue, and nobody of that model overtakes one that has not
 * waited for long. Then it is overdue: it no longer holds up those behind it,
 * and as the first of its queue it claims what it needs (claim.h). So whatever
 * its worker does, others wait no longer than that and the claim's bounds.
 * Between models there is no order but age, where two could be admitted.
 *
 * Nothing is looked at until something changed that may help: pages that came
 * back, a limit, one that left, a claim that ended. Only one that its own session
 * hinders, with all its points or entries taken, is looked at whenever it is
 * asked. A sweep tries a few at a time (TRIES_A_CALL) of however many wait, and
 * no call looks at more than VISITS_A_CALL. Times are stamps.
 */
#include "wait.h"

#include <inttypes.h>
#include <stdio.h>

#include "admission.h"
#include "begin.h"
#include "behind.h"
#include "bug.h"
#include "quarantine.h"
#include "quota.h"
#include "slice.h"

/* Begins that engine_admit() tries before it returns, and slots that these may have, but for the last; the next call
 * goes on. */
#define TRIES_A_CALL 16
#define SLOTS_A_CALL 256
/* Those that it looks at. */
#define VISITS_A_CALL 512

static void slots_mark(const struct wait *w, bool waiting)
{
	struct session *s = w->session;
	int32_t slot = w->first_slot;

	for (uint32_t i = 0; i < w->n_slots; i++, slot = s->slots[slot].next_waiting)
		s->slots[slot].waiting = waiting;
}

/* *@due: at the latest when its time is up, or it is overdue. */
static void note_due(const struct engine *e, const struct wait *w, uint64_t *due)
{
	uint64_t overdue = w->since + e->wait_claim;
	uint64_t at = !w->overdue && overdue < w->deadline ? overdue : w->deadline;

	if (*due == 0 || at < *due)
		*due = at ? at : 1;
}

bool wait_holds_up(const struct quota *q)
{
	const struct wait *last = TAILQ_LAST(&q->queue, wait_list);

	return last && !last->overdue;
}

/* A new entry at the end of all queues; NULL with *@f set: the session may have no more. */
static struct wait *queue(struct session *s, uint64_t wait, uint64_t ticket, const int64_t *needs, struct fault *f)
{
	struct engine *e = s->engine;
	struct wait *w = s->free_wait;

	if (e->n_waiting == 0)
		e->returned_seen = e->pool.returned;
	if (!w) {
		fault_set(f, FAULT_WAITS_FULL, -1, s->n_waits, 0);
		return NULL;
	}
	s->free_wait = w->next_free;
	s->n_waits++;
	*w = (struct wait){
		.session = s,
		.queued = true,
		.number = ++e->last_wait,
		.ticket = ticket,
		.since = e->stamp,
		.deadline = wait < UINT64_MAX - e->stamp ? e->stamp + wait : UINT64_MAX,
	};
	memcpy(w->needs, needs, s->n_groups * sizeof(needs[0]));
	TAILQ_INSERT_TAIL(&s->quota->queue, w, in_quota);
	TAILQ_INSERT_TAIL(&e->waits, w, in_engine);
	TAILQ_INSERT_TAIL(&s->queued, w, in_session);
	if (!e->in_time)
		e->in_time = w;
	s->quota->n_waiting++;
	e->n_waiting++;
	note_due(e, w, &e->next_due);
	return w;
}

int wait_add(struct session *s, const struct begin *b, const int64_t *needs, struct fault *f)
{
	struct wait *w = queue(s, b->wait, b->ticket, needs, f);

	if (!w)
		return SWAKV_EBUSY;
	w->stream = b->stream;
	w->n_slots = b->n_slots;
	w->first_slot = b->slots[0];
	w->max_tokens = b->max_tokens;
	w->unordered = b->unordered;
	w->pinned = b->pinned;
	for (uint32_t i = 0; i + 1 < b->n_slots; i++)
		s->slots[b->slots[i]].next_waiting = b->slots[i + 1];
	slots_mark(w, true);
	return SWAKV_EAGAIN;
}

int wait_add_take(struct session *s, const struct take *t, const int64_t *needs, struct fault *f)
{
	struct wait *w = queue(s, t->wait, t->ticket, needs, f);

	if (!w)
		return SWAKV_EBUSY;
	w->takes = true;
	w->take = *t;
	return SWAKV_EAGAIN;
}

int wait_or_not(struct session *s, int code, bool in_turn, uint64_t wait, const int64_t *needs, struct fault *f)
{
	struct fault never;

	/* What never could be is not waited for. */
	if ((wait || !in_turn) && session_check_never(s, needs, &never) != 0 && (wait || code == SWAKV_ENOPAGES)) {
		if (f)
			*f = never;
		return never.code;
	}
	if (wait)
		return SWAKV_EAGAIN;
	if (code == SWAKV_ENOPAGES)
		press_refused(s, needs);
	if (code == SWAKV_ENOPAGES && in_turn && behind_suffices(s, needs))
		return fault_set(f, FAULT_BEGIN_PENDING, -1, begin_pages(s, needs), 0);
	return code;
}

/* Whoever is at @w in a walk over all goes on with the next one. */
static void walks_pass(struct engine *e, const struct wait *w)
{
	struct wait **const at[] = { &e->next_try, &e->next_late, &e->in_time };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		if (*at[i] == w)
			*at[i] = TAILQ_NEXT(w, in_engine);
}

static void wait_remove(struct wait *w, bool admitted)
{
	struct session *s = w->session;
	struct engine *e = s->engine;
	struct quota *q = s->quota;

	if (q->claim.of == w)
		claim_end(e, q, admitted);
	if (TAILQ_FIRST(&q->queue) == w || !w->overdue)
		e->retry = true; /* the next one's turn */
	walks_pass(e, w);
	slots_mark(w, false);
	TAILQ_REMOVE(&q->queue, w, in_quota);
	TAILQ_REMOVE(&e->waits, w, in_engine);
	TAILQ_REMOVE(&s->queued, w, in_session);
	if (w->refusal)
		TAILQ_REMOVE(&e->refused, w, in_refused);
	q->n_waiting--;
	e->n_waiting--;
	s->n_waits--;
	w->queued = false;
	w->next_free = s->free_wait;
	s->free_wait = w;
}

void wait_forget(struct session *s)
{
	struct wait *w;

	while ((w = TAILQ_FIRST(&s->queued)))
		wait_remove(w, false);
}

static void refuse(struct wait *w, enum fault_reason reason)
{
	struct session *s = w->session;

	if (s->quota->claim.of == w)
		claim_end(s->engine, s->quota, false);
	w->refusal = reason;
	TAILQ_INSERT_TAIL(&s->engine->refused, w, in_refused);
}

void session_refuse_waiting(struct session *s, enum fault_reason reason)
{
	struct wait *w;

	TAILQ_FOREACH (w, &s->queued, in_session)
		if (!w->refusal)
			refuse(w, reason);
}

bool session_withdraw(struct session *s, uint64_t ticket)
{
	for (struct wait *w = s->waits; w < s->waits + ENGINE_MAX_WAITS(s->model.max_batch); w++) {
		if (!w->queued || w->refusal || w->ticket != ticket)
			continue;
		refuse(w, FAULT_WITHDRAWN);
		return true;
	}
	return false;
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
	out->took = w->takes;
	out->most = w->take.max;
	out->pages = s->engine->taken;
	wait_remove(w, code == 0);
	return true;
}

static bool answer_refused(struct engine *e, struct admission *out)
{
	struct wait *w;

	TAILQ_FOREACH (w, &e->refused, in_refused)
		if (!w->session->busy)
			return answer(w,
				      fault_set(&out->fault, (enum fault_reason)w->refusal, -1,
						session_quarantined(w->session), 0),
				      out);
	return false;
}

/* What it began with; its slots are in the session's scratch. */
static struct begin begin_of(const struct wait *w)
{
	struct session *s = w->session;
	int32_t slot = w->first_slot;

	for (uint32_t i = 0; i < w->n_slots; i++, slot = s->slots[slot].next_waiting)
		s->slot_scratch[i] = slot;
	return (struct begin){
		.stream = w->stream,
		.max_tokens = w->max_tokens,
		.slots = s->slot_scratch,
		.n_slots = w->n_slots,
		.unordered = w->unordered,
		.pinned = w->pinned,
	};
}

static int admit(struct wait *w, struct admission *out)
{
	struct begin b = begin_of(w);

	if (w->takes)
		return pages_admit(w->session, &w->take, w->session->engine->taken, &out->n_pages, &out->fault);
	return request_admit(w->session, &b, &out->handle, &out->fault);
}

/* Tries to admit @w. SWAKV_ENOPAGES: not yet. */
static int try(struct wait *w, struct admission *out)
{
	struct session *s = w->session;
	int code;

	if (s->quota->claim.of == w)
		claim_serve(s->engine, s->quota);
	slots_mark(w, false);
	s->engine->admitting = true; /* it may be paused, and is not asked again before it has ended */
	code = admit(w, out);
	s->engine->admitting = false;
	slots_mark(w, true);
	if (code && s->quota->claim.of == w)
		claim_serve_end(s->engine, s->quota);
	return code;
}

/* Nobody before it in its queue holds it up. */
static bool has_turn(const struct wait *w)
{
	const struct wait *before = TAILQ_PREV(w, wait_list, in_quota);

	return !before || before->overdue;
}

/* In the middle of somebody's work: not of that session, and not to begin another long work in it. */
static bool must_wait(const struct wait *w)
{
	const struct engine *e = w->session->engine;
	int64_t pages = w->takes ? w->take.max : begin_pages(w->session, w->needs);

	return w->session->busy || (e->slice.paused && engine_spent(e) + pages > ENGINE_LONG / 2);
}

/* A sweep over those whose turn it is, oldest first, goes on where it was; false: nobody more, or not now. */
static bool admit_next(struct engine *e, struct admission *out)
{
	uint32_t tries = 0, slots = 0;

	for (int i = 0; i < VISITS_A_CALL && e->next_try && tries < TRIES_A_CALL && slots < SLOTS_A_CALL; i++) {
		struct wait *w = e->next_try;
		int code;

		if (tries > 0 && !slice_holds(w->session, 0)) /* they have looked at many extents */
			break;

		e->next_try = TAILQ_NEXT(w, in_engine);
		if (w->refusal || !has_turn(w))
			continue;
		if (must_wait(w)) {
			e->hindered = true;
			continue;
		}
		tries++;
		slots += w->n_slots;
		code = try(w, out);
		if (code == SWAKV_EPENDING || code == SWAKV_EBUSY)
			e->hindered = true;
		else if (code != SWAKV_ENOPAGES)
			return answer(w, code, out);
	}
	return false;
}

static bool is_due(const struct engine *e)
{
	return (e->next_due && e->stamp >= e->next_due && !e->next_late) ||
	       (e->claims_due && e->stamp >= e->claims_due);
}

/* Who is overdue now. */
static void mark_overdue(struct engine *e)
{
	struct wait *w;

	/* Those that came later are in time as well. */
	for (; (w = e->in_time) && e->stamp - w->since >= e->wait_claim; e->in_time = TAILQ_NEXT(w, in_engine))
		w->overdue = true;
}

/* Its time is up. Where only its own session's points are in its way, that is said. */
static int late_fault(struct wait *w, struct fault *f)
{
	struct engine *e = w->session->engine;
	int64_t waited = (int64_t)((e->stamp - w->since) / e->stamps_a_ms);
	struct begin b = begin_of(w);
	bool own;

	slots_mark(w, false);
	e->admitting = true; /* as in try() */
	own = has_turn(w) &&
	      (w->takes ? behind_suffices(w->session, w->needs) : request_waits_for_itself(w->session, &b, w->needs));
	e->admitting = false;
	slots_mark(w, true);
	return fault_set(f, own ? FAULT_WAITED_PENDING : FAULT_WAITED, -1, waited, begin_pages(w->session, w->needs));
}

/* Those whose time is up; else notes when that is next. */
static bool answer_late(struct engine *e, struct admission *out)
{
	if (!e->next_late) {
		e->later_due = 0;
		e->next_late = TAILQ_FIRST(&e->waits);
	}
	e->next_due = e->stamp ? e->stamp : 1; /* there may be more */
	for (int i = 0; i < VISITS_A_CALL && e->next_late; i++) {
		struct wait *w = e->next_late;

		e->next_late = TAILQ_NEXT(w, in_engine);
		if (e->stamp >= w->deadline && !w->session->busy)
			return answer(w, late_fault(w, &out->fault), out);
		note_due(e, w, &e->later_due);
	}
	if (!e->next_late)
		e->next_due = e->later_due;
	return false;
}

/* Something may have changed for who waits: a sweep begins. */
static bool sweep_begin(struct engine *e)
{
	if (!e->retry && !e->hindered && e->returned_seen == e->pool.returned && !e->claims_lifted && !is_due(e))
		return false;
	mark_overdue(e);
	claims_review(e);
	e->retry = e->hindered = false;
	e->returned_seen = e->pool.returned;
	e->next_try = TAILQ_FIRST(&e->waits);
	return true;
}

bool engine_admit(struct engine *e, struct admission *out)
{
	*out = (struct admission){ 0 };
	if (e->n_waiting == 0 || e->admitting)
		return false;
	if (answer_refused(e, out))
		return true;
	while (e->next_try || sweep_begin(e)) {
		if (admit_next(e, out))
			return true;
		if (e->next_try)
			return false;
		if (!e->retry)
			break;
	}
	return e->next_due && e->stamp >= e->next_due && answer_late(e, out);
}

uint32_t engine_waiting(const struct engine *e)
{
	return e->n_waiting;
}

uint64_t engine_shifts(const struct engine *e)
{
	return e->shifts + e->pool.hands;
}

uint64_t engine_due(const struct engine *e)
{
	if (e->n_waiting == 0)
		return 0;
	if (e->next_try)
		return e->stamp ? e->stamp : 1; /* a sweep is to go on */
	return e->claims_due && (!e->next_due || e->claims_due < e->next_due) ? e->claims_due : e->next_due;
}

/* ---- check --------------------------------------------------------------------- */

bool wait_check(const struct engine *e, char *buf, size_t size)
{
	const struct quota *q;
	const struct wait *w;
	uint32_t n = 0, queued = 0, sessions, floors = 0;
	uint64_t last = 0;
	bool in_time = false;

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
		in_time |= w == e->in_time;
		if (w->overdue == in_time)
			return snprintf(buf, size, "wait %" PRIu64 " is overdue before an older one, or no longer",
					w->number),
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
