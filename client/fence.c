/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - see fence.h */
#include "fence.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "clock.h"
#include "request.h"
#include "session.h"
#include "stream/session_stream.h"

bool fence_map(struct swakv_fence fence, struct wire_fence *out)
{
	switch (fence.kind) {
	case SWAKV_FENCE_DONE:
		*out = (struct wire_fence){ .kind = WIRE_FENCE_DONE };
		return true;
	case SWAKV_FENCE_FAILED:
		*out = (struct wire_fence){ .kind = WIRE_FENCE_FAILED, .line = fence.line };
		return true;
	case SWAKV_FENCE_LINE:
		*out = (struct wire_fence){ WIRE_FENCE_LINE, fence.line, fence.value };
		return true;
	}
	return false;
}

/*
 * True when it was marked before the pending step of @r could enqueue anything. In
 * the wrong phase, or with another's line, there is something else to be said
 * first, and the broker says it.
 */
static bool fence_is_old(const struct swakv_request *r, uint16_t complete, struct swakv_fence fence)
{
	return r->pending == complete && fence.line == r->stream && fence.value <= r->before;
}

/* What the sentence begins with. */
static const char *entry_text(char buf[32], int64_t entry)
{
	buf[0] = '\0';
	if (entry != FENCE_ALONE)
		snprintf(buf, 32, "entry %" PRId64 ": ", entry);
	return buf;
}

int fence_to_wire(const struct swakv_request *r, int64_t entry, uint16_t complete, struct swakv_fence fence,
		  struct wire_fence *out)
{
	char where[32];

	if (request_has_lost(r) && complete == r->pending) {
		*out = (struct wire_fence){ .kind = WIRE_FENCE_FAILED };
		return 0;
	}
	if (!fence_map(fence, out))
		return session_error(r->session, SWAKV_EINVALID, "%sfence kind %d is unknown", entry_text(where, entry),
				     (int)fence.kind);
	if (out->kind == WIRE_FENCE_LINE && fence_is_old(r, complete, fence))
		return session_error(r->session, SWAKV_EINVALID,
				     "%sfence value %" PRIu64 " of stream %" PRIu32
				     " is no proof: the step was prepared behind mark %" PRIu64
				     ", so mark the stream behind the step's work and give that fence",
				     entry_text(where, entry), fence.value, fence.line, r->before);
	return 0;
}

struct wire_fence fence_of_end(struct swakv_request *r, uint16_t op)
{
	struct stream *st = &r->session->streams[r->stream];

	if (op == WIRE_OP_FINISH || !r->pending)
		return (struct wire_fence){ .kind = WIRE_FENCE_POINT };
	if (request_has_lost(r) || stream_mark_if_armed(st) < 0)
		return (struct wire_fence){ .kind = WIRE_FENCE_FAILED };
	return (struct wire_fence){ WIRE_FENCE_LINE, r->stream, st->marked };
}

bool swakv_fence_reached(const swakv_session *s, struct swakv_fence fence)
{
	if (fence.kind == SWAKV_FENCE_DONE)
		return true;
	if (fence.kind != SWAKV_FENCE_LINE || !s || !incarnation_is_current(s->incarnation) ||
	    fence.line >= s->welcome.n_streams)
		return false;
	return load_acquire(&s->streams[fence.line].line->word) >= fence.value;
}

/* ---- waiting ---------------------------------------------------------------------- */

#define PAUSE_LEAST_NS 20000ull
#define PAUSE_MOST_NS  1000000ull

/* What is not bound here may be another process's of the session: that arms a line before it marks it. */
static uint64_t last_mark(const struct stream *st)
{
	return st->backend ? st->marked : load_acquire(&st->line->armed);
}

/* 0 when @fence can be reached at all. */
static int fence_can_come(struct swakv_session *s, const struct stream *st, struct swakv_fence fence)
{
	uint64_t last = last_mark(st);

	if (fence.kind != SWAKV_FENCE_LINE)
		return session_error(s, SWAKV_EINVALID, "a fence of kind %d is never reached", (int)fence.kind);
	if (fence.value > last)
		return session_error(s, SWAKV_EINVALID,
				     "mark %" PRIu64 " of stream %" PRIu32 " is never reached: its last is %" PRIu64,
				     fence.value, st->index, last);
	return 0;
}

int swakv_fence_wait(swakv_session *s, struct swakv_fence fence, uint32_t ms)
{
	uint64_t begin = clock_ns(), passed = 0, most = ms * NS_PER_MS;
	struct stream *st;
	int r;

	if (fence.kind == SWAKV_FENCE_DONE)
		fence.line = 0; /* of none */
	st = session_stream_any(s, fence.line, &r);
	if (!st || swakv_fence_reached(s, fence))
		return r;
	r = fence_can_come(s, st, fence);
	if (r < 0)
		return r;
	while (!swakv_fence_reached(s, fence)) {
		uint64_t pause = passed / 8 > PAUSE_MOST_NS ? PAUSE_MOST_NS : passed / 8;
		struct timespec t = { 0 };

		passed = clock_ns() - begin;
		if (passed >= most && !swakv_fence_reached(s, fence))
			return session_error(s, SWAKV_ETIMEDOUT,
					     "stream %" PRIu32 " has reached mark %" PRIu64 " and not %" PRIu64
					     " within %" PRIu32 " ms: its work still runs, or has failed",
					     st->index, load_acquire(&st->line->word), fence.value, ms);
		if (passed < s->spin_ns) {
			cpu_relax();
			continue;
		}
		t.tv_nsec = (long)(pause < PAUSE_LEAST_NS ? PAUSE_LEAST_NS : pause);
		if (passed < most && most - passed < (uint64_t)t.tv_nsec)
			t.tv_nsec = (long)(most - passed);
		nanosleep(&t, NULL);
	}
	return 0;
}
