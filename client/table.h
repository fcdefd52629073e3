/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - one layer group's page table: the broker's rows, and what the device's copy holds */
#ifndef SWAKV_CLIENT_TABLE_H
#define SWAKV_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/stream.h"
#include "wire.h"

/* What the library knows of one row of a device table. */
struct row {
	uint32_t delivered; /* version of the last delivery that named it */
	uint32_t held;      /* version of the host row that the device row was last made from */
	uint32_t mark;      /* of the delivery being checked: names it */
	bool unsure;        /* an apply failed: the device row may not be what the mirror says */
};

/* Where the updates of a slot go, and where its last ones went. */
struct slot {
	uint8_t stream;  /* of its last request */
	uint8_t applied; /* stream that the last updates of its row were given to */
	uint64_t until;  /* value of that stream's line that proves them done; 0: none yet */
};

/*
 * One group's page table: where it lies, and what the device's copy holds once
 * its streams have got there. Rows and cells are counted over all groups.
 */
struct table {
	const struct stream_target *target;
	uint32_t first_row, first_cell;
	uint32_t width;
	uint32_t row_cells;               /* of the host table: from a row to the next */
	const int32_t *host;              /* broker's truth, read-only */
	const struct wire_row_head *rows; /* read-only */
	int32_t *mirror;                  /* K ids, [max_batch][width] */
	struct row *state;                /* [max_batch] */
	int32_t *row_scratch;             /* [width] */
	/* of the delivery under way: those of stream k lie at [starts[k], starts[k + 1]) once they are sorted */
	struct swakv_update *updates;
	struct swakv_update *sorted; /* room for as many */
	size_t n_updates, cap_updates;
	size_t starts[WIRE_MAX_STREAMS + 1];
};

/* Its own memory; safe on a table that is all zero. */
void table_free(struct table *t);

#endif
