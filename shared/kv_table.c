/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_table.c - a page table of one's own: see <swakv/page_table.h>
 *
 * Each edit looks at all of its arguments before it writes anything, so that a
 * refused one leaves the table as it was.
 */
#include "kv_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sized.h"

/* Keeps the sentence of @reason, with @what and @index in front of it (@what NULL: none); returns its code. */
static int kv_table_refuse(struct swakv_page_table *t, const char *what, int32_t index, enum fault_reason reason,
			   int64_t got, int64_t want)
{
	struct fault f;
	int code = fault_set(&f, reason, -1, got, want), n = 0;

	if (what)
		n = snprintf(t->why, sizeof(t->why), "%s %d: ", what, index);
	fault_format(&f, t->why + n, sizeof(t->why) - (size_t)n);
	return code;
}

/* The list @what has no memory, or cannot have @n entries in a table of so many rows: none of it is touched. */
static int check_list(struct swakv_page_table *t, const char *what, const void *list, int32_t n)
{
	if (n < 0 || n > t->n_rows)
		snprintf(t->why, sizeof(t->why), "%d %s were given, and the table has %d rows", n, what, t->n_rows);
	else if (n > 0 && !list)
		snprintf(t->why, sizeof(t->why), "%s is NULL, and a count of %d was given", what, n);
	else
		return 0;
	return SWAKV_EINVALID;
}

const char *swakv_page_table_error(const struct swakv_page_table *t)
{
	return t ? t->why : "no page table was given";
}

/* ---- making one --------------------------------------------------------------- */

static int say(char *why, size_t size, int code, const char *what, int64_t value, const char *rule)
{
	if (why && size)
		snprintf(why, size, "%s %lld: %s", what, (long long)value, rule);
	return code;
}

static int check_options(const struct swakv_page_table_options *o, char *why, size_t size)
{
	if (!o->cells)
		return say(why, size, SWAKV_EINVALID, "cells", 0, "give the memory of the table, not NULL");
	if (o->n_rows <= 0)
		return say(why, size, SWAKV_EINVALID, "n_rows", o->n_rows, "a table has 1 row or more");
	if (o->width <= 0)
		return say(why, size, SWAKV_EINVALID, "width", o->width, "a row has 1 column or more");
	if ((int64_t)o->n_rows * o->width > INT32_MAX)
		return say(why, size, SWAKV_EINVALID, "n_rows * width", (int64_t)o->n_rows * o->width,
			   "a table has 2147483647 columns in all rows together at most");
	if (o->num_pages <= 0 || o->num_pages > INT32_MAX / 2)
		return say(why, size, SWAKV_EINVALID, "num_pages", o->num_pages,
			   "a pool has 1 to 1073741823 pages, so that V ids are int32");
	if (o->kind != SWAKV_TABLE_SPARSE && o->kind != SWAKV_TABLE_DENSE)
		return say(why, size, SWAKV_EINVALID, "kind", o->kind, "use SWAKV_TABLE_SPARSE or SWAKV_TABLE_DENSE");
	return 0;
}

int swakv_page_table_new(const struct swakv_page_table_options *options, struct swakv_page_table **out, char *why,
			 size_t size)
{
	struct swakv_page_table_options own, *o = &own;
	struct swakv_page_table *t;
	size_t n;
	int code;

	if (!out)
		return SWAKV_EINVALID;
	*out = NULL;
	if (!options)
		return say(why, size, SWAKV_EINVALID, "options", 0, "give the options, not NULL");
	if (!sized_take(&SIZED(swakv_page_table_options, device), o, options, why, size))
		return SWAKV_EINVALID;
	code = check_options(o, why, size);
	if (code)
		return code;
	n = (size_t)o->n_rows * 2 * (size_t)o->width;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->sent = malloc(n * sizeof(*t->sent));
		t->order = malloc((size_t)o->width * sizeof(*t->order));
	}
	if (!t || !t->sent || !t->order) {
		swakv_page_table_free(t);
		return say(why, size, SWAKV_ENOMEM, "n_rows", o->n_rows, "there is no memory for so large a table");
	}
	t->cells = o->cells;
	t->device = o->device;
	t->n_rows = o->n_rows;
	t->width = o->width;
	t->num_pages = o->num_pages;
	t->kind = o->kind;
	memset(t->cells, 0xff, n * sizeof(*t->cells));
	memset(t->sent, 0xff, n * sizeof(*t->sent));
	*out = t;
	return 0;
}

