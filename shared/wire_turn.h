/* SPDX-License-Identifier: Apache-2.0 */
/* wire_turn.h - one message a step: the end of the last one and the beginning of the next, of many requests */
#ifndef SWAKV_WIRE_TURN_H
#define SWAKV_WIRE_TURN_H

#include "wire.h"

/*
 * STEP_TURN, the end of one step and the beginning of the next: a struct
 * wire_fence; uint64 [n], the entries; a union wire_turn_detail for each entry that
 * has one, in order; and the int32 counts that these list, in order: of an entry
 * first those that are accepted, then tokens, and a begin's slots. The command's
 * `request` says how many details and, in its upper half, counts.
 *
 * An entry is a request's handle and, in bits that handles have free, what is to
 * be done (WIRE_TURN_*), or a begin and the number of its slots. Without a detail
 * all tokens are accepted, at the fence of the command, and each sequence advances
 * by one. A finish is one with WIRE_FENCE_POINT.
 */
enum {
	WIRE_TURN_COMPLETE = 1,
	WIRE_TURN_PREPARE = 2,
	WIRE_TURN_FINISH = 4, /* and not PREPARE */
	WIRE_TURN_DETAIL = 8,
	WIRE_TURN_BEGIN = WIRE_TURN_DETAIL, /* and nothing else */
	WIRE_TURN_MASK = 15,
};
#define WIRE_TURN_SHIFT 44
_Static_assert(WIRE_MAX_BATCH <= 1 << (WIRE_TURN_SHIFT - 32), "handles have their bits free (engine/request.c)");
union wire_turn_detail {
	struct {
		struct wire_fence fence;
		int32_t tokens, accepted; /* as of a wire_step_entry */
	} step;
	struct wire_begin begin; /* does not wait */
};
_Static_assert(sizeof(union wire_turn_detail) == 24, "wire_turn_detail");

static inline uint32_t wire_turn_what(uint64_t entry)
{
	return (uint32_t)(entry >> WIRE_TURN_SHIFT) & WIRE_TURN_MASK;
}

/* The handle, or the number of a begin's slots. */
static inline uint64_t wire_turn_handle(uint64_t entry)
{
	return entry & ~((uint64_t)WIRE_TURN_MASK << WIRE_TURN_SHIFT);
}

static inline uint64_t wire_turn_entry(uint64_t handle, uint32_t what)
{
	return handle | (uint64_t)what << WIRE_TURN_SHIFT;
}

/* Of the answer: a begin that was granted. */
struct wire_begun {
	uint64_t handle;
	uint32_t entry;
	uint32_t reserved;
};

#endif
