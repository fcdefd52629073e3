/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.h - how many operations a call may come to, before it is made
 *
 * For a driver that is in a pause (engine_on_pause()): never too few; what is
 * more than ENGINE_LONG is not counted to its end. But for the search for extents
 * (slice.h), which few calls begin, and which is no longer in a pause than elsewhere.
 */
#ifndef SWAKV_ENGINE_WEIGHT_H
#define SWAKV_ENGINE_WEIGHT_H

#include <stdint.h>

struct session;
struct wire_fence;

/*
 * Of a request whose sequences move by at most @tokens, or by those of its pending
 * transition, or all by one, or of all its pages (0: there is no such request);
 * of a begin; of all completion points, when they are reached; of all that a
 * session holds.
 */
#define WEIGHT_PENDING (-1)
#define WEIGHT_WHOLE   (-2)
#define WEIGHT_DECODE  (-3) /* and its complete: WEIGHT_PENDING when an extend is pending */
#define WEIGHT_TURN    (-4) /* the complete of what is pending, and a decode behind it */
uint64_t request_weight(const struct session *s, uint64_t handle, int64_t tokens);
uint64_t begin_weight(const struct session *s, int64_t max_tokens, uint32_t n_slots);
/* Of so many pages that a session takes or gives itself, with so many fences. */
uint64_t pages_weight(const struct session *s, uint32_t n, uint64_t fences);
uint64_t points_weight(const struct session *s);
/*
 * What @fence, given for a request, adds to that: the open points that are passed
 * where values fall. @highest: the greatest that the same call gives before, to any
 * request of that stream.
 */
uint64_t fence_weight(const struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t highest);
uint64_t session_weight(const struct session *s);

#endif