void swakv_page_table_free(struct swakv_page_table *t)
{
	if (!t)
		return;
	free(t->sent);
	free(t->order);
	free(t);
}

/* ---- what is in it -------------------------------------------------------------- */

const int32_t *swakv_page_table_row(const struct swakv_page_table *t, int32_t row)
{
	return !t || row < 0 || row >= t->n_rows ? NULL : kv_table_row(t, row);
}

int swakv_page_table_get_view(const struct swakv_page_table *t, struct swakv_page_table_view *out)
{
	const struct sized kind = SIZED(swakv_page_table_view, cells);
	struct swakv_page_table_view own = { 0 };
	char *why =
		t ? ((struct swakv_page_table *)(uintptr_t)t)->why : NULL; /* not what the caller sees as constant */

	if (t)
		own = (struct swakv_page_table_view){
			.n_rows = t->n_rows,
			.width = t->width,
			.num_pages = t->num_pages,
			.device = t->device,
			.cells = t->cells,
		};
	if (!out && t)
		snprintf(why, sizeof(t->why), "the pointer for struct %s is NULL", kind.name);
	if (!out || !sized_check(&kind, out, why, sizeof(t->why)))
		return SWAKV_EINVALID;
	sized_give(&kind, out, &own);
	return t ? 0 : SWAKV_EINVALID;
}

bool swakv_page_table_is_identity(const struct swakv_page_table *t)
{
	return t && t->identity;
}

/* ---- checks ---------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct kv_id *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->column < y->column ? -1 : x->column > y->column;
}

/* The first column whose page stands in an earlier one of @ids, which is then *@earlier; -1: each page once. */
static int32_t find_twice(const struct swakv_page_table *t, const int32_t *ids, int32_t n, int32_t *earlier)
{
	int32_t found = -1, live = 0;

	for (int32_t c = 0; c < n; c++)
		if (ids[c] >= 0)
			t->order[live++] = (struct kv_id){ ids[c], c };
	qsort(t->order, (size_t)live, sizeof(*t->order), by_id);
	for (int32_t i = 1; i < live; i++) {
		if (t->order[i].id != t->order[i - 1].id || (found >= 0 && t->order[i].column > found))
			continue;
		found = t->order[i].column;
		*earlier = t->order[i - 1].column;
	}
	return found;
}

/* Columns at the start of a row that hold pages. */
static int32_t live_part(const struct swakv_page_table *t, int32_t row)
{
	const int32_t *k = kv_table_row(t, row);
	int32_t n = 0;

	while (n < t->width && k[n] >= 0)
		n++;
	return n;
}

static int check_row(struct swakv_page_table *t, int32_t row)
{
	const int32_t *k = kv_table_row(t, row), *v = k + t->width;
	int32_t live = live_part(t, row), earlier = 0, twice;

	for (int32_t c = 0; c < t->width; c++) {
		if (k[c] < -1 || k[c] >= t->num_pages)
			return kv_table_refuse(t, "row", row, FAULT_TABLE_ID, k[c], t->num_pages - 1);
		if (v[c] != (k[c] < 0 ? -1 : k[c] + t->num_pages))
			return kv_table_refuse(t, "row", row, FAULT_TABLE_V_ID, c, v[c]);
		if (k[c] >= 0 && t->kind == SWAKV_TABLE_DENSE && c > live)
			return kv_table_refuse(t, "row", row, FAULT_TABLE_GAP, c, live);
	}
	twice = find_twice(t, k, t->width, &earlier);
	return twice < 0 ? 0 : kv_table_refuse(t, "row", row, FAULT_TABLE_TWICE, k[twice], earlier);
}

int swakv_page_table_check(struct swakv_page_table *t)
{
	int code = t ? 0 : SWAKV_EINVALID;

	for (int32_t row = 0; code == 0 && row < t->n_rows; row++)
		code = check_row(t, row);
	return code;
}

