/* SPDX-License-Identifier: Apache-2.0 */
/* session_stream.h - a session's streams, by their numbers */
#ifndef SWAKV_CLIENT_SESSION_STREAM_H
#define SWAKV_CLIENT_SESSION_STREAM_H

#include <stdint.h>

struct stream;
struct swakv_session;

/*
 * Stream @index, bound or not, also when the broker is gone: its work can still be
 * waited for. NULL with the sentence set, and in *@r SWAKV_EINVALID or
 * SWAKV_EFORKED.
 */
struct stream *session_stream_any(struct swakv_session *s, uint32_t index, int *r);
/*
 * The same, bound: on the host backend this binds it. In *@r also SWAKV_EPHASE:
 * the caller has to bind it first; or the code of a bind that failed.
 */
struct stream *session_stream(struct swakv_session *s, uint32_t index, int *r);
/* The sentence of @st, whose call returned @r, becomes the session's. Returns @r. */
int session_stream_result(struct swakv_session *s, const struct stream *st, int r);

#endif
