/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table.c - see page_table.h
 *
 * A window moves at its two ends, so a row's changes are nearly always two
 * short ranges: the pages that left and the pages that came. A delivery looks
 * only there. When more ranges come up than a row can note, the two closest
 * become one: that costs looking, never correctness.
 */
#include "page_table.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bug.h"
#include "page_shape.h"

int page_table_init(struct page_table *t, int32_t *cells, struct wire_row_head *heads, int32_t n_rows, int32_t width,
		    int32_t num_pages, bool joined)
{
	size_t n = (size_t)n_rows * (size_t)width;

	*t = (struct page_table){ 0 };
	if (n_rows <= 0 || width <= 0 || num_pages <= 0 || num_pages > INT32_MAX / 2)
		return -EINVAL;
	t->sent = malloc(n * sizeof(*t->sent));
	t->dirty = calloc((size_t)n_rows, sizeof(*t->dirty));
	if (!t->sent || !t->dirty) {
		page_table_deinit(t);
		return -ENOMEM;
	}
	memset(t->sent, 0xff, n * sizeof(*t->sent));
	memset(cells, 0xff, shape_id_rows(joined) * n * sizeof(*cells));
	memset(heads, 0, (size_t)n_rows * sizeof(*heads));
	t->cells = cells;
	t->heads = heads;
	t->n_rows = n_rows;
	t->width = width;
	t->num_pages = num_pages;
	t->row_cells = (int32_t)shape_id_rows(joined) * width;
	t->v_column = joined ? 0 : width;
	t->v_more = joined ? 0 : num_pages;
	return 0;
}

void page_table_deinit(struct page_table *t)
{
	free(t->sent);
	free(t->dirty);
	*t = (struct page_table){ 0 };
}

static void join_closest(struct dirty_row *d)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i + 1 < d->n; i++)
		if (d->range[i + 1].lo - d->range[i].hi < d->range[best + 1].lo - d->range[best].hi)
			best = i;
	d->range[best].hi = d->range[best + 1].hi;
	memmove(&d->range[best + 1], &d->range[best + 2], (d->n - best - 2) * sizeof(d->range[0]));
	d->n--;
}

void page_table_note_dirty(struct dirty_row *d, int32_t c)
{
	uint32_t i = 0;

	while (i < d->n && d->range[i].hi < c)
		i++;
	if (i < d->n && c >= d->range[i].lo - 1 && c <= d->range[i].hi) {
		if (c < d->range[i].lo)
			d->range[i].lo = c;
		if (c == d->range[i].hi)
			d->range[i].hi = c + 1;
		if (i + 1 < d->n && d->range[i].hi >= d->range[i + 1].lo) {
			d->range[i].hi = d->range[i + 1].hi;
			memmove(&d->range[i + 1], &d->range[i + 2], (d->n - i - 2) * sizeof(d->range[0]));
			d->n--;
		}
		return;
	}
	if (d->n == PAGE_TABLE_RANGES) {
		join_closest(d);
		page_table_note_dirty(d, c);
		return;
	}
	memmove(&d->range[i + 1], &d->range[i], (d->n - i) * sizeof(d->range[0]));
	d->range[i].lo = c;
	d->range[i].hi = c + 1;
	d->n++;
}

void page_table_put_run(struct page_table *t, int32_t row, int32_t column, const int32_t *top, int32_t n)
{
	int32_t *k = t->cells + (int64_t)row * t->row_cells + column, *v = k + t->v_column;
	int32_t num_pages = t->num_pages, more = t->v_more;

	MUST(n >= 0 && column >= 0 && column + n <= t->width);
	for (int32_t i = 0; i < n; i++) {
		int32_t page = top[-1 - i];

		MUST(page >= 0 && page < num_pages);
		k[i] = page;
		v[i] = page + more;
		page_table_note(t, row, column + i);
	}
}

/* The K id at @cell differs from the one sent: an update, unless there are too many. */
static inline void deliver_cell(struct delivery *d, uint32_t cell, int32_t page)
{
	if (d->n_updates == WIRE_MAX_INLINE_UPDATES) {
		d->flags |= WIRE_DELIVERY_BY_REFERENCE;
		d->n_updates = 0;
	}
	if (!(d->flags & WIRE_DELIVERY_BY_REFERENCE))
		d->updates[d->n_updates++] = (struct wire_update){ cell, page };
}

static inline void deliver_row(struct page_table *t, int32_t row, uint32_t first, uint32_t end, struct delivery *d)
{
	uint32_t version = load_relaxed(&t->heads[row].version) + 1;

	store_release(&t->heads[row].version, version);
	d->rows[d->n_rows++] = (struct wire_row){ t->first_row + (uint32_t)row, version, first, end };
}

/* Columns [lo, hi) of a dirty range: true when one has changed. */
static inline bool collect_columns(struct page_table *t, int32_t row, int32_t lo, int32_t hi, struct delivery *d)
{
	const int32_t *cells = t->cells + (int64_t)row * t->row_cells;
	uint32_t first_cell = t->first_cell + (uint32_t)row * (uint32_t)t->width;
	int32_t *sent = t->sent + (int64_t)row * t->width;
	bool changed = false;

	for (int32_t c = lo; c < hi; c++) {
		int32_t page = cells[c];

		if (page == sent[c])
			continue;
		sent[c] = page;
		changed = true;
		deliver_cell(d, first_cell + (uint32_t)c, page);
	}
	return changed;
}

bool page_table_collect_columns(struct page_table *t, int32_t row, int32_t lo, int32_t hi, struct delivery *d)
{
	return collect_columns(t, row, lo, hi, d);
}

static inline void collected(struct page_table *t, int32_t row, bool changed, struct delivery *d)
{
	struct dirty_row *dirty = &t->dirty[row];

	if (changed)
		deliver_row(t, row, (uint32_t)dirty->range[0].lo, (uint32_t)dirty->range[dirty->n - 1].hi, d);
	dirty->n = 0;
}

void page_table_collected(struct page_table *t, int32_t row, bool changed, struct delivery *d)
{
	collected(t, row, changed, d);
}

int32_t page_table_collect(struct page_table *t, int32_t row, struct delivery *d)
{
	const struct dirty_row *dirty = &t->dirty[row];
	uint32_t n_ranges = dirty->n;
	bool changed = false;
	int32_t n = 0;

	if (n_ranges == 0)
		return 0;
	for (uint32_t i = 0; i < n_ranges; i++) {
		int32_t lo = dirty->range[i].lo, hi = dirty->range[i].hi;

		changed |= collect_columns(t, row, lo, hi, d);
		n += hi - lo;
	}
	collected(t, row, changed, d);
	return n;
}
