/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - which table changes travel with which answer */
#ifndef SWAKV_ENGINE_DELIVERY_H
#define SWAKV_ENGINE_DELIVERY_H

#include <stdint.h>

struct session;
struct request;
struct wire_update;
struct wire_row;
struct wire_scrub;
struct wire_move;

/*
 * Where a prepare or compaction puts what the device table needs. Caller-owned;
 * `updates` has WIRE_MAX_INLINE_UPDATES entries, `rows` and `scrubs` max_batch for
 * each group (`scrubs` may be NULL where the policy is never). The engine sets
 * counts and flags.
 */
struct delivery {
	uint32_t flags; /* WIRE_DELIVERY_BY_REFERENCE: more than fit, take the rows from the host table */
	uint32_t n_updates;
	uint32_t n_rows;
	uint32_t n_scrubs;
	uint32_t n_moves;
	struct wire_update *updates;
	struct wire_row *rows;
	struct wire_scrub *scrubs;
	struct wire_move *moves; /* [WIRE_MAX_MOVES]; NULL: no page is to move */
};

/* Inside the engine: */

void delivery_reset(struct delivery *d);
/* Columns [first, end) of @row have just been bound, and one of the pages is dirty. */
void delivery_scrub(struct delivery *d, int32_t row, int32_t first, int32_t end);
/* The rows of @r, then the stray rows of its stream. */
void delivery_collect(struct session *s, struct request *r, struct delivery *d);

#endif
