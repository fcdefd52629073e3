/* SPDX-License-Identifier: Apache-2.0 */
/* call_collect.c - see call_collect.h */
#include "call_collect.h"

#include <inttypes.h>

#include "begin.h"
#include "call_answer.h"
#include "clock.h"
#include "session.h"
#include "turn.h"
#include "wait.h"

#define QUICK_POLLS  64        /* a few microseconds */
#define HELD_LOOK_NS 100000ull /* between two looks at the words that a begin waits for */

static int call_collect(struct swakv_session *s, struct call *c)
{
	int r = c->result;

	if (r != 0)
		session_error(s, r, "%s", c->why);
	if (c->steps)
		for (uint32_t i = 0; i < c->n_entries; i++)
			step_at(c->steps, c->step_size, i)->result = c->entries[i].result;
	if (c->turns) {
		turns_collect(c);
		rhythm_collected(s, c);
	}
	if (c->out && r == 0) {
		*c->out = c->entries[0].request;
		c->entries[0].request = NULL; /* the reference is the caller's now */
	}
	events_collected(s, c);
	call_free(s, c);
	return r;
}

/* How long the call @c is waited for: the session's time, and what it may wait itself. */
static uint64_t call_patience(const struct swakv_session *s, const struct call *c)
{
	return s->timeout_ns + c->wait_ms * (uint64_t)1000000;
}

/* Waits for up to @ns. 0 when answered; SWAKV_ETIMEDOUT. */
static int call_wait(struct swakv_session *s, struct call *c, uint64_t ns)
{
	uint64_t deadline = 0;

	/* An awake broker has usually answered before a look at the clock would pay. */
	for (int i = 0; c->state != CALL_ANSWERED && i < QUICK_POLLS; i++) {
		if (calls_take(s)) {
			calls_wake(s);
			continue;
		}
		rhythm_ring(s);
		cpu_relax();
	}
	while (c->state != CALL_ANSWERED) {
		calls_drain(s);
		if (c->state == CALL_ANSWERED)
			break;
		if (deadline == 0) {
			deadline = clock_ns() + ns;
		} else if (clock_ns() >= deadline) {
			session_look(s, 0, true);
			if (c->state == CALL_ANSWERED)
				break;
			return session_late(s, "not answered", ns);
		}
		session_wait(s, 0, deadline);
	}
	while (c->held && !begin_settled(s, c))
		session_wait(s, 0, clock_ns() + HELD_LOOK_NS);
	return 0;
}

int call_return(struct swakv_session *s, struct call *c, swakv_ticket *ticket)
{
	int r;

	if (ticket) {
		*ticket = c->ticket;
		c->ticketed = true;
		if (c->state == CALL_ANSWERED)
			events_answered(s, c);
		return 0;
	}
	r = call_wait(s, c, call_patience(s, c));
	if (r < 0) {
		c->orphan = true;
		c->out = NULL;
		c->steps = NULL;
		c->turns = NULL;
		c->answer = NULL;
		return r;
	}
	return call_collect(s, c);
}

int call_return_now(struct swakv_session *s, swakv_ticket *ticket)
{
	struct call *c;

	if (!ticket)
		return 0;
	c = call_new(s, WIRE_OP_NOP, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	c->state = CALL_ANSWERED;
	*ticket = c->ticket;
	c->ticketed = true;
	events_answered(s, c);
	return 0;
}

/* The call of @ticket for its collector; NULL with the code in *@r. */
static struct call *call_of_ticket(struct swakv_session *s, swakv_ticket ticket, int *r)
{
	struct call *c;

	*r = session_enter(s);
	if (*r < 0 && *r != SWAKV_EGONE)
		return NULL;
	c = call_find(s, ticket);
	if (!c || c->orphan || c->state == CALL_MADE) {
		if (*r == 0)
			*r = session_error(s, SWAKV_EINVALID, "ticket 0x%" PRIx64 " names no call in flight", ticket);
		return NULL;
	}
	return c;
}

int swakv_poll(swakv_session *s, swakv_ticket ticket)
{
	int r;
	struct call *c = call_of_ticket(s, ticket, &r);

	if (!c)
		return r;
	events_take(s);
	calls_drain(s);
	if (c->state != CALL_ANSWERED)
		session_look(s, clock_ns(), false);
	if (c->state != CALL_ANSWERED) {
		rhythm_ring(s);
		return SWAKV_EAGAIN;
	}
	if (c->held && !begin_settled(s, c)) {
		events_held(s);
		return SWAKV_EAGAIN;
	}
	return call_collect(s, c);
}

int swakv_wait(swakv_session *s, swakv_ticket ticket)
{
	int r;
	struct call *c = call_of_ticket(s, ticket, &r);

	if (!c)
		return r;
	r = call_wait(s, c, call_patience(s, c));
	return r < 0 ? r : call_collect(s, c);
}

int swakv_wait_for(swakv_session *s, swakv_ticket ticket, uint32_t ms)
{
	int r;
	struct call *c = call_of_ticket(s, ticket, &r);

	if (!c)
		return r;
	r = call_wait(s, c, ms * (uint64_t)1000000);
	return r < 0 ? r : call_collect(s, c);
}
