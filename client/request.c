/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - begin, prefill, rewind, reserve, finish and abandon (swakv_request.3)
 *
 * A request is counted: the caller's handle is one reference, each call in
 * flight another, so a handle may be freed while an answer is on its way. Rules
 * of the lifecycle are the broker's to judge; here only what would make the
 * library itself misbehave is refused.
 */
#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_collect.h"
#include "call_send.h"
#include "clock.h"
#include "delivery.h"
#include "fence.h"
#include "incarnation.h"
#include "session.h"
#include "sized.h"
#include "stream/session_stream.h"

/* ---- the handle -------------------------------------------------------------------- */

void request_unref(struct swakv_request *r)
{
	if (--r->refs > 0)
		return;
	LIST_REMOVE(r, link);
	free(r->map);
	free(r);
}

void request_set_pending(struct swakv_request *r, uint16_t complete)
{
	struct stream *st = &r->session->streams[r->stream];

	if (r->pending == complete)
		return;
	r->pending = complete;
	r->before = st->marked;
	if (complete)
		st->n_prepared++;
	else
		st->n_prepared--;
}

void request_lost(struct swakv_request *r)
{
	request_set_pending(r, 0);
	r->valid = false;
}

bool swakv_request_valid(const swakv_request *r)
{
	return r && r->valid && incarnation_is_current(r->session->incarnation) && !r->session->gone;
}

uint32_t swakv_request_batch(const swakv_request *r)
{
	return r ? r->n : 0;
}

int32_t swakv_request_slot(const swakv_request *r, uint32_t seq)
{
	return r && seq < r->n ? r->slots[seq] : -1;
}

int request_enter(struct swakv_request *r)
{
	return r ? session_enter(r->session) : SWAKV_EINVALID;
}

struct call *request_call(struct swakv_request *r, uint16_t op, call_effect *effect)
{
	struct call *c = call_new(r->session, op, 1, effect);

	if (c)
		request_entry(c, 0, r, false);
	return c;
}

void request_completed(struct call_entry *e)
{
	struct stream *st = &e->request->session->streams[e->request->stream];

	request_set_pending(e->request, 0);
	/* a word that stayed behind would make the line look busy for ever */
	if (e->done && st->n_prepared == 0)
		(void)stream_mark_if_armed(st);
}

/* ---- begin --------------------------------------------------------------------------------- */

/*
 * A slot may have clears under way on its former stream, carried there by an
 * answer after its request had ended; the broker does not know how far they
 * are. Another stream gets the slot when they are through: until then a begin
 * that the broker has granted is given back, or, where it may wait, is held.
 */
static bool begin_is_early(struct swakv_session *s, struct call *c, const struct swakv_request *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct slot *slot = &s->slots[r->slots[i]];
		struct fault f;

		if (slot->until == 0 || slot->applied == r->stream ||
		    load_acquire(&s->streams[slot->applied].line->word) >= slot->until)
			continue;
		fault_set(&f, FAULT_SLOT_PENDING, (int32_t)i, r->slots[i], (int64_t)slot->until);
		fault_format(&f, c->why, sizeof(c->why));
		return true;
	}
	return false;
}

static void begin_take_slots(struct swakv_session *s, const struct swakv_request *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		s->slots[r->slots[i]].stream = (uint8_t)r->stream;
}

static void request_abandon_quietly(struct swakv_request *r);

static int begin_give_back(struct swakv_request *r)
{
	r->dropped = true;
	request_abandon_quietly(r);
	return SWAKV_EPENDING;
}

static int begin_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			const unsigned char *payload, size_t len)
{
	struct swakv_request *r = c->entries[0].request;

	if (c->result != 0)
		return c->result;
	r->handle = reply->value;
	r->valid = true;
	if (begin_is_early(s, c, r)) {
		c->held = c->wait_ms && !c->orphan;
		return c->held ? 0 : begin_give_back(r);
	}
	begin_take_slots(s, r);
	if (c->orphan) /* nobody waits for it any more */
		(void)begin_give_back(r);
	return 0;
}

