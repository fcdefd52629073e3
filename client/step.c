/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - decode steps: one request, or a list of them in one command
 *
 * A step is atomic within a request and independent between requests, so each
 * entry has a result of its own; decode of one request is a step of one.
 */
#include <inttypes.h>
#include <stdlib.h>

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
		request_set_prepared(c->entries[i].request, true);
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

/* Sends a step whose entries' fences are filled in; takes @c over. */
static int step_send(struct swakv_session *s, struct call *c, struct wire_step_entry *entries, uint32_t n,
		     swakv_ticket *ticket)
{
	struct part part = { entries, n * sizeof(*entries) };
	int r;

	for (uint32_t i = 0; i < n; i++) {
		entries[i].request = c->entries[i].request->handle;
		entries[i].tokens = c->op == WIRE_OP_STEP_PREPARE ? 1 : 0;
	}
	r = call_send(s, c, 0, n, &part, 1);
	return r < 0 ? r : call_return(s, c, ticket);
}

static call_effect *step_effect(uint16_t op)
{
	return op == WIRE_OP_STEP_PREPARE ? step_prepare_effect : step_complete_effect;
}

static int decode(struct swakv_request *r, uint16_t op, struct swakv_fence fence, swakv_ticket *ticket)
{
	struct wire_step_entry entry = { 0 };
	struct call *c;
	int e = request_enter(r);

	if (e == 0 && op == WIRE_OP_STEP_COMPLETE)
		e = fence_to_wire(r->session, fence, &entry.fence);
	if (e < 0)
		return e;
	c = call_new(r->session, op, 1, step_effect(op));
	if (!c)
		return SWAKV_ENOMEM;
	call_entry_set(c, 0, r);
	c->one.done = op == WIRE_OP_STEP_COMPLETE && fence.kind == SWAKV_FENCE_DONE;
	return step_send(r->session, c, &entry, 1, ticket);
}

int swakv_decode_prepare(swakv_request *r, swakv_ticket *ticket)
{
	return decode(r, WIRE_OP_STEP_PREPARE, SWAKV_DONE, ticket);
}

int swakv_decode_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return decode(r, WIRE_OP_STEP_COMPLETE, fence, ticket);
}

static int steps_check(struct swakv_session *s, const struct swakv_step *steps, uint32_t n)
{
	size_t most = call_max_payload(s) / sizeof(struct wire_step_entry);

	if (!steps || n < 1 || n > most)
		return session_error(s, SWAKV_EINVALID, "a step has 1 to %zu entries, %" PRIu32 " were given", most,
				     steps ? n : 0);
	for (uint32_t i = 0; i < n; i++)
		if (!steps[i].request || steps[i].request->session != s)
			return session_error(s, SWAKV_EINVALID, "entry %" PRIu32 " %s", i,
					     steps[i].request ? "is a request of another session" : "has no request");
	return 0;
}

static int step(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op, swakv_ticket *ticket)
{
	struct wire_step_entry *entries;
	struct call *c;
	int r = session_enter(s);

	if (r == 0)
		r = steps_check(s, steps, n);
	if (r < 0)
		return r;
	entries = calloc(n, sizeof(*entries));
	if (!entries)
		return session_error(s, SWAKV_ENOMEM, "out of memory");
	for (uint32_t i = 0; r == 0 && op == WIRE_OP_STEP_COMPLETE && i < n; i++)
		r = fence_to_wire(s, steps[i].fence, &entries[i].fence);
	c = r == 0 ? call_new(s, op, n, step_effect(op)) : NULL;
	if (r == 0 && !c)
		r = SWAKV_ENOMEM;
	if (r == 0) {
		for (uint32_t i = 0; i < n; i++) {
			call_entry_set(c, i, steps[i].request);
			c->entries[i].done = op == WIRE_OP_STEP_COMPLETE && steps[i].fence.kind == SWAKV_FENCE_DONE;
		}
		c->steps = steps;
		r = step_send(s, c, entries, n, ticket);
	}
	free(entries);
	return r;
}

int swakv_step_prepare(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_PREPARE, ticket);
}

int swakv_step_complete(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_COMPLETE, ticket);
}
