/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table.h - host truth of one session's page table (spec section 5)
 *
 * int32 [n_rows][2][width]: the K ids of a row, then its V ids (K + num_pages);
 * -1 is empty in both halves. The table remembers what was last delivered, so a
 * delivery is exactly the difference: writing what is already there, or a
 * change undone before it was sent, sends nothing.
 */
#ifndef SWAKV_PAGE_TABLE_H
#define SWAKV_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

#define PAGE_TABLE_RANGES 4

/* Columns of a row that may differ from what was delivered, as a few ranges [lo, hi). */
struct dirty_row {
	uint32_t n;
	struct {
		int32_t lo, hi;
	} range[PAGE_TABLE_RANGES];
};

struct page_table {
	int32_t *cells;              /* borrowed: [n_rows][2][width] */
	struct wire_row_head *heads; /* borrowed: [n_rows] */
	int32_t *sent;               /* [n_rows][width]: K ids the other side has */
	struct dirty_row *dirty;     /* [n_rows] */
	int32_t n_rows;
	int32_t width;
	int32_t num_pages;
};

/* Every argument positive, num_pages at most INT32_MAX / 2. Fills the cells with -1. 0, -EINVAL or -ENOMEM. */
int page_table_init(struct page_table *t, int32_t *cells, struct wire_row_head *heads, int32_t n_rows, int32_t width,
		    int32_t num_pages);
void page_table_deinit(struct page_table *t);

/* K id at (row, column), -1: empty. */
static inline int32_t page_table_get(const struct page_table *t, int32_t row, int32_t column)
{
	return t->cells[(int64_t)row * 2 * t->width + column];
}

/*
 * Writes to a row stand between these two: readers of the row's memory see the
 * sequence number odd meanwhile.
 */
void page_table_open(struct page_table *t, int32_t row);
void page_table_close(struct page_table *t, int32_t row);
/* Row must be open; @page is -1 or in [0, num_pages). */
void page_table_put(struct page_table *t, int32_t row, int32_t column, int32_t page);

static inline bool page_table_is_dirty(const struct page_table *t, int32_t row)
{
	return t->dirty[row].n != 0;
}

/*
 * Appends to @d what of @row has changed since its last delivery, and counts it
 * as delivered. When the updates no longer fit, @d turns to "by reference".
 */
void page_table_collect(struct page_table *t, int32_t row, struct delivery *d);

#endif