/* @what and @index say which argument it is, as in "update 3". */
static int check_place(struct swakv_page_table *t, const char *what, int32_t index, int32_t row)
{
	return row < 0 || row >= t->n_rows ? kv_table_refuse(t, what, index, FAULT_TABLE_ROW, row, t->n_rows - 1) : 0;
}

static int check_update(struct swakv_page_table *t, const char *what, int32_t index,
			const struct swakv_page_table_row *u)
{
	int32_t earlier = 0, twice;
	int code = check_place(t, what, index, u->row);

	if (code)
		return code;
	if (u->count < 0 || u->count > t->width)
		return kv_table_refuse(t, what, index, FAULT_TABLE_COUNT, u->count, t->width);
	if (!u->ids && u->count > 0)
		return kv_table_refuse(t, what, index, FAULT_TABLE_NULL, u->count, 0);
	for (int32_t i = 0; i < u->count; i++)
		if (u->ids[i] < 0 || u->ids[i] >= t->num_pages)
			return kv_table_refuse(t, what, index, FAULT_TABLE_ID, u->ids[i], t->num_pages - 1);
	twice = find_twice(t, u->ids, u->count, &earlier);
	return twice < 0 ? 0 : kv_table_refuse(t, what, index, FAULT_TABLE_TWICE, u->ids[twice], earlier);
}

/* ---- edits ------------------------------------------------------------------------- */

static void put(struct swakv_page_table *t, int32_t row, int32_t column, int32_t page)
{
	int32_t *k = kv_table_row(t, row) + column;

	k[0] = page;
	k[t->width] = page < 0 ? -1 : page + t->num_pages;
	t->identity = false;
}

static void put_row(struct swakv_page_table *t, int32_t row, const int32_t *ids, int32_t count)
{
	for (int32_t c = 0; c < t->width; c++)
		put(t, row, c, c < count ? ids[c] : -1);
}

int swakv_page_table_set_identity(struct swakv_page_table *t)
{
	int64_t need;

	if (!t)
		return SWAKV_EINVALID;
	need = (int64_t)t->n_rows * t->width;
	if (need > t->num_pages)
		return kv_table_refuse(t, NULL, 0, FAULT_TABLE_IDENTITY, need, t->num_pages);
	for (int32_t row = 0; row < t->n_rows; row++)
		for (int32_t c = 0; c < t->width; c++)
			put(t, row, c, row * t->width + c);
	t->identity = true;
	return 0;
}

static const struct swakv_page_table_row *row_at(const struct swakv_page_table_row *rows, int32_t i)
{
	return sized_at(rows, (uint32_t)i);
}

int swakv_page_table_set_rows(struct swakv_page_table *t, const struct swakv_page_table_row *rows, int32_t n)
{
	if (!t || check_list(t, "rows", rows, n))
		return SWAKV_EINVALID;
	if (!sized_check_list(&SIZED(swakv_page_table_row, ids), rows, (uint32_t)n, NULL, t->why, sizeof(t->why)))
		return SWAKV_EINVALID;
	for (int32_t i = 0; i < n; i++) {
		const struct swakv_page_table_row *u = row_at(rows, i);
		int code = check_update(t, "update", i, u);

		if (code)
			return code;
		for (int32_t k = 0; k < i; k++)
			if (row_at(rows, k)->row == u->row)
				return kv_table_refuse(t, "update", i, FAULT_TABLE_ROW_TWICE, u->row, k);
	}
	for (int32_t i = 0; i < n; i++) {
		const struct swakv_page_table_row *u = row_at(rows, i);

		put_row(t, u->row, u->ids, u->count);
	}
	return 0;
}

int swakv_page_table_set_row(struct swakv_page_table *t, int32_t row, const int32_t *ids, int32_t count)
{
	const struct swakv_page_table_row u = { .size = sizeof(u), .row = row, .count = count, .ids = ids };
	int code = t ? check_update(t, "row", row, &u) : SWAKV_EINVALID;

	if (code)
		return code;
	put_row(t, row, ids, count);
	return 0;
}

