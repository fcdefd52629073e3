/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - decode steps: one request, or a list of them in one command
 *
 * A step is atomic within a request and independent between requests, so each
 * entry has a result of its own; decode of one request is a step of one.
 */
#include <inttypes.h>

#include "session.h"

static int step_prepare_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			       const unsigned char *payload, size_t len)
{
	int r;

	if (c->result != 0)
		return c->result;
	r = delivery_take(s, c, payload, len, true);
	if (r == SWAKV_EGONE)
		return r;
	for (uint32_t i = 0; i < c->n_entries; i++) {
		if (c->entries[i].result != 0)
			continue;
		request_set_pending(c->entries[i].request, WIRE_OP_STEP_COMPLETE);
		c->entries[i].result = r; /* prepared, but its updates may not be on the device */
	}
	return r < 0 ? r : c->result;
}

static int step_complete_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
				const unsigned char *payload, size_t len)
{
	int r;

	if (c->result != 0)
		return c->result;
	r = delivery_take(s, c, payload, len, false);
	for (uint32_t i = 0; i < c->n_entries; i++)
		if (c->entries[i].result == 0)
			request_completed(&c->entries[i]);
	return r < 0 ? r : c->result;
}

static call_effect *step_effect(uint16_t op)
{
	return op == WIRE_OP_STEP_PREPARE ? step_prepare_effect : step_complete_effect;
}

static bool fence_is_known(struct swakv_fence f)
{
	return f.kind == SWAKV_FENCE_DONE || f.kind == SWAKV_FENCE_LINE || f.kind == SWAKV_FENCE_FAILED;
}

static void entry_fill(struct wire_step_entry *e, struct swakv_session *s, struct call *c, uint32_t i,
		       struct swakv_request *r, struct swakv_fence fence)
{
	*e = (struct wire_step_entry){ .request = r->handle, .tokens = c->op == WIRE_OP_STEP_PREPARE };
	if (c->op == WIRE_OP_STEP_COMPLETE) {
		if (fence.kind != SWAKV_FENCE_DONE)
			(void)fence_to_wire(s, fence, &e->fence); /* its kind is known */
		c->entries[i].done = fence.kind == SWAKV_FENCE_DONE;
	}
	call_entry_set(c, i, r);
}

static int decode(struct swakv_request *r, uint16_t op, struct swakv_fence fence, swakv_ticket *ticket)
{
	struct wire_step_entry entry;
	struct part part = { &entry, sizeof(entry) };
	struct call *c;
	int e = request_enter(r);

	if (e == 0)
		e = fence_check(r, op, fence);
	if (e == 0)
		e = fence_to_wire(r->session, fence, &entry.fence);
	if (e < 0)
		return e;
	c = call_new(r->session, op, 1, step_effect(op));
	if (!c)
		return SWAKV_ENOMEM;
	entry_fill(&entry, r->session, c, 0, r, fence);
	e = call_send(r->session, c, 0, 1, &part, 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_decode_prepare(swakv_request *r, swakv_ticket *ticket)
{
	return decode(r, WIRE_OP_STEP_PREPARE, SWAKV_DONE, ticket);
}

int swakv_decode_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return decode(r, WIRE_OP_STEP_COMPLETE, fence, ticket);
}

static int steps_check(struct swakv_session *s, const struct swakv_step *steps, uint32_t n, uint16_t op)
{
	size_t most = call_max_payload(s) / sizeof(struct wire_step_entry);

	if (!steps || n < 1 || n > most)
		return session_error(s, SWAKV_EINVALID, "a step has 1 to %zu entries, %" PRIu32 " were given", most,
				     steps ? n : 0);
	for (uint32_t i = 0; i < n; i++) {
		if (!steps[i].request || steps[i].request->session != s)
			return session_error(s, SWAKV_EINVALID, "entry %" PRIu32 " %s", i,
					     steps[i].request ? "is a request of another session" : "has no request");
		if (op == WIRE_OP_STEP_COMPLETE && !fence_is_known(steps[i].fence))
			return session_error(s, SWAKV_EINVALID, "entry %" PRIu32 ": fence kind %d is unknown", i,
					     (int)steps[i].fence.kind);
		if (fence_is_old(steps[i].request, op, steps[i].fence))
			return session_error(s, SWAKV_EINVALID, "entry %" PRIu32 ": " FENCE_IS_OLD, i,
					     steps[i].fence.value, steps[i].fence.line, steps[i].request->before);
	}
	return 0;
}

static int step(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op, swakv_ticket *ticket)
{
	size_t bytes = n * sizeof(struct wire_step_entry);
	struct call *c;
	int r = session_enter(s);

	if (r == 0)
		r = steps_check(s, steps, n, op);
	if (r < 0)
		return r;
	c = call_new(s, op, n, step_effect(op));
	if (!c)
		return SWAKV_ENOMEM;
	r = call_open(s, c, bytes);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++) /* an entry never lies in two slots */
		entry_fill(call_place(s, i * sizeof(struct wire_step_entry)), s, c, i, steps[i].request,
			   steps[i].fence);
	c->steps = steps;
	call_publish(s, c, 0, n, bytes);
	return call_return(s, c, ticket);
}

int swakv_step_prepare(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_PREPARE, ticket);
}

int swakv_step_complete(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_COMPLETE, ticket);
}
