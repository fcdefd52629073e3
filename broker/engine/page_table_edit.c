/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table_edit.c - whole edits of a page table, and its invariants
 *
 * For those who fill a table themselves instead of driving requests. Each edit
 * looks at all of its arguments before it writes anything.
 */
#include <stdlib.h>
#include <string.h>

#include "page_table.h"

static void put_row(struct page_table *t, int32_t row, const int32_t *ids, int32_t count)
{
	page_table_open(t, row);
	for (int32_t c = 0; c < t->width; c++)
		page_table_put(t, row, c, c < count ? ids[c] : -1);
	page_table_close(t, row);
}

int page_table_set_identity(struct page_table *t, struct fault *f)
{
	int64_t need = (int64_t)t->n_rows * t->width;

	if (need > t->num_pages)
		return fault_set(f, FAULT_TABLE_IDENTITY, -1, need, t->num_pages);
	for (int32_t row = 0; row < t->n_rows; row++) {
		page_table_open(t, row);
		for (int32_t c = 0; c < t->width; c++)
			page_table_put(t, row, c, row * t->width + c);
		page_table_close(t, row);
	}
	t->identity = true;
	return 0;
}

bool page_table_is_identity(const struct page_table *t)
{
	return t->identity;
}

static int check_row_range(const struct page_table *t, int32_t seq, int32_t row, struct fault *f)
{
	return row < 0 || row >= t->n_rows ? fault_set(f, FAULT_SLOT_RANGE, seq, row, t->n_rows - 1) : 0;
}

static int check_id(const struct page_table *t, int32_t seq, int32_t id, struct fault *f)
{
	return id < 0 || id >= t->num_pages ? fault_set(f, FAULT_TABLE_ID, seq, id, t->num_pages - 1) : 0;
}

static int check_update(const struct page_table *t, int32_t seq, const struct page_table_row *u, struct fault *f)
{
	int code = check_row_range(t, seq, u->row, f);

	if (code)
		return code;
	if (u->count < 0 || u->count > t->width)
		return fault_set(f, FAULT_TABLE_COUNT, seq, u->count, t->width);
	if (!u->ids && u->count > 0)
		return fault_set(f, FAULT_TABLE_NULL, seq, u->count, 0);
	for (int32_t i = 0; i < u->count; i++) {
		if ((code = check_id(t, seq, u->ids[i], f)))
			return code;
		for (int32_t k = 0; k < i; k++)
			if (u->ids[k] == u->ids[i])
				return fault_set(f, FAULT_TABLE_TWICE, seq, u->ids[i], k);
	}
	return 0;
}

int page_table_set_rows(struct page_table *t, const struct page_table_row *rows, int32_t n, struct fault *f)
{
	for (int32_t i = 0; i < n; i++) {
		int code = check_update(t, i, &rows[i], f);

		if (code)
			return code;
		for (int32_t k = 0; k < i; k++)
			if (rows[k].row == rows[i].row)
				return fault_set(f, FAULT_SLOT_TWICE, i, rows[i].row, 0);
	}
	for (int32_t i = 0; i < n; i++)
		put_row(t, rows[i].row, rows[i].ids, rows[i].count);
	if (n > 0)
		t->identity = false;
	return 0;
}

int page_table_set_row(struct page_table *t, int32_t row, const int32_t *ids, int32_t count, struct fault *f)
{
	struct page_table_row u = { row, ids, count };
	int code = check_update(t, -1, &u, f);

	if (code)
		return code;
	put_row(t, row, ids, count);
	t->identity = false;
	return 0;
}

static int check_cell(const struct page_table *t, int32_t row, int32_t column, struct fault *f)
{
	int code = check_row_range(t, -1, row, f);

	if (code)
		return code;
	return column < 0 || column >= t->width ? fault_set(f, FAULT_TABLE_COLUMN, -1, column, t->width - 1) : 0;
}

/* Live columns at the start of a dense row. */
static int32_t live_part(const struct page_table *t, int32_t row)
{
	int32_t n = 0;

	while (n < t->width && page_table_get(t, row, n) >= 0)
		n++;
	return n;
}

