/* SPDX-License-Identifier: Apache-2.0 */
/* session_stream.c - see session_stream.h */
#include "session_stream.h"

#include <inttypes.h>

#include "session.h"

struct stream *session_stream_any(struct swakv_session *s, uint32_t index, int *r)
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

int session_stream_result(struct swakv_session *s, const struct stream *st, int r)
{
	return r == 0 ? 0 : session_error(s, r, "stream %" PRIu32 ": %s", st->index, st->why);
}

struct stream *session_stream(struct swakv_session *s, uint32_t index, int *r)
{
	struct stream *st = session_stream_any(s, index, r);

	if (!st || st->backend)
		return st;
	if (st->driver) {
		*r = session_error(s, SWAKV_EPHASE, "stream %" PRIu32 " is not bound: call swakv_stream_bind_cuda()",
				   index);
		return NULL;
	}
	*r = session_stream_result(s, st, stream_bind_host(st, false));
	return *r == 0 ? st : NULL;
}
