/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finish.c - a request ends: finish, abandon, and a handle that is freed (swakv_request.3)
 *
 * What was dropped is abandoned by the library itself, once: a finish that is
 * refused behind a freed handle becomes an abandon.
 */
#include "finish.h"

#include "call_collect.h"
#include "call_send.h"
#include "fence.h"
#include "incarnation.h"
#include "request.h"
#include "session.h"

/*
 * It ended with a step pending, which was not answered when the end was sent: its
 * pages may wait for what the line was armed for since, and nobody else marks that.
 */
static void request_mark_last(struct swakv_request *r)
{
	bool pending = r->pending;

	request_lost(r);
	if (pending)
		stream_catch_up(&r->session->streams[r->stream]);
}

int request_ended(struct swakv_request *r, bool finish, int result)
{
	r->ending = false;
	if (result == SWAKV_EINVALID && !r->valid)
		return 0; /* it had ended before: nothing to do */
	if (result == 0 ||
	    result == SWAKV_EPOISONED) /* that it was abandoned as one that failed has poisoned the session */
		request_mark_last(r);
	else if (finish && r->dropped)
		request_abandon_quietly(r);
	return result;
}

static int end_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		      const unsigned char *payload, size_t len)
{
	return request_ended(c->entries[0].request, c->op == WIRE_OP_FINISH, c->result);
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

void request_abandon_quietly(struct swakv_request *r)
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