int page_table_set_entry(struct page_table *t, int32_t row, int32_t column, int32_t page, struct fault *f)
{
	int code = check_cell(t, row, column, f);

	if (code || (code = check_id(t, -1, page, f)))
		return code;
	for (int32_t c = 0; c < t->width; c++)
		if (c != column && page_table_get(t, row, c) == page)
			return fault_set(f, FAULT_TABLE_TWICE, -1, page, c);
	if (t->mode == PAGE_TABLE_DENSE && column > live_part(t, row))
		return fault_set(f, FAULT_TABLE_GAP, -1, column, live_part(t, row));
	page_table_open(t, row);
	page_table_put(t, row, column, page);
	page_table_close(t, row);
	t->identity = false;
	return 0;
}

int page_table_clear_entry(struct page_table *t, int32_t row, int32_t column, struct fault *f)
{
	int code = check_cell(t, row, column, f);

	if (code)
		return code;
	if (t->mode == PAGE_TABLE_DENSE && column + 1 < live_part(t, row))
		return fault_set(f, FAULT_TABLE_GAP, -1, column, live_part(t, row));
	page_table_open(t, row);
	page_table_put(t, row, column, -1);
	page_table_close(t, row);
	t->identity = false;
	return 0;
}

/* Fills @from (n_rows, all -1) with the source row of each destination. */
static int check_mapping(const struct page_table *t, const int32_t *map, int32_t n, int32_t new_batch, int32_t *from,
			 struct fault *f)
{
	if (n < 0 || n > t->n_rows)
		return fault_set(f, FAULT_MAP_COUNT, -1, n, t->n_rows);
	if (new_batch < 0 || new_batch > n)
		return fault_set(f, FAULT_NEW_BATCH, -1, new_batch, n);
	for (int32_t i = 0; i < n; i++) {
		if (map[i] < -1 || map[i] >= new_batch)
			return fault_set(f, FAULT_MAP_RANGE, i, map[i], new_batch - 1);
		if (map[i] >= 0 && from[map[i]] >= 0)
			return fault_set(f, FAULT_MAP_TWICE, i, map[i], 0);
		if (map[i] >= 0)
			from[map[i]] = i;
	}
	for (int32_t j = 0; j < new_batch; j++)
		if (from[j] < 0)
			return fault_set(f, FAULT_MAP_HOLE, -1, j, new_batch);
	return 0;
}

int page_table_compact_rows(struct page_table *t, const int32_t *old_to_new, int32_t n, int32_t new_batch,
			    struct fault *f)
{
	size_t width = (size_t)t->width;
	int32_t *from = malloc((size_t)t->n_rows * sizeof(*from));
	int32_t *copy = malloc((size_t)t->n_rows * width * sizeof(*copy));
	int code = SWAKV_ENOMEM;

	if (from && copy) {
		memset(from, 0xff, (size_t)t->n_rows * sizeof(*from));
		code = check_mapping(t, old_to_new, n, new_batch, from, f);
	}
	if (code == 0) {
		for (int32_t row = 0; row < t->n_rows; row++)
			memcpy(copy + (size_t)row * width, page_table_host_row(t, row), width * sizeof(*copy));
		for (int32_t row = 0; row < t->n_rows; row++)
			put_row(t, row, from[row] < 0 ? NULL : copy + (size_t)from[row] * width,
				from[row] < 0 ? 0 : t->width);
		t->identity = false;
	}
	free(from);
	free(copy);
	return code;
}

static int check_row(const struct page_table *t, int32_t row, struct fault *f)
{
	const int32_t *k = page_table_host_row(t, row), *v = k + t->width;
	int32_t live = live_part(t, row);

	for (int32_t c = 0; c < t->width; c++) {
		if (v[c] != (k[c] < 0 ? -1 : k[c] + t->num_pages))
			return fault_set(f, FAULT_TABLE_V_ID, row, c, v[c]);
		if (k[c] == -1)
			continue;
		if (k[c] < 0 || k[c] >= t->num_pages)
			return fault_set(f, FAULT_TABLE_ID, row, k[c], t->num_pages - 1);
		if (t->mode == PAGE_TABLE_DENSE && c > live)
			return fault_set(f, FAULT_TABLE_GAP, row, c, live);
		for (int32_t b = 0; b < c; b++)
			if (k[b] == k[c])
				return fault_set(f, FAULT_TABLE_TWICE, row, k[c], b);
	}
	return 0;
}

int page_table_check(const struct page_table *t, struct fault *f)
{
	for (int32_t row = 0; row < t->n_rows; row++) {
		int code = check_row(t, row, f);

		if (code)
			return code;
	}
	return 0;
}