static int check_cell(struct swakv_page_table *t, int32_t row, int32_t column)
{
	int code = t ? check_place(t, NULL, 0, row) : SWAKV_EINVALID;

	if (code)
		return code;
	return column < 0 || column >= t->width
		       ? kv_table_refuse(t, "row", row, FAULT_TABLE_COLUMN, column, t->width - 1)
		       : 0;
}

int swakv_page_table_set_entry(struct swakv_page_table *t, int32_t row, int32_t column, int32_t page)
{
	int code = check_cell(t, row, column);

	if (code)
		return code;
	if (page < 0 || page >= t->num_pages)
		return kv_table_refuse(t, "row", row, FAULT_TABLE_ID, page, t->num_pages - 1);
	for (int32_t c = 0; c < t->width; c++)
		if (c != column && kv_table_row(t, row)[c] == page)
			return kv_table_refuse(t, "row", row, FAULT_TABLE_TWICE, page, c);
	if (t->kind == SWAKV_TABLE_DENSE && column > live_part(t, row))
		return kv_table_refuse(t, "row", row, FAULT_TABLE_GAP, column, live_part(t, row));
	put(t, row, column, page);
	return 0;
}

int swakv_page_table_clear_entry(struct swakv_page_table *t, int32_t row, int32_t column)
{
	int code = check_cell(t, row, column);

	if (code)
		return code;
	if (t->kind == SWAKV_TABLE_DENSE && column + 1 < live_part(t, row))
		return kv_table_refuse(t, "row", row, FAULT_TABLE_GAP, column, live_part(t, row));
	put(t, row, column, -1);
	return 0;
}

/* Fills @from (n_rows of them, all -1) with the source row of each destination. */
static int check_mapping(struct swakv_page_table *t, const int32_t *map, int32_t n, int32_t new_batch, int32_t *from)
{
	if (n < 0 || n > t->n_rows)
		return kv_table_refuse(t, NULL, 0, FAULT_MAP_ROWS, n, t->n_rows);
	if (check_list(t, "old_to_new", map, n))
		return SWAKV_EINVALID;
	if (new_batch < 0 || new_batch > n)
		return kv_table_refuse(t, NULL, 0, FAULT_NEW_BATCH, new_batch, n);
	for (int32_t i = 0; i < n; i++) {
		if (map[i] < -1 || map[i] >= new_batch)
			return kv_table_refuse(t, "row", i, FAULT_MAP_RANGE, map[i], new_batch - 1);
		if (map[i] >= 0 && from[map[i]] >= 0)
			return kv_table_refuse(t, "row", i, FAULT_MAP_TWICE, map[i], 0);
		if (map[i] >= 0)
			from[map[i]] = i;
	}
	for (int32_t j = 0; j < new_batch; j++)
		if (from[j] < 0)
			return kv_table_refuse(t, NULL, 0, FAULT_MAP_HOLE, j, new_batch);
	return 0;
}

/* With @from[row] the source of each row (-1: it is cleared) and @copy the table as it was. */
static void move_rows(struct swakv_page_table *t, const int32_t *from, const int32_t *copy)
{
	for (int32_t row = 0; row < t->n_rows; row++) {
		if (from[row] < 0)
			put_row(t, row, NULL, 0);
		else
			put_row(t, row, copy + (int64_t)from[row] * 2 * t->width, t->width);
	}
}

int swakv_page_table_compact_rows(struct swakv_page_table *t, const int32_t *old_to_new, int32_t n, int32_t new_batch)
{
	size_t bytes;
	int32_t *from, *copy;
	int code;

	if (!t)
		return SWAKV_EINVALID;
	bytes = (size_t)t->n_rows * 2 * (size_t)t->width * sizeof(*copy);
	from = malloc((size_t)t->n_rows * sizeof(*from));
	copy = malloc(bytes);
	if (from && copy) {
		memset(from, 0xff, (size_t)t->n_rows * sizeof(*from));
		memcpy(copy, t->cells, bytes);
		code = check_mapping(t, old_to_new, n, new_batch, from);
	} else {
		code = SWAKV_ENOMEM;
		snprintf(t->why, sizeof(t->why), "there is no memory for a copy of %zu bytes", bytes);
	}
	if (code == 0)
		move_rows(t, from, copy);
	free(from);
	free(copy);
	return code;
}
