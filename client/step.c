/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - decode and extend steps: one request, or a list of them in one command
 *
 * A step is atomic within a request and independent between requests, so each
 * entry has a result of its own; decode of one request is a step of one. Counts
 * that all sequences of a request share travel in its entry; others are listed
 * behind the last entry.
 */
#include <inttypes.h>
#include <string.h>

#include "call_collect.h"
#include "call_send.h"
#include "counts.h"
#include "delivery.h"
#include "fence.h"
#include "request.h"
#include "session.h"
#include "sized.h"
#include "step_list.h"

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

/* All but the fence of a complete. */
static inline void entry_fill(struct wire_step_entry *e, uint16_t op, const struct swakv_request *r,
			      const struct counts *k)
{
	*e = (struct wire_step_entry){ .request = r->handle };
	if (op == WIRE_OP_STEP_PREPARE)
		e->tokens = counts_in_entry(r, k, 1);
	else
		e->accepted = counts_in_entry(r, k, 0);
}

static inline void entry_note(struct call *c, uint32_t i, struct swakv_request *r, struct swakv_fence fence)
{
	request_entry(c, i, r, 0, c->op == WIRE_OP_STEP_COMPLETE && fence.kind == SWAKV_FENCE_DONE);
}

static int step_one(struct swakv_request *r, uint16_t op, struct counts k, struct swakv_fence fence,
		    swakv_ticket *ticket)
{
	struct wire_step_entry entry;
	struct part parts[2] = { { &entry, sizeof(entry) }, { k.list, 0 } };
	uint32_t n_counts;
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	entry_fill(&entry, op, r, &k);
	e = fence_to_wire(r, FENCE_ALONE, op, fence, &entry.fence);
	if (e < 0)
		return e;
	c = call_new(r->session, op, 1, step_effect(op));
	if (!c)
		return SWAKV_ENOMEM;
	entry_note(c, 0, r, fence);
	n_counts = counts_listed(r, &k);
	parts[1].n = n_counts * sizeof(*k.list);
	e = call_send(r->session, c, n_counts, 1, parts, n_counts ? 2 : 1);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_decode_prepare(swakv_request *r, swakv_ticket *ticket)
{
	return step_one(r, WIRE_OP_STEP_PREPARE, (struct counts){ 0 }, SWAKV_DONE, ticket);
}

int swakv_decode_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return step_one(r, WIRE_OP_STEP_COMPLETE, (struct counts){ 0 }, fence, ticket);
}

/* As session_list(); an entry cannot say that it lists none. */
static int counts_check(struct swakv_request *r, const char *what, const int32_t *list, uint32_t n)
{
	if (list && n == 0)
		return session_error(r->session, SWAKV_EINVALID, "0 %s were given for a batch of %" PRIu32, what, r->n);
	return session_list(r->session, what, list, n, sizeof(*list), sizeof(struct wire_step_entry));
}

int swakv_extend_prepare(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket)
{
	int e = request_enter(r);

	if (e == 0)
		e = counts_check(r, "tokens", tokens, n);
	return e < 0 ? e : step_one(r, WIRE_OP_STEP_PREPARE, (struct counts){ tokens, n }, SWAKV_DONE, ticket);
}

int swakv_extend_complete(swakv_request *r, struct swakv_fence fence, const int32_t *accepted, uint32_t n,
			  swakv_ticket *ticket)
{
	int e = request_enter(r);

	if (e == 0 && (accepted || n > 0))
		e = counts_check(r, "accepted", accepted, n);
	return e < 0 ? e : step_one(r, WIRE_OP_STEP_COMPLETE, (struct counts){ accepted, n }, fence, ticket);
}

/* ---- many requests ------------------------------------------------------------------------------ */

static struct counts step_counts(const struct swakv_step *step, uint16_t op)
{
	return (struct counts){ op == WIRE_OP_STEP_PREPARE ? step->tokens : step->accepted, step->request->n };
}

/* Entry @i at its place, and what it lists at byte @at. Counts that it lists, or a code. */
static __attribute__((noinline)) int64_t step_fill(struct swakv_session *s, const struct swakv_step *step, uint32_t i,
						   uint16_t op, size_t at)
{
	struct wire_step_entry *entry = call_place(s, i * sizeof(*entry));
	struct counts k;
	uint32_t listed;
	int r = step_request_check(s, i, step->request);

	if (r < 0)
		return r;
	k = step_counts(step, op);
	entry_fill(entry, op, step->request, &k);
	if (op == WIRE_OP_STEP_COMPLETE)
		r = fence_to_wire(step->request, i, op, step->fence, &entry->fence);
	if (r < 0)
		return r;
	listed = counts_listed(step->request, &k);
	if (listed && at + listed * sizeof(int32_t) <= call_max_payload(s)) /* else call_open() refuses */
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what is listed has a list */
		memcpy(call_place(s, at), k.list, listed * sizeof(int32_t));
	return listed;
}

