/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - see call.h */
#include "call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"
#include "session.h"

#define CALLS_MAX 65536u

/* Of a call that is free: while one is made the ring waits, so it is found empty. */
static void call_reset(struct call *c)
{
	c->orphan = false;
	c->result = 0;
	c->n_entries = 0;
	c->entries = &c->one;
	c->one = (struct call_entry){ 0 };
	c->steps = NULL;
	c->turns = NULL;
	c->told = UINT32_MAX;
	c->out = NULL;
	c->map = NULL;
	c->answer = NULL;
	c->wait_ms = 0;
	c->held = false;
	c->ticketed = c->ready = false;
}

/* A call that has never been used; NULL: no memory, or as many as tickets can tell apart. */
static struct call *call_make(struct call_table *t)
{
	struct call *c;

	if (t->n == CALLS_MAX)
		return NULL;
	if ((t->n & (t->n - 1)) == 0) {
		struct call **more = realloc(t->calls, (t->n ? 2 * (size_t)t->n : 1) * sizeof(*more));

		if (!more)
			return NULL;
		t->calls = more;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	call_reset(c);
	c->ticket = t->n;
	t->calls[t->n++] = c;
	return c;
}

static inline struct call *call_alloc(struct call_table *t)
{
	struct call *c = t->free;

	if (c)
		t->free = c->next_free;
	else
		c = call_make(t);
	if (c)
		c->ticket = ++t->count << 16 | (c->ticket & 0xffff);
	return c;
}

/* Room for @n entries; those of a free call are empty. False: no memory. */
static bool call_entries(struct call *c, uint32_t n)
{
	if (n > c->n_more) {
		struct call_entry *more = reallocarray(c->more, n, sizeof(*more));

		if (!more)
			return false;
		memset(more + c->n_more, 0, (n - c->n_more) * sizeof(*more));
		c->more = more;
		c->n_more = n;
	}
	c->entries = c->more;
	return true;
}

struct call *call_new(struct swakv_session *s, uint16_t op, uint32_t n, call_effect *effect)
{
	struct call *c;

	if (s->calls.n_sent == 0)
		ring_producer_soon_spsc(&s->commands);
	c = call_alloc(&s->calls);
	if (!c) {
		if (s->calls.n == CALLS_MAX)
			session_error(s, SWAKV_ENOMEM,
				      "%u tickets are out, the most there can be: collect some with swakv_poll() or "
				      "swakv_wait()",
				      CALLS_MAX);
		else
			session_error(s, SWAKV_ENOMEM, "no memory for call %" PRIu32 " in flight", s->calls.n + 1);
		return NULL;
	}
	c->state = CALL_MADE;
	c->op = op;
	c->effect = effect;
	c->n_entries = n;
	if (n > 1 && !call_entries(c, n)) {
		c->n_entries = 0;
		call_free(s, c);
		session_error(s, SWAKV_ENOMEM, "no memory for a step of %" PRIu32 " requests", n);
		return NULL;
	}
	return c;
}

static void call_clear(struct call *c)
{
	for (struct call_entry *e = c->entries, *end = e + c->n_entries; e < end; e++) {
		struct swakv_request *r = e->request;

		e->request = NULL;
		if (r)
			request_unref(r);
	}
	if (c->map)
		free(c->map);
	c->state = CALL_FREE;
	call_reset(c);
}

void call_free(struct swakv_session *s, struct call *c)
{
	call_clear(c);
	c->next_free = s->calls.free;
	s->calls.free = c;
}

void calls_deinit(struct swakv_session *s)
{
	for (uint32_t i = 0; i < s->calls.n; i++) {
		if (s->calls.calls[i]->state != CALL_FREE)
			call_clear(s->calls.calls[i]);
		free(s->calls.calls[i]->more);
		free(s->calls.calls[i]);
	}
	free(s->calls.calls);
	s->calls = (struct call_table){ 0 };
}

struct call *call_find(struct swakv_session *s, swakv_ticket ticket)
{
	uint32_t i = (uint32_t)(ticket & 0xffff);
	struct call *c = i < s->calls.n ? s->calls.calls[i] : NULL;

	return c && c->ticket == ticket && c->state != CALL_FREE ? c : NULL;
}
