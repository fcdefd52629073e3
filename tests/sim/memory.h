/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - what lies in the pool: for each grain of both halves, who wrote it last
 *
 * A tag names what was written: a sequence, a layer group, a column. Whoever
 * reads a page expects its own tag in every grain: a page given away too early,
 * or to two at once, shows as a tag of somebody else's. Pages that a worker has
 * taken itself are also noted as its own until it gives them.
 */
#ifndef SWAKV_SIM_MEMORY_H
#define SWAKV_SIM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model.h"

#define MEMORY_GRAIN 16u /* bytes: every page size is a multiple */

struct memory {
	uint64_t half;   /* grains of a half */
	uint64_t *tags;  /* of both halves, the K half first */
	uint32_t *taken; /* the worker that manages the page of the grain itself, 0: nobody */
};

bool memory_init(struct memory *m, uint64_t half_bytes);
void memory_free(struct memory *m);
/* False: there is no such page, or it lies over the middle of the pool. */
bool memory_has(const struct memory *m, const struct geometry *g, int32_t page);
/* 0 for "zeroes". */
void memory_write(struct memory *m, const struct geometry *g, int32_t page, uint64_t tag);
/* All of page @from to page @to. */
void memory_copy(struct memory *m, const struct geometry *g, int32_t from, int32_t to);
/* True when all of the page is @tag; else *@found is what else is there. */
bool memory_is(const struct memory *m, const struct geometry *g, int32_t page, uint64_t tag, uint64_t *found);
/* True when none of the page is what another worker than @number wrote; else *@found is. */
bool memory_is_own(const struct memory *m, const struct geometry *g, int32_t page, uint32_t number, uint64_t *found);
/* Worker @number takes the page: the worker that has taken some of it before, 0: none has. */
uint32_t memory_take(struct memory *m, const struct geometry *g, int32_t page, uint32_t number);
/* Nobody has taken it any more. */
void memory_give(struct memory *m, const struct geometry *g, int32_t page);
/* Who has taken some of it, 0: nobody. */
uint32_t memory_taker(const struct memory *m, const struct geometry *g, int32_t page);

/* Sequence @uid (unique over a run), which incarnation of a worker it belongs to, group and column. */
static inline uint64_t memory_tag(uint32_t worker, uint32_t uid, uint32_t group, int32_t column)
{
	return (uint64_t)worker << 48 | (uint64_t)(uid & 0xffffff) << 24 | (uint64_t)group << 20 |
	       (uint64_t)(column + 1);
}

static inline uint32_t memory_tag_worker(uint64_t tag)
{
	return (uint32_t)(tag >> 48);
}

#endif