/* Checks @steps and writes their entries, and behind them what they list. Bytes of all that, or a code. */
static int64_t steps_fill(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op)
{
	const uint32_t size = steps->size;
	struct wire_step_entry *entries = call_place(s, 0);
	size_t at = n * sizeof(*entries);
	bool prepare = op == WIRE_OP_STEP_PREPARE;
	const struct swakv_session *unhurt = s->lost_pages ? NULL : s; /* else each is looked at */

	for (uint32_t i = 0; i < n; i++) {
		const struct swakv_step *step = step_at(steps, size, i);
		const struct swakv_request *r = step->request;
		int64_t listed;

		/* A decode, and its complete when the device has finished: there is nothing to check or to list. */
		if (r && r->session == unhurt && !(prepare ? step->tokens : step->accepted) &&
		    (prepare || step->fence.kind == SWAKV_FENCE_DONE)) {
			entries[i] = (struct wire_step_entry){ .request = r->handle, .tokens = prepare };
			continue;
		}
		listed = step_fill(s, step, i, op, at);
		if (listed < 0)
			return listed;
		at += (size_t)listed * sizeof(int32_t);
	}
	return (int64_t)at;
}

/*
 * True when all of @steps are of the library's own size, and decodes or completes
 * that steps_fill() need not look at twice: then their entries are written.
 */
static inline __attribute__((always_inline)) bool fill_plain(struct swakv_session *s, const struct swakv_step *steps,
							     uint32_t n, bool prepare)
{
	struct wire_step_entry *entries = call_place(s, 0);

	if (s->lost_pages)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct swakv_request *r;

		if (steps[i].size != sizeof(*steps) || !(r = steps[i].request) || r->session != s ||
		    (prepare ? steps[i].tokens != NULL
			     : steps[i].accepted != NULL || steps[i].fence.kind != SWAKV_FENCE_DONE))
			return false;
		entries[i] = (struct wire_step_entry){ .request = r->handle, .tokens = prepare };
	}
	return true;
}

static inline uint32_t most_entries(const struct swakv_session *s)
{
	return (uint32_t)(call_max_payload(s) / sizeof(struct wire_step_entry));
}

/* The same for a list that nobody has looked at yet. */
static inline bool steps_are_plain(struct swakv_session *s, const struct swakv_step *steps, uint32_t n, uint16_t op)
{
	if (!steps || n < 1 || n > most_entries(s))
		return false;
	return op == WIRE_OP_STEP_PREPARE ? fill_plain(s, steps, n, true) : fill_plain(s, steps, n, false);
}

/* The call knows its requests. */
static inline void steps_note(const struct call *c, const struct swakv_step *steps, uint32_t n)
{
	const bool complete = c->op == WIRE_OP_STEP_COMPLETE;
	struct call_entry *entry = c->entries;
	const uint32_t size = steps->size;

	for (const struct call_entry *end = entry + n; entry < end; entry++) {
		steps->request->refs++;
		*entry = (struct call_entry){ .request = steps->request,
					      .done = complete && steps->fence.kind == SWAKV_FENCE_DONE };
		steps = (const struct swakv_step *)(const void *)((const char *)steps + size);
	}
}

/* Checks @steps and writes the message; its bytes, or a code. */
static int64_t step_write(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op)
{
	uint32_t most = most_entries(s);

	if (n < 1 || n > most)
		return session_error(s, SWAKV_EINVALID, "a step has 1 to %" PRIu32 " entries, %" PRIu32 " were given",
				     most, n);
	return steps_fill(s, steps, n, op);
}

/* Sends the message of @bytes. 0 with the call in *@out, or a code. */
static int step_send(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op, int64_t bytes,
		     struct call **out)
{
	size_t entries = n * sizeof(struct wire_step_entry);
	struct call *c;
	int r;

	c = call_new(s, op, n, step_effect(op));
	if (!c)
		return SWAKV_ENOMEM;
	r = call_open(s, c, (size_t)bytes); /* what answers send meanwhile is short: the entries stay where they are */
	if (r < 0)
		return r;
	call_publish(s, c, ((size_t)bytes - entries) / sizeof(int32_t), n, (size_t)bytes);
	steps_note(c, steps, n);
	c->steps = steps;
	c->step_size = steps->size;
	call_sent(s, c);
	*out = c;
	return 0;
}

/* No entry was carried out, or nobody knows: each says so. */
static int steps_failed(struct swakv_step *steps, uint32_t n, int code)
{
	for (uint32_t i = 0; i < n; i++)
		step_at(steps, steps->size, i)->result = code;
	return code;
}

static int step(struct swakv_session *s, struct swakv_step *steps, uint32_t n, uint16_t op, swakv_ticket *ticket)
{
	const struct sized kind = SIZED(swakv_step, fence);
	struct call *c = NULL;
	int r = session_enter(s);
	int64_t bytes = (int64_t)(n * sizeof(struct wire_step_entry));

	if (r < 0 || !steps_are_plain(s, steps, n, op)) {
		if (!step_list_check(s, &kind, "steps", steps, n, &r))
			return r;
		bytes = r < 0 ? r : step_write(s, steps, n, op);
	}
	r = bytes < 0 ? (int)bytes : step_send(s, steps, n, op, bytes, &c);
	if (r < 0)
		return steps_failed(steps, n, r);
	r = call_return(s, c, ticket);
	return r == SWAKV_ETIMEDOUT ? steps_failed(steps, n, r) : r;
}

int swakv_step_prepare(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_PREPARE, ticket);
}

int swakv_step_complete(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket)
{
	return step(s, steps, n, WIRE_OP_STEP_COMPLETE, ticket);
}