bool begin_settled(struct swakv_session *s, struct call *c)
{
	struct swakv_request *r = c->entries[0].request;
	bool early = begin_is_early(s, c, r);

	if (s->gone) {
		snprintf(c->why, sizeof(c->why), "%.*s", (int)sizeof(c->why) - 1, s->gone_why);
		c->result = SWAKV_EGONE;
	} else if (!early) {
		begin_take_slots(s, r);
	} else if (clock_ns() < c->wait_until) {
		return false;
	} else {
		c->result = begin_give_back(r);
	}
	c->held = false;
	return true;
}

static struct swakv_request *request_new(struct swakv_session *s, const struct swakv_begin_options *o)
{
	struct swakv_request *r = calloc(1, sizeof(*r) + o->n_slots * sizeof(r->slots[0]));

	if (!r) {
		session_error(s, SWAKV_ENOMEM, "out of memory");
		return NULL;
	}
	r->session = s;
	r->refs = 1;
	r->stream = o->stream;
	r->n = o->n_slots;
	memcpy(r->slots, o->slots, o->n_slots * sizeof(r->slots[0]));
	LIST_INSERT_HEAD(&s->requests, r, link);
	return r;
}

int swakv_request_begin(swakv_session *s, const struct swakv_begin_options *options, swakv_request **out,
			swakv_ticket *ticket)
{
	struct swakv_begin_options own, *o = &own;
	struct wire_begin body;
	struct part parts[2];
	struct swakv_request *request;
	struct call *c;
	int r;

	if (out)
		*out = NULL;
	r = session_enter(s);
	if (r < 0)
		return r;
	if (!options || !out)
		return session_error(s, SWAKV_EINVALID, "%s NULL",
				     options ? "the pointer for the request is" : "the options are");
	if (!sized_take(&SIZED(swakv_begin_options, max_tokens), o, options, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	r = session_list(s, "slots", o->slots, o->n_slots, sizeof(o->slots[0]), sizeof(body));
	if (r < 0)
		return r;
	if (!session_stream(s, o->stream, &r))
		return r;
	request = request_new(s, o);
	if (!request)
		return SWAKV_ENOMEM;
	c = request_call(request, WIRE_OP_BEGIN, begin_effect);
	request_unref(request); /* the call has it */
	if (!c)
		return SWAKV_ENOMEM;
	c->out = out;
	c->wait_ms = o->wait_ms;
	c->wait_until = o->wait_ms ? clock_ns() + o->wait_ms * (uint64_t)1000000 : 0;
	body = (struct wire_begin){ .stream = o->stream,
				    .flags = s->streams[o->stream].unordered ? WIRE_BEGIN_UNORDERED : 0,
				    .max_tokens = o->max_tokens,
				    .wait_ms = o->wait_ms };
	parts[0] = (struct part){ &body, sizeof(body) };
	parts[1] = (struct part){ request->slots, o->n_slots * sizeof(request->slots[0]) };
	r = call_send(s, c, 0, o->n_slots, parts, 2);
	return r < 0 ? r : call_return(s, c, ticket);
}

int swakv_request_withdraw(swakv_session *s, swakv_ticket begin, swakv_ticket *ticket)
{
	struct call *waiting, *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	waiting = call_find(s, begin);
	if (!waiting || (waiting->op != WIRE_OP_BEGIN && waiting->op != WIRE_OP_TAKE))
		return session_error(s, SWAKV_EINVALID, "ticket %" PRIx64 " is not that of a begin or take in flight",
				     begin);
	waiting->wait_until = 0; /* also when it waits here, for its slots */
	c = call_new(s, WIRE_OP_WITHDRAW, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	r = call_send(s, c, begin, 0, NULL, 0);
	return r < 0 ? r : call_return(s, c, ticket);
}

/* ---- prefill ---------------------------------------------------------------------------------- */

static int prefill_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			  const unsigned char *payload, size_t len)
{
	if (c->result != 0)
		return c->result;
	request_set_pending(c->entries[0].request, WIRE_OP_PREFILL_COMPLETE);
	return delivery_take(s, c, payload, len, true);
}

int swakv_prefill_prepare(swakv_request *r, const int32_t *lengths, uint32_t n, swakv_ticket *ticket)
{
	struct part part = { lengths, n * sizeof(*lengths) };
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	e = session_list(r->session, "lengths", lengths, n, sizeof(*lengths), 0);
	if (e < 0)
		return e;
	c = request_call(r, WIRE_OP_PREFILL_PREPARE, prefill_effect);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, n, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

static int complete_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			   const unsigned char *payload, size_t len)
{
	if (c->result == 0)
		request_completed(&c->entries[0]);
	return c->result;
}

int request_complete(swakv_request *r, uint16_t op, call_effect *effect, struct swakv_fence fence, swakv_ticket *ticket)
{
	struct wire_fence wire;
	struct part part = { &wire, sizeof(wire) };
	struct call *c;
	int e = request_enter(r);

	if (e == 0)
		e = fence_to_wire(r, FENCE_ALONE, op, fence, &wire);
	if (e < 0)
		return e;
	c = request_call(r, op, effect);
	if (!c)
		return SWAKV_ENOMEM;
	c->one.done = fence.kind == SWAKV_FENCE_DONE;
	e = call_send(r->session, c, r->handle, 1, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_prefill_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return request_complete(r, WIRE_OP_PREFILL_COMPLETE, complete_effect, fence, ticket);
}

/* ---- what a request may hold, and what it gives back -------------------------------------------------- */

int swakv_rewind(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket)
{
	const struct part part = { tokens, n * sizeof(*tokens) };
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	e = session_list(r->session, "tokens", tokens, n, sizeof(*tokens), 0);
	if (e < 0)
		return e;
	c = request_call(r, WIRE_OP_REWIND, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, n, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_request_reserve(swakv_request *r, int64_t max_tokens, swakv_ticket *ticket)
{
	const struct part part = { &max_tokens, sizeof(max_tokens) };
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	c = request_call(r, WIRE_OP_RESERVE, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, 0, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

/* ---- finish and abandon --------------------------------------------------------------------------- */

static int end_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		      const unsigned char *payload, size_t len)
{
	struct swakv_request *r = c->entries[0].request;

	r->ending = false;
	if (c->result == SWAKV_EINVALID && !r->valid)
		return 0; /* it had ended before: nothing to do */
	if (c->result == 0)
		request_lost(r);
	else if (c->op == WIRE_OP_FINISH && r->dropped)
		request_abandon_quietly(r);
	return c->result;
}

static struct call *end_call(struct swakv_request *r, uint16_t op, struct wire_fence *fence, struct part *part)
{
	struct call *c = request_call(r, op, end_effect);

	if (!c)
		return NULL;
	*fence = fence_of_end(r, op);
	*part = (struct part){ fence, sizeof(*fence) };
	r->ending = true;
	return c;
}

static int request_leave(struct swakv_request *r, uint16_t op, swakv_ticket *ticket)
{
	struct wire_fence fence;
	struct part part;
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	if (!r->valid)
		return call_return_now(r->session, ticket);
	c = end_call(r, op, &fence, &part);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, 1, &part, 1);
	if (e < 0)
		r->ending = false;
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_request_finish(swakv_request *r, swakv_ticket *ticket)
{
	return request_leave(r, WIRE_OP_FINISH, ticket);
}

int swakv_request_abandon(swakv_request *r, swakv_ticket *ticket)
{
	return request_leave(r, WIRE_OP_ABANDON, ticket);
}

/* Sends an abandon that nobody waits for. */
static void request_abandon_quietly(struct swakv_request *r)
{
	struct wire_fence fence;
	struct part part;
	struct call *c;

	if (r->session->gone || !r->valid)
		return;
	c = end_call(r, WIRE_OP_ABANDON, &fence, &part);
	if (c)
		call_send_orphan(r->session, c, r->handle, &part, 1);
}

void swakv_request_free(swakv_request *r)
{
	if (!r)
		return;
	r->dropped = true;
	if (incarnation_is_current(r->session->incarnation) && !r->ending)
		request_abandon_quietly(r);
	request_unref(r);
}
