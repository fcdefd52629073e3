/* SPDX-License-Identifier: Apache-2.0 */
/* wire_board.h - what broker and worker read of each other without a command */
#ifndef SWAKV_WIRE_BOARD_H
#define SWAKV_WIRE_BOARD_H

#include <stdint.h>

#include "atomics.h"
#include "page_range.h"

/* Timeline of one stream: `word` is written when the work up to it has ended, `armed` before that write is enqueued. */
struct wire_line {
	_Alignas(CACHELINE) shm_u64 word;
	shm_u64 armed;
};
_Static_assert(sizeof(struct wire_line) == CACHELINE, "wire_line");

/*
 * What broker and worker let each other know of the pages of a group that the
 * worker manages itself, without a command. Each reads what the other writes as
 * it is at the moment, and trusts none of it.
 */
struct wire_board {
	/* the broker's */
	_Alignas(CACHELINE) shm_u64 takeable; /* pages that could be taken now: a hint */
	shm_u64 wanted;                       /* pages that others lack and the worker is asked for, 0: none, */
	shm_u64 since;                        /* since then: CLOCK_MONOTONIC, ns; */
	shm_u64 rises;                        /* how often it became more; written last */
	shm_u64 floor;                        /* pages that the model's floor comes to; */
	shm_u64 ceiling;                      /* and its ceiling, or all there are, and 1: 0 before it is written */
	shm_u64 given; /* pages that the worker had ever given when `wanted` was decided; written after that */
	/* the worker's */
	_Alignas(CACHELINE) shm_u64 offered; /* pages that it could give, since nothing refers to them */
};
_Static_assert(sizeof(struct wire_board) == 2 * CACHELINE, "wire_board");

/* Of the pages that are wanted, those that help most: the broker's. Each is read by itself, and is true by itself. */
#define WIRE_RANGES 16
struct wire_ranges {
	_Alignas(CACHELINE) shm_u64 of[WIRE_RANGES]; /* 0: none, nor behind it */
};

static inline uint64_t wire_range(struct page_range r)
{
	return (uint64_t)(uint32_t)r.end << 32 | (uint32_t)r.first;
}

static inline struct page_range wire_range_read(uint64_t word)
{
	return (struct page_range){ (int32_t)(uint32_t)word, (int32_t)(uint32_t)(word >> 32) };
}

#endif
