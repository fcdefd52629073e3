/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - what a worker's fence proves, and how it travels */
#ifndef SWAKV_CLIENT_FENCE_H
#define SWAKV_CLIENT_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <swakv/swakv.h>

struct swakv_request;
struct wire_fence;

/* The caller's fence as the wire has it. False: its kind is unknown. What it names is the broker's to check. */
bool fence_map(struct swakv_fence fence, struct wire_fence *out);
/*
 * Brings the caller's fence of @complete, an op that completes a step of @r, to
 * wire form. 0, or SWAKV_EINVALID with the sentence set: its kind is unknown, or
 * it was marked before the pending step could enqueue anything. The sentence names
 * @entry of a list; FENCE_ALONE: there is no list.
 */
#define FENCE_ALONE (-1)
int fence_to_wire(const struct swakv_request *r, int64_t entry, uint16_t complete, struct swakv_fence fence,
		  struct wire_fence *out);
/*
 * The point at which the pages of @r may return when it ends with @op. An abandon
 * may come while a step is under way: everything that was given to the stream lies
 * before a mark made now. A stream that cannot be marked proves nothing.
 */
struct wire_fence fence_of_end(struct swakv_request *r, uint16_t op);

#endif
