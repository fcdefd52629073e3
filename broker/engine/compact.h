/* SPDX-License-Identifier: Apache-2.0 */
/* compact.h - batch compaction: which sequences stay, and in which order */
#ifndef SWAKV_ENGINE_COMPACT_H
#define SWAKV_ENGINE_COMPACT_H

#include <stdint.h>

#include "fault.h"
#include "wire.h"

struct session;
struct delivery;

/*
 * Sequence i becomes number @old_to_new[i] of @new_batch, or leaves (-1); @flags:
 * WIRE_COMPACT_*. 0, SWAKV_EGONE, SWAKV_EPOISONED; SWAKV_EPHASE: not prefilled,
 * finishing, or a transition is pending; SWAKV_EINVALID: the handle, the flags or the mapping;
 * SWAKV_EPENDING: too many open points.
 */
int request_compact_begin(struct session *s, uint64_t handle, const int32_t *old_to_new, uint32_t n, int32_t new_batch,
			  uint32_t flags, struct delivery *d, struct fault *f);
/*
 * As request_prefill_complete(); the rows that moved or lost their sequence are in
 * @d. With a batch of 0 the request is finishing from then on.
 */
int request_compact_complete(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
			     struct delivery *d, struct fault *f);

#endif
