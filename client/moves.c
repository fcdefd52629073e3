/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.c - see moves.h
 *
 * The broker has no context to copy with: it says which page is now another. On the
 * stream of the request all earlier work is ahead of the copy, and the updates and
 * the step's own work behind it; a step that is replayed comes behind it, too, as its
 * graph is launched later. The old page is the request's until its step has ended.
 *
 * When a copy cannot be enqueued, nobody has the page's content any more once the
 * step is completed: so that complete says "failed", and the broker takes it from there.
 */
#include "moves.h"

#include <inttypes.h>
#include <stdlib.h>

#include "call_collect.h"
#include "call_send.h"
#include "request.h"
#include "session.h"
#include "stream/session_stream.h"

/* The page @page is named by one of the first @n moves of the same table. */
static bool is_named(const struct swakv_session *s, const struct wire_move *moves, uint32_t n, uint32_t row,
		     int32_t page)
{
	for (uint32_t i = 0; i < n; i++)
		if (moves[i].row / s->max_batch == row / s->max_batch && (moves[i].from == page || moves[i].to == page))
			return true;
	return false;
}

int moves_check(struct swakv_session *s, const struct wire_move *moves, uint32_t n)
{
	uint32_t n_rows = s->max_batch * s->welcome.n_groups;

	for (uint32_t i = 0; i < n; i++) {
		const struct wire_move *m = &moves[i];
		int32_t most = m->row < n_rows ? session_row_table(s, m->row)->target->num_pages : 0;

		if (m->from < 0 || m->from >= most || m->to < 0 || m->to >= most || m->from == m->to)
			return session_break(s,
					     "the broker moved page %" PRId32 " of row %" PRIu32 " to %" PRId32
					     "; there are %" PRIu32 " rows, and %" PRId32 " pages there",
					     m->from, m->row, m->to, n_rows, most);
		if (is_named(s, moves, i, m->row, m->from) || is_named(s, moves, i, m->row, m->to))
			return session_break(s,
					     "the broker moved page %" PRId32 " of row %" PRIu32 " to %" PRId32
					     ", one of which the same answer moves otherwise",
					     m->from, m->row, m->to);
	}
	return 0;
}

/* Of @moves those of @group whose slot belongs to stream @index, to @out: how many. */
static size_t moves_of(const struct swakv_session *s, const struct wire_move *moves, uint32_t n, uint32_t index,
		       uint32_t group, struct page_move *out)
{
	size_t k = 0;

	for (uint32_t i = 0; i < n; i++)
		if (moves[i].row / s->max_batch == group && s->slots[moves[i].row % s->max_batch].stream == index)
			out[k++] = (struct page_move){ moves[i].from, moves[i].to };
	return k;
}

int moves_deliver(struct swakv_session *s, const struct wire_move *moves, uint32_t n)
{
	struct page_move list[WIRE_MAX_MOVES];
	int result = 0;

	for (uint32_t i = 0; n > 0 && i < s->welcome.n_streams * s->welcome.n_groups; i++) {
		uint32_t index = i / s->welcome.n_groups, group = i % s->welcome.n_groups;
		size_t k = moves_of(s, moves, n, index, group, list);
		struct stream *st;
		int r = 0;

		if (k == 0)
			continue;
		st = session_stream(s, index, &r);
		if (st) {
			(void)stream_arm(st);
			r = stream_move(st, group, list, k);
		}
		if (st && r < 0)
			r = session_error(s, r, "stream %" PRIu32 ": %s", index, st->why);
		if (r < 0 && result == 0)
			result = r;
	}
	s->counters.moved_pages += result == 0 ? n : 0;
	return result;
}

void moves_lost(struct swakv_session *s, struct call *c)
{
	s->lost_pages = true;
	for (uint32_t i = 0; i < c->n_entries; i++)
		if (c->entries[i].result == 0 && (!c->entries[i].what || c->entries[i].what & SWAKV_TURN_PREPARE))
			c->entries[i].request->lost_pages = true;
}

/* ---- pages that stay ----------------------------------------------------------------- */

static int pin(swakv_request *r, uint16_t op, swakv_ticket *ticket)
{
	struct call *c;
	int e = request_enter(r);

	if (e < 0)
		return e;
	c = request_call(r, op, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	e = call_send(r->session, c, r->handle, 0, NULL, 0);
	return e < 0 ? e : call_return(r->session, c, ticket);
}

int swakv_request_pin(swakv_request *r, swakv_ticket *ticket)
{
	return pin(r, WIRE_OP_PIN, ticket);
}

int swakv_request_unpin(swakv_request *r, swakv_ticket *ticket)
{
	int e = request_enter(r);

	if (e < 0)
		return e;
	if (!stream_can_move(&r->session->streams[r->stream]))
		return session_error(r->session, SWAKV_EUNSUPPORTED,
				     "stream %" PRIu32 " has no operation that moves pages", r->stream);
	return pin(r, WIRE_OP_UNPIN, ticket);
}
