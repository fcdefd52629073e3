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

enum page_table_mode {
	PAGE_TABLE_SPARSE, /* holes allowed, no page twice in a row */
	PAGE_TABLE_DENSE,  /* no live id behind an empty column */
};

struct page_table {
	int32_t *cells;              /* borrowed: [n_rows][2][width] */
	struct wire_row_head *heads; /* borrowed: [n_rows] */
	int32_t *sent;               /* [n_rows][width]: K ids the other side has */
	struct dirty_row *dirty;     /* [n_rows] */
	int32_t n_rows;
	int32_t width;
	int32_t num_pages;
	uint32_t first_cell, first_row; /* what deliveries count its cells and rows from */
	enum page_table_mode mode;
	bool identity; /* as page_table_set_identity() left it */
	bool started;  /* the device view holds what `sent` says; before: anything */
};

/* Every argument positive, num_pages at most INT32_MAX / 2. Fills the cells with -1. 0, -EINVAL or -ENOMEM. */
int page_table_init(struct page_table *t, int32_t *cells, struct wire_row_head *heads, int32_t n_rows, int32_t width,
		    int32_t num_pages);
void page_table_deinit(struct page_table *t);

static inline int32_t page_table_width(const struct page_table *t)
{
	return t->width;
}

static inline int32_t page_table_num_pages(const struct page_table *t)
{
	return t->num_pages;
}

/* K ids of @row, then its V ids (2 * width int32); NULL when the row is out of range. Borrowed. */
const int32_t *page_table_host_row(const struct page_table *t, int32_t row);

/* K ids of @row, which is in range. */
static inline const int32_t *page_table_row(const struct page_table *t, int32_t row)
{
	return t->cells + (int64_t)row * 2 * t->width;
}

/* K id at (row, column), -1: empty. */
static inline int32_t page_table_get(const struct page_table *t, int32_t row, int32_t column)
{
	return t->cells[(int64_t)row * 2 * t->width + column];
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
	int32_t *k = t->cells + (int64_t)row * 2 * t->width + column;

	MUST(page >= -1 && page < t->num_pages && column >= 0 && column < t->width);
	if (*k == page)
		return;
	t->identity = false;
	*k = page;
	k[t->width] = page < 0 ? -1 : page + t->num_pages;
	page_table_note(t, row, column);
}

/* The empty cell gets @page, in [0, num_pages); opens and closes the row. */
static inline void page_table_fill(struct page_table *t, int32_t row, int32_t column, int32_t page)
{
	int32_t *k = t->cells + (int64_t)row * 2 * t->width + column;
	shm_u32 *seq = &t->heads[row].sequence;
	uint32_t before = load_relaxed(seq);

	MUST(page >= 0 && page < t->num_pages && column >= 0 && column < t->width);
	store_relaxed(seq, before + 1);
	fence_release(); /* as page_table_open() */
	k[0] = page;
	k[t->width] = page + t->num_pages;
	store_release(seq, before + 2);
	t->identity = false;
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
 * as delivered. When the updates no longer fit, @d turns to "by reference".
 */
void page_table_collect(struct page_table *t, int32_t row, struct delivery *d);

/* ---- whole edits: validated first, refused without change (page_table_edit.c) ---- */

struct page_table_row {
	int32_t row;
	const int32_t *ids; /* K ids; NULL only when count is 0 */
	int32_t count;      /* the rest of the row is cleared */
};

/* Row b gets the ids [b * width, (b + 1) * width). */
int page_table_set_identity(struct page_table *t, struct fault *f);
/* True from page_table_set_identity() until the next edit, even one that writes the same ids. */
bool page_table_is_identity(const struct page_table *t);
int page_table_set_row(struct page_table *t, int32_t row, const int32_t *ids, int32_t count, struct fault *f);
/* All rows or none; a row at most once. fault.seq is the index of the update at fault. */
int page_table_set_rows(struct page_table *t, const struct page_table_row *rows, int32_t n, struct fault *f);
int page_table_set_entry(struct page_table *t, int32_t row, int32_t column, int32_t page, struct fault *f);
int page_table_clear_entry(struct page_table *t, int32_t row, int32_t column, struct fault *f);
/*
 * Row i moves to row old_to_new[i], or goes when that is -1; each destination in
 * [0, new_batch) exactly once. Rows from new_batch on are cleared. KV is not
 * touched. SWAKV_ENOMEM when there is no memory for the copy.
 */
int page_table_compact_rows(struct page_table *t, const int32_t *old_to_new, int32_t n, int32_t new_batch,
			    struct fault *f);
/* 0, or the first violation: ids in range, V = K + num_pages, no page twice in a row, no hole in a dense row. */
int page_table_check(const struct page_table *t, struct fault *f);

/* ---- upload to a device view of the same layout (page_table_upload.c) ---- */

/* Each call enqueues on one stream and returns 0 or non-zero. Positions and counts in int32 from the view's start. */
struct page_table_sink {
	int (*copy)(void *arg, int64_t at, const int32_t *src, int64_t n);
	int (*fill)(void *arg, int64_t at, int32_t value, int64_t n);
	void *arg;
};

/* What an upload sent. The copies read from its own memory: free it when the stream has passed them. */
struct page_table_upload {
	int64_t n_entries; /* int32 that travelled, fills not counted */
	int32_t n_ranges;
	int32_t staged[];
};

/*
 * Enqueues what differs from the device view: whole rows, adjacent ones as one
 * range (the first upload sends everything), or single entries (the first
 * upload fills the view with -1 and sends what is not). *@out is NULL when there
 * was nothing to do and no device call was made; else owned by the caller, also
 * after SWAKV_EDEVICE, when what was dirty is still dirty. A table that fails
 * page_table_check() is not sent.
 */
int page_table_upload_rows(struct page_table *t, const struct page_table_sink *sink, struct page_table_upload **out,
			   struct fault *f);
int page_table_upload_entries(struct page_table *t, const struct page_table_sink *sink, struct page_table_upload **out,
			      struct fault *f);

#endif
