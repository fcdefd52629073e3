/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - what lies in the pool: for each grain of a half, who wrote it last
 *
 * V mirrors K at the distance of a half, so that one half shows both. A tag
 * names what was written: a sequence, a layer group, a column. Whoever reads a
 * page expects its own tag in every grain: a page given away too early, or to
 * two at once, shows as a tag of somebody else's.
 */
#ifndef SWAKV_SIM_MEMORY_H
#define SWAKV_SIM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_GRAIN 16u /* bytes: every page size is a multiple */

struct memory {
	uint64_t grains; /* of a half */
	uint64_t *tags;
};

bool memory_init(struct memory *m, uint64_t half_bytes);
void memory_free(struct memory *m);
/* 0 for "zeroes". */
void memory_write(struct memory *m, uint64_t page_bytes, int32_t page, uint64_t tag);
/* True when all of the page is @tag; else *@found is what else is there. */
bool memory_is(const struct memory *m, uint64_t page_bytes, int32_t page, uint64_t tag, uint64_t *found);

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
