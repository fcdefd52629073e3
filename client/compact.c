/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c - batch compaction: sequences leave and the rest is numbered anew
 *
 * Rows stay where they are and a survivor keeps its slot, unless the caller
 * asked for rows to be moved: then sequence j is in the request's j-th slot.
 * The new numbering holds from the completion on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_collect.h"
#include "call_send.h"
#include "delivery.h"
#include "request.h"
#include "session.h"

static int compact_begin_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
				const unsigned char *payload, size_t len)
{
	struct swakv_request *r = c->entries[0].request;
	struct stream *st = &s->streams[r->stream];
	int e;

	if (c->result != 0)
		return c->result;
	if (c->n_map != r->n)
		return session_break(s, "the broker took a mapping of %" PRIu32 " entries for a batch of %" PRIu32,
				     c->n_map, r->n);
	free(r->map);
	r->map = c->map;
	c->map = NULL;
	r->new_batch = c->new_batch;
	r->compact_flags = c->flags;
	request_set_pending(r, WIRE_OP_COMPACT_COMPLETE);
	e = delivery_take(s, c, payload, len, true);
	if (e == 0 && c->device_mapping) {
		e = stream_copy(st, c->device_mapping, r->map, c->n_map * sizeof(*r->map));
		if (e < 0)
			snprintf(c->why, sizeof(c->why), "stream %" PRIu32 ": the mapping was not copied: %.180s",
				 st->index, st->why);
	}
	return e;
}

int swakv_compact_begin(swakv_request *r, const int32_t *old_to_new, uint32_t n, int32_t new_batch, uint32_t flags,
			uint64_t device_mapping, swakv_ticket *ticket)
{
	const struct wire_compact body = { .new_batch = new_batch, .flags = flags };
	const struct part parts[2] = { { &body, sizeof(body) }, { old_to_new, n * sizeof(*old_to_new) } };
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	e = session_list(r->session, "old_to_new", old_to_new, n, sizeof(*old_to_new), sizeof(body));
	if (e < 0)
		return e;
	c = request_call(r, WIRE_OP_COMPACT_BEGIN, compact_begin_effect);
	if (!c)
		return SWAKV_ENOMEM;
	c->map = calloc(2 * (size_t)n + 1, sizeof(*c->map));
	if (!c->map) {
		call_free(r->session, c);
		return session_error(r->session, SWAKV_ENOMEM, "out of memory");
	}
	memcpy(c->map, old_to_new, n * sizeof(*c->map));
	c->n_map = n;
	c->new_batch = new_batch;
	c->flags = flags;
	c->device_mapping = device_mapping;
	e = call_send(r->session, c, r->handle, n, parts, 2);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

/* The numbering after the pending compaction. The broker has checked that each destination is used once. */
static void request_renumber(struct swakv_request *r)
{
	int32_t *old;

	if (!r->map)
		return;
	old = r->map + r->n;
	if (!(r->compact_flags & WIRE_COMPACT_MOVE_ROWS)) {
		memcpy(old, r->slots, r->n * sizeof(*old));
		for (uint32_t i = 0; i < r->n; i++)
			if (r->map[i] >= 0 && r->map[i] < r->new_batch)
				r->slots[r->map[i]] = old[i];
	}
	r->n = (uint32_t)r->new_batch;
	free(r->map);
	r->map = NULL;
}

static int compact_complete_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
				   const unsigned char *payload, size_t len)
{
	int e;

	if (c->result != 0)
		return c->result;
	e = delivery_take(s, c, payload, len, false);
	if (e == SWAKV_EGONE)
		return e;
	request_renumber(c->entries[0].request);
	request_completed(&c->entries[0]);
	return e;
}

int swakv_compact_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return request_complete(r, WIRE_OP_COMPACT_COMPLETE, compact_complete_effect, fence, ticket);
}
