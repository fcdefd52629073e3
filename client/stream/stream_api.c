/* SPDX-License-Identifier: Apache-2.0 */
/* stream_api.c - the public calls on a session's streams (swakv_stream.3) */
#include <inttypes.h>

#include "process.h"
#include "session.h"
#include "sized.h"

static struct stream *stream_of(struct swakv_session *s, uint32_t index, int *r)
{
	*r = session_enter(s);
	if (*r == SWAKV_EGONE) { /* streams outlive the broker: their work can still be waited for */
		*r = 0;
		s->error[0] = '\0';
	}
	if (*r < 0)
		return NULL;
	if (index >= s->welcome.n_streams) {
		*r = session_error(s, SWAKV_EINVALID, "stream %" PRIu32 " is outside 0 to %" PRIu32, index,
				   s->welcome.n_streams - 1);
		return NULL;
	}
	return &s->streams[index];
}

/* The stream's own sentence becomes the session's. */
static int stream_result(struct swakv_session *s, struct stream *st, int r)
{
	return r == 0 ? 0 : session_error(s, r, "stream %" PRIu32 ": %s", st->index, st->why);
}

struct stream *session_stream(struct swakv_session *s, uint32_t index, int *r)
{
	struct stream *st = stream_of(s, index, r);

	if (!st || st->backend)
		return st;
	if (st->driver) {
		*r = session_error(s, SWAKV_EPHASE, "stream %" PRIu32 " is not bound: call swakv_stream_bind_cuda()",
				   index);
		return NULL;
	}
	*r = stream_result(s, st, stream_bind_host(st, false));
	return *r == 0 ? st : NULL;
}

int swakv_stream_bind_host(swakv_session *s, uint32_t stream, bool threaded)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	if (!st)
		return r;
	if (st->driver)
		return session_error(
			s, SWAKV_EUNSUPPORTED,
			"stream %" PRIu32 ": the pool lies on a GPU, so a host stream cannot write its table", stream);
	return stream_result(s, st, stream_bind_host(st, threaded));
}

int swakv_stream_bind_cuda2(swakv_session *s, uint32_t stream, const struct swakv_cuda_options *options)
{
	struct swakv_cuda_options own = { 0 };
	int r;
	struct stream *st = stream_of(s, stream, &r);

	if (!st)
		return r;
	if (options && !sized_take(&SIZED(swakv_cuda_options, cu_stream), &own, options, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	return stream_result(s, st, stream_bind_cuda(st, &own));
}

int swakv_stream_bind_cuda(swakv_session *s, uint32_t stream, void *cu_stream)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .cu_stream = cu_stream };

	return swakv_stream_bind_cuda2(s, stream, &o);
}

int swakv_stream_capture_begin(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	return st ? stream_result(s, st, stream_capture_begin(st)) : r;
}

int swakv_stream_capture_end(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	return st ? stream_result(s, st, stream_capture_end(st)) : r;
}

int swakv_stream_set_replay(swakv_session *s, uint32_t stream, bool on)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	return st ? stream_result(s, st, stream_set_replay(st, on)) : r;
}

int swakv_stream_replay(swakv_session *s, uint32_t stream, void *graph, struct swakv_fence *fence)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	if (!st)
		return r;
	r = stream_replay(st, graph);
	if (r == 0 && fence)
		*fence = (struct swakv_fence){ SWAKV_FENCE_LINE, stream, st->marked };
	return stream_result(s, st, r);
}

int swakv_stream_bind_custom(swakv_session *s, uint32_t stream, const struct swakv_stream_ops *ops, void *arg)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);
	struct swakv_stream_ops own = { 0 }; /* of a NULL: what is missing has a sentence of its own */

	if (!st)
		return r;
	if (ops && !sized_take(&SIZED(swakv_stream_ops, copy), &own, ops, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	return stream_result(s, st, stream_bind_custom(st, &own, arg));
}

int swakv_stream_set_unordered(swakv_session *s, uint32_t stream, bool unordered)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	if (st)
		st->unordered = unordered;
	return r;
}

void *swakv_stream_cuda(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	return st ? stream_cuda_handle(st) : NULL;
}

int swakv_stream_launch_host(swakv_session *s, uint32_t stream, void (*fn)(void *arg), void *arg)
{
	int r;
	struct stream *st = session_stream(s, stream, &r);

	if (!st)
		return r;
	if (!fn)
		return session_error(s, SWAKV_EINVALID, "stream %" PRIu32 ": no function was given", stream);
	if (!st->backend->launch_host)
		return session_error(s, SWAKV_EUNSUPPORTED, "stream %" PRIu32 " (%s) cannot run host work", stream,
				     st->backend->name);
	return stream_result(s, st, st->backend->launch_host(st, fn, arg));
}

int swakv_stream_mark(swakv_session *s, uint32_t stream, struct swakv_fence *fence)
{
	int r;
	struct stream *st = session_stream(s, stream, &r);

	if (!st)
		return r;
	if (stream_awaits_replay(st))
		return session_error(s, SWAKV_EPHASE,
				     "stream %" PRIu32
				     " holds table entries for a replay: call swakv_stream_replay(), or "
				     "swakv_stream_set_replay() before the step is enqueued",
				     stream);
	r = stream_mark(st);
	if (r == 0 && fence)
		*fence = (struct swakv_fence){ SWAKV_FENCE_LINE, stream, st->marked };
	return stream_result(s, st, r);
}

bool swakv_fence_reached(const swakv_session *s, struct swakv_fence fence)
{
	if (fence.kind == SWAKV_FENCE_DONE)
		return true;
	if (fence.kind != SWAKV_FENCE_LINE || !s || !process_is(s->incarnation) || fence.line >= s->welcome.n_streams)
		return false;
	return load_acquire(&s->streams[fence.line].line->word) >= fence.value;
}

int swakv_stream_synchronize(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = stream_of(s, stream, &r);

	return st ? stream_result(s, st, stream_synchronize(st)) : r;
}
