/* SPDX-License-Identifier: Apache-2.0 */
/* stream_api.c - the public calls on a session's streams (swakv_stream.3) */
#include <inttypes.h>

#include "session.h"
#include "session_stream.h"
#include "sized.h"

int swakv_stream_bind_host(swakv_session *s, uint32_t stream, bool threaded)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	if (!st)
		return r;
	if (st->driver)
		return session_error(
			s, SWAKV_EUNSUPPORTED,
			"stream %" PRIu32 ": the pool lies on a GPU, so a host stream cannot write its table", stream);
	return session_stream_result(s, st, stream_bind_host(st, threaded));
}

int swakv_stream_bind_cuda2(swakv_session *s, uint32_t stream, const struct swakv_cuda_options *options)
{
	struct swakv_cuda_options own = { 0 };
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	if (!st)
		return r;
	if (options && !sized_take(&SIZED(swakv_cuda_options, cu_stream), &own, options, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	return session_stream_result(s, st, stream_bind_cuda(st, &own));
}

int swakv_stream_bind_cuda(swakv_session *s, uint32_t stream, void *cu_stream)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .cu_stream = cu_stream };

	return swakv_stream_bind_cuda2(s, stream, &o);
}

int swakv_stream_capture_begin(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	return st ? session_stream_result(s, st, stream_capture_begin(st)) : r;
}

int swakv_stream_capture_end(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	return st ? session_stream_result(s, st, stream_capture_end(st)) : r;
}

int swakv_stream_set_replay(swakv_session *s, uint32_t stream, bool on)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	return st ? session_stream_result(s, st, stream_set_replay(st, on)) : r;
}

int swakv_stream_replay(swakv_session *s, uint32_t stream, void *graph, struct swakv_fence *fence)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	if (!st)
		return r;
	r = stream_replay(st, graph);
	if (r == 0 && fence)
		*fence = (struct swakv_fence){ SWAKV_FENCE_LINE, stream, st->marked };
	return session_stream_result(s, st, r);
}

int swakv_stream_bind_custom(swakv_session *s, uint32_t stream, const struct swakv_stream_ops *ops, void *arg)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);
	struct swakv_stream_ops own = { 0 }; /* of a NULL: what is missing has a sentence of its own */

	if (!st)
		return r;
	if (ops && !sized_take(&SIZED(swakv_stream_ops, copy), &own, ops, s->error, sizeof(s->error)))
		return SWAKV_EINVALID;
	return session_stream_result(s, st, stream_bind_custom(st, &own, arg));
}

int swakv_stream_set_unordered(swakv_session *s, uint32_t stream, bool unordered)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	if (st)
		st->unordered = unordered;
	return r;
}

void *swakv_stream_cuda(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

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
	return session_stream_result(s, st, st->backend->launch_host(st, fn, arg));
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
	return session_stream_result(s, st, r);
}

int swakv_stream_synchronize(swakv_session *s, uint32_t stream)
{
	int r;
	struct stream *st = session_stream_any(s, stream, &r);

	return st ? session_stream_result(s, st, stream_synchronize(st)) : r;
}
