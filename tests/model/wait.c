/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c - begins and takes that wait, in the reference model */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

static void mark_slots(struct ref_wait *w, bool waiting)
{
	for (uint32_t i = 0; i < w->n; i++)
		w->session->slots[w->slots[i]].waiting = waiting;
}

/* No more wait in the session than it has slots. */
static bool is_full(const struct ref_session *s)
{
	int32_t n = 0;

	for (uint32_t i = 0; i < s->pool->n_waits; i++)
		n += s->pool->waits[i].session == s;
	return n >= s->max_batch;
}

int ref_wait_to_take(struct ref_session *s, const struct ref_take *t)
{
	struct ref_pool *p = s->pool;

	if (is_full(s))
		return SWAKV_EBUSY;
	p->waits[p->n_waits++] = (struct ref_wait){ .session = s,
						    .ticket = t->ticket,
						    .since = p->stamp,
						    .turn = p->stamp,
						    .deadline = p->stamp + t->wait,
						    .takes = true,
						    .take = *t };
	return SWAKV_EAGAIN;
}

int ref_wait_for_pages(struct ref_session *s, const struct ref_begin *b)
{
	struct ref_pool *p = s->pool;
	struct ref_wait *w = &p->waits[p->n_waits];

	if (is_full(s))
		return SWAKV_EBUSY;
	p->n_waits++;
	*w = (struct ref_wait){ .session = s,
				.ticket = b->ticket,
				.since = p->stamp,
				.turn = p->stamp,
				.deadline = p->stamp + b->wait,
				.stream = b->stream,
				.n = b->n,
				.max_tokens = b->max_tokens,
				.unordered = b->unordered,
				.pinned = b->pinned };
	memcpy(w->slots, b->slots, b->n * sizeof *b->slots);
	mark_slots(w, true);
	return SWAKV_EAGAIN;
}

static void leave_queue(struct ref_pool *p, struct ref_wait *w, bool admitted)
{
	mark_slots(w, false);
	if (w->session->quota->claim.session == w->session && w->session->quota->claim.ticket == w->ticket)
		ref_claim_end(p, w->session->quota, admitted);
	p->n_waits--;
	memmove(w, w + 1, (size_t)(p->waits + p->n_waits - w) * sizeof *w);
}

void ref_forget_waits(struct ref_session *s)
{
	for (uint32_t i = s->pool->n_waits; i-- > 0;)
		if (s->pool->waits[i].session == s)
			leave_queue(s->pool, &s->pool->waits[i], false);
}

struct ref_wait *ref_head(struct ref_pool *p, const struct ref_quota *q)
{
	for (uint32_t i = 0; i < p->n_waits; i++)
		if (p->waits[i].session->quota == q)
			return &p->waits[i];
	return NULL;
}

bool ref_holds_up(const struct ref_pool *p, const struct ref_quota *q)
{
	for (uint32_t i = 0; i < p->n_waits; i++)
		if (p->waits[i].session->quota == q && !p->waits[i].overdue)
			return true;
	return false;
}

/* Nobody of its model that came before holds it up. */
static bool has_turn(const struct ref_pool *p, const struct ref_wait *w)
{
	for (const struct ref_wait *o = p->waits; o < w; o++)
		if (o->session->quota == w->session->quota && !o->overdue)
			return false;
	return true;
}

static struct ref_begin begin_of(const struct ref_wait *w)
{
	return (struct ref_begin){ .stream = w->stream,
				   .n = w->n,
				   .max_tokens = w->max_tokens,
				   .unordered = w->unordered,
				   .pinned = w->pinned,
				   .slots = w->slots };
}

void ref_wait_need(const struct ref_wait *w, int64_t *need)
{
	struct ref_begin b = begin_of(w);

	if (!w->takes) {
		ref_begin_need(w->session, &b, need);
		return;
	}
	memset(need, 0, REF_CLASSES * sizeof *need);
	need[w->session->groups[w->take.group].class_index] = w->take.min;
}

/* What it is told when it is looked at; of a take: @n pages. */
static int wait_code(struct ref_wait *w, int said, uint32_t n)
{
	struct ref_begin b = begin_of(w);
	int64_t need[REF_CLASSES];
	int code;

	if (w->takes)
		return ref_take_code(w->session, &w->take, w, said, n);
	mark_slots(w, false);
	code = ref_begin_check(w->session, &b);
	mark_slots(w, true);
	ref_begin_need(w->session, &b, need);
	/* What stands in the way of its slots or points, and will pass, is waited for as well. */
	if (code == SWAKV_EPENDING || code == SWAKV_EBUSY)
		return SWAKV_EAGAIN;
	return code ? code : ref_admit(w->session, need, need, false, w, said);
}

bool ref_withdraw(struct ref_session *s, uint64_t ticket)
{
	struct ref_pool *p = s->pool;

	for (struct ref_wait *w = p->waits; w < p->waits + p->n_waits; w++) {
		if (w->session != s || w->ticket != ticket)
			continue;
		w->withdrawn = true;
		if (s->quota->claim.session == s && s->quota->claim.ticket == ticket)
			ref_claim_end(p, s->quota, false);
		return true;
	}
	return false;
}

/* What one is told whose time is up. */
static int late_code(struct ref_wait *w)
{
	struct ref_session *s = w->session;
	struct ref_begin b = begin_of(w);
	int64_t need[REF_CLASSES];
	int code;

	if (!has_turn(s->pool, w))
		return SWAKV_ENOPAGES;
	ref_wait_need(w, need);
	if (w->takes)
		return ref_waits_for_itself(s, need) ? SWAKV_EPENDING : SWAKV_ENOPAGES;
	mark_slots(w, false);
	code = ref_begin_check(s, &b);
	mark_slots(w, true);
	if (code == SWAKV_EPENDING || (!code && ref_waits_for_itself(s, need)))
		return SWAKV_EPENDING;
	return SWAKV_ENOPAGES;
}

bool ref_should_begin(struct ref_pool *p, struct ref_wait *w)
{
	int code = has_turn(p, w) ? wait_code(w, SWAKV_ENOPAGES, 0) : SWAKV_EAGAIN;

	return code == SWAKV_OK || code == SWAKV_ENEVER;
}

int ref_answer(struct ref_session *s, uint64_t ticket, int said, uint32_t n, struct ref_request **out,
	       struct ref_wait *was)
{
	struct ref_pool *p = s->pool;
	struct ref_wait *w = p->waits;
	struct ref_begin b;
	int code;

	*out = NULL;
	while (w < p->waits + p->n_waits && (w->ticket != ticket || w->session != s))
		w++;
	if (w == p->waits + p->n_waits) {
		ref_complain(p, "begin %llu is answered, but does not wait", (unsigned long long)ticket);
		return said;
	}
	if (w->withdrawn) {
		code = SWAKV_ENOPAGES;
	} else if (s->poisoned) {
		code = SWAKV_EPOISONED; /* all that wait in the session, at once */
	} else if (said == SWAKV_ENOPAGES || said == SWAKV_EPENDING) {
		code = p->stamp >= w->deadline ? late_code(w) : SWAKV_EAGAIN;
	} else {
		if (!has_turn(p, w))
			ref_complain(p, "begin %llu is answered before those that wait longer",
				     (unsigned long long)ticket);
		code = wait_code(w, said, n);
	}
	*was = *w;
	leave_queue(p, w, !said);
	b = begin_of(was);
	if (!code && !said && !was->takes)
		*out = ref_begin_request(s, &b);
	return code;
}
