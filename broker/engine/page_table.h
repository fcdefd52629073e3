/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table.h - host truth of one session's page table (spec section 5)
 *
 * int32 [n_rows][2][width]: the K ids of a row, then its V ids (K + num_pages);
 * of joined pages [n_rows][1][width]; -1 is empty in all. The table remembers what was last delivered, so a
 * delivery is exactly the difference: writing what is already there, or a
 * change undone before it was sent, sends nothing.
 */
#ifndef SWAKV_ENGINE_PAGE_TABLE_H
#define SWAKV_ENGINE_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "atomics.h"
#include "bug.h"
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
	int32_t *cells;              /* borrowed: [n_rows][2][width], or [n_rows][1][width] */
	struct wire_row_head *heads; /* borrowed: [n_rows] */
	int32_t *sent;               /* [n_rows][width]: K ids the other side has */
	struct dirty_row *dirty;     /* [n_rows] */
	int32_t n_rows;
	int32_t width;
	int32_t num_pages;
	int32_t row_cells; /* from a row to the next */
	int32_t v_column;  /* from a K id to its V id, which is larger by v_more; of joined pages one cell is both */
	int32_t v_more;
	uint32_t first_cell, first_row; /* what deliveries count its cells and rows from */
};

/* Every argument positive, num_pages at most INT32_MAX / 2. Fills the cells with -1. 0, -EINVAL or -ENOMEM. */
int page_table_init(struct page_table *t, int32_t *cells, struct wire_row_head *heads, int32_t n_rows, int32_t width,
		    int32_t num_pages, bool joined);
void page_table_deinit(struct page_table *t);

/* K ids of @row, which is in range. */
static inline const int32_t *page_table_row(const struct page_table *t, int32_t row)
{
	return t->cells + (int64_t)row * t->row_cells;
}

/* K id at (row, column), -1: empty. */
static inline int32_t page_table_get(const struct page_table *t, int32_t row, int32_t column)
{
	return t->cells[(int64_t)row * t->row_cells + column];
}

/*
 * Writes to a row stand between these two: readers of the row's memory see the
 * sequence number odd meanwhile.
 */
static inline void page_table_open(struct page_table *t, int32_t row)
{
	shm_u32 *seq = &t->heads[row].sequence;

	store_relaxed(seq, load_relaxed(seq) + 1);
	fence_release(); /* pairs with the reader's acquire fence before it reads the sequence again */
}

static inline void page_table_close(struct page_table *t, int32_t row)
{
	shm_u32 *seq = &t->heads[row].sequence;

	store_release(seq, load_relaxed(seq) + 1);
}
/* Notes column @c as changed, keeping the ranges sorted and apart. */
void page_table_note_dirty(struct dirty_row *d, int32_t c);

static inline void page_table_note(struct page_table *t, int32_t row, int32_t column)
{
	struct dirty_row *d = &t->dirty[row];

	/* A row's first change, and one right behind its last: nearly all of them. */
	if (d->n == 0) {
		d->n = 1;
		d->range[0].lo = column;
		d->range[0].hi = column + 1;
	} else if (d->range[d->n - 1].hi == column) {
		d->range[d->n - 1].hi++;
	} else {
		page_table_note_dirty(d, column);
	}
}

/* Row must be open; @page is -1 or in [0, num_pages). */
static inline void page_table_put(struct page_table *t, int32_t row, int32_t column, int32_t page)
{
	int32_t *k = t->cells + (int64_t)row * t->row_cells + column;

	MUST(page >= -1 && page < t->num_pages && column >= 0 && column < t->width);
	if (*k == page)
		return;
	*k = page;
	k[t->v_column] = page < 0 ? -1 : page + t->v_more;
	page_table_note(t, row, column);
}

/* The empty cell gets @page, in [0, num_pages); opens and closes the row. */
static inline void page_table_fill(struct page_table *t, int32_t row, int32_t column, int32_t page)
{
	int32_t *k = t->cells + (int64_t)row * t->row_cells + column;
	shm_u32 *seq = &t->heads[row].sequence;
	uint32_t before = load_relaxed(seq);

	MUST(page >= 0 && page < t->num_pages && column >= 0 && column < t->width);
	store_relaxed(seq, before + 1);
	fence_release(); /* as page_table_open() */
	k[0] = page;
	k[t->v_column] = page + t->v_more;
	store_release(seq, before + 2);
	page_table_note(t, row, column);
}

/* Row must be open: @top[-1], @top[-2], ... (@n pages) go to the columns from @column on, which are empty. */
void page_table_put_run(struct page_table *t, int32_t row, int32_t column, const int32_t *top, int32_t n);

static inline bool page_table_is_dirty(const struct page_table *t, int32_t row)
{
	return t->dirty[row].n != 0;
}

/*
 * Appends to @d what of @row has changed since its last delivery, and counts it
 * as delivered. When the updates no longer fit, @d turns to "by reference". Returns
 * how many cells it looked at.
 */
int32_t page_table_collect(struct page_table *t, int32_t row, struct delivery *d);
/* The same in parts: columns [lo, hi) of a dirty range; true when one has changed. Then what all of them said. */
bool page_table_collect_columns(struct page_table *t, int32_t row, int32_t lo, int32_t hi, struct delivery *d);
void page_table_collected(struct page_table *t, int32_t row, bool changed, struct delivery *d);

#endif
