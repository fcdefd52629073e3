/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cycle.c - a step that comes again and again, in one call (swakv_step.3)
 *
 * What a decode loop does between two steps: the answer of the last turn is
 * collected, the step's work goes on the stream, and the next turn is sent.
 * Each part is a public call; here they cost their caller one crossing, which is
 * what counts where that is dear.
 */
#include <inttypes.h>

#include "call.h"
#include "fence.h"
#include "request.h"
#include "session.h"
#include "sized.h"
#include "step_list.h"
#include "stream/session_stream.h"

/* Entry @i of a list that has been checked. */
static struct swakv_turn *cycle_entry(const struct swakv_cycle *c, uint32_t i)
{
	return turn_at(c->turns, c->turns->size, i);
}

/* One mark is for all of them, so it must be of their stream. */
static int entries_check(struct swakv_session *s, const struct swakv_cycle *c)
{
	if (c->n == 0)
		return session_error(s, SWAKV_EINVALID, "a cycle has 1 to %d entries, 0 were given", WIRE_MAX_BATCH);
	for (uint32_t i = 0; i < c->n; i++) {
		const struct swakv_request *r = cycle_entry(c, i)->request;
		int e;

		if (!(cycle_entry(c, i)->what & SWAKV_TURN_COMPLETE))
			continue;
		e = step_request_check(s, i, r);
		if (e < 0)
			return e;
		if (r->stream != c->stream)
			return session_error(s, SWAKV_EINVALID,
					     "entry %" PRIu32 " is on stream %" PRIu32
					     ", and the work on stream %" PRIu32
					     ": one call is for the requests of one stream",
					     i, r->stream, c->stream);
	}
	return 0;
}

/* 0 when the last turn has been collected, and all of it was done. */
static int last_collect(struct swakv_session *s, struct swakv_cycle *c)
{
	swakv_ticket last = c->ticket;
	int r;

	if (last == 0)
		return 0;
	r = c->wait_ms ? swakv_wait_for(s, last, c->wait_ms) : swakv_wait(s, last);
	if (r != SWAKV_ETIMEDOUT)
		c->ticket = 0;
	return r;
}

static int cycle_run(struct swakv_session *s, struct swakv_cycle *c)
{
	struct swakv_fence fence;
	int r = last_collect(s, c);

	if (r == 0)
		r = c->graph ? swakv_stream_replay(s, c->stream, c->graph, &fence)
			     : swakv_stream_mark(s, c->stream, &fence);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < c->n; i++)
		if (cycle_entry(c, i)->what & SWAKV_TURN_COMPLETE)
			cycle_entry(c, i)->fence = fence;
	return swakv_step_turn(s, c->turns, c->n, &c->ticket);
}

int swakv_step_cycle(swakv_session *s, struct swakv_cycle *cycle)
{
	struct swakv_cycle own;
	struct stream *st;
	int r = session_enter(s);
	bool on;

	if (r < 0)
		return r;
	if (!cycle)
		return session_error(s, SWAKV_EINVALID, "struct swakv_cycle is NULL");
	if (!sized_take(&SIZED(swakv_cycle, wait_ms), &own, cycle, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	st = session_stream(s, own.stream, &r);
	if (!st || !step_list_check(s, &SIZED(swakv_turn, result), "turns", own.turns, own.n, &r))
		return r;
	r = entries_check(s, &own);
	if (r < 0)
		return r;
	/* Entries that come with the answer are for the replay. */
	on = stream_is_replayed(st);
	if (own.graph && !on && (r = stream_set_replay(st, true)) < 0)
		return session_stream_result(s, st, r);
	r = cycle_run(s, &own);
	cycle->ticket = own.ticket;
	if (own.graph && !on && stream_set_replay(st, false) < 0 && r == 0)
		r = session_stream_result(s, st, SWAKV_EDEVICE);
	return r;
}
