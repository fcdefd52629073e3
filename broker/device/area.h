/* SPDX-License-Identifier: Apache-2.0 */
/*
 * area.h - first-fit allocation of offsets in the pool's table area
 *
 * Sizes and offsets in bytes, every piece a multiple of AREA_ALIGN. Only
 * bookkeeping: the area itself is never touched. One thread.
 */
#ifndef SWAKV_BROKER_AREA_H
#define SWAKV_BROKER_AREA_H

#include <stdint.h>
#include <sys/queue.h>

#define AREA_ALIGN 256u

struct area_piece {
	TAILQ_ENTRY(area_piece) link;
	uint64_t offset;
	uint64_t bytes;
};

struct area {
	uint64_t bytes;
	uint64_t used;
	TAILQ_HEAD(, area_piece) pieces; /* in use, by offset */
};

/* What a piece of at least @bytes takes. */
static inline uint64_t area_rounded(uint64_t bytes)
{
	return (bytes + AREA_ALIGN - 1) / AREA_ALIGN * AREA_ALIGN;
}

void area_init(struct area *a, uint64_t bytes);
/* Frees the bookkeeping; pieces still out become invalid. Safe to repeat. */
void area_deinit(struct area *a);
/* A piece of at least @bytes, owned by the caller until area_give(); NULL: no gap is large enough, or no memory. */
struct area_piece *area_take(struct area *a, uint64_t bytes);
/* Gives @p back. Returns NULL; NULL is ignored. */
struct area_piece *area_give(struct area *a, struct area_piece *p);
/* Largest piece that could be taken now. */
uint64_t area_largest(const struct area *a);

#endif
