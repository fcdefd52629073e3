/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - a request as its worker has it, and what the calls on it share (swakv_request.3);
 * rewind and reserve, which are the broker's alone
 *
 * A request is counted: the caller's handle is one reference, each call in
 * flight another, so a handle may be freed while an answer is on its way. Rules
 * of the lifecycle are the broker's to judge; here and in the files of the calls
 * only what would make the library itself misbehave is refused.
 */
#include "request.h"

#include <stdlib.h>

#include "call_collect.h"
#include "call_send.h"
#include "fence.h"
#include "incarnation.h"
#include "session.h"

/* ---- the handle ---------------------------------------------------------------------- */

void request_delete(struct swakv_request *r)
{
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

/* ---- what the calls share ------------------------------------------------------------ */

struct call *request_call(struct swakv_request *r, uint16_t op, call_effect *effect)
{
	struct call *c = call_new(r->session, op, 1, effect);

	if (c)
		request_entry(c, 0, r, 0, false);
	return c;
}

void request_completed(struct call_entry *e)
{
	struct stream *st = &e->request->session->streams[e->request->stream];

	request_set_pending(e->request, 0);
	if (e->done)
		stream_catch_up(st);
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

int request_send_list(swakv_request *r, uint16_t op, call_effect *effect, const char *what, const int32_t *list,
		      uint32_t n, swakv_ticket *ticket)
{
	const struct part part = { list, n * sizeof(*list) };
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	e = session_list(r->session, what, list, n, sizeof(*list), 0);
	if (e < 0)
		return e;
	c = request_call(r, op, effect);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, n, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

/* ---- calls that change nothing on this side ------------------------------------------ */

int swakv_rewind(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket)
{
	return request_send_list(r, WIRE_OP_REWIND, NULL, "tokens", tokens, n, ticket);
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
