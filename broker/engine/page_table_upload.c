/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table_upload.c - from the host table to a device view of the same layout
 *
 * Copies are asynchronous, so each upload carries the values it sends in memory
 * of its own: a second upload, or an edit, right behind it disturbs nothing.
 * What was sent counts as delivered only when every device call was accepted.
 */
#include <stdlib.h>
#include <string.h>

#include "page_table.h"

/* An upload under construction: ranges of staged values with their places. */
struct range {
	int64_t at, first, n;
};

struct builder {
	struct page_table_upload *up;
	struct range *ranges;
	int32_t n_ranges;
};

static int builder_init(struct builder *b, int64_t most_entries, int64_t most_ranges)
{
	b->up = malloc(sizeof(*b->up) + (size_t)most_entries * sizeof(int32_t));
	b->ranges = malloc((size_t)most_ranges * sizeof(*b->ranges));
	b->n_ranges = 0;
	if (b->up && b->ranges) {
		b->up->n_entries = 0;
		return 0;
	}
	free(b->up);
	free(b->ranges);
	return SWAKV_ENOMEM;
}

/* Appends @n values for position @at; what touches the range before it becomes part of that. */
static void builder_add(struct builder *b, int64_t at, const int32_t *src, int64_t n)
{
	struct range *last = b->n_ranges ? &b->ranges[b->n_ranges - 1] : NULL;

	memcpy(b->up->staged + b->up->n_entries, src, (size_t)n * sizeof(*src));
	if (last && last->at + last->n == at)
		last->n += n;
	else
		b->ranges[b->n_ranges++] = (struct range){ at, b->up->n_entries, n };
	b->up->n_entries += n;
}

static bool row_differs(const struct page_table *t, int32_t row)
{
	const struct dirty_row *d = &t->dirty[row];
	const int32_t *sent = t->sent + (int64_t)row * t->width;

	for (uint32_t i = 0; i < d->n; i++)
		for (int32_t c = d->range[i].lo; c < d->range[i].hi; c++)
			if (page_table_get(t, row, c) != sent[c])
				return true;
	return false;
}

static void mark_sent(struct page_table *t)
{
	for (int32_t row = 0; row < t->n_rows; row++) {
		memcpy(t->sent + (int64_t)row * t->width, page_table_host_row(t, row),
		       (size_t)t->width * sizeof(*t->sent));
		t->dirty[row].n = 0;
	}
	t->started = true;
}

/* Sends what was built, after a fill with -1 when @fill is set; hands the upload to the caller or frees it. */
static int builder_send(struct builder *b, struct page_table *t, const struct page_table_sink *sink, bool fill,
			struct page_table_upload **out)
{
	int failed = fill ? sink->fill(sink->arg, 0, -1, (int64_t)t->n_rows * 2 * t->width) : 0;

	for (int32_t i = 0; i < b->n_ranges && !failed; i++)
		failed = sink->copy(sink->arg, b->ranges[i].at, b->up->staged + b->ranges[i].first, b->ranges[i].n);
	if (!failed)
		mark_sent(t);
	b->up->n_ranges = b->n_ranges;
	/* A copy that was accepted before a failure may still be read: the memory goes to the caller all the same. */
	if (b->n_ranges > 0 || (fill && !failed))
		*out = b->up;
	else
		free(b->up);
	free(b->ranges);
	return failed ? SWAKV_EDEVICE : 0;
}

int page_table_upload_rows(struct page_table *t, const struct page_table_sink *sink, struct page_table_upload **out,
			   struct fault *f)
{
	int64_t row_entries = 2 * (int64_t)t->width;
	struct builder b;
	int code;

	*out = NULL;
	if ((code = page_table_check(t, f)) || (code = builder_init(&b, t->n_rows * row_entries, t->n_rows)))
		return code;
	for (int32_t row = 0; row < t->n_rows; row++)
		if (!t->started || row_differs(t, row))
			builder_add(&b, row * row_entries, page_table_host_row(t, row), row_entries);
	return builder_send(&b, t, sink, false, out);
}

/* One half (0: K, 1: V) of the changed columns of @row. */
static void add_half(struct builder *b, const struct page_table *t, int32_t row, int half)
{
	const struct dirty_row *d = &t->dirty[row];
	const int32_t *sent = t->sent + (int64_t)row * t->width;
	const int32_t *cells = page_table_host_row(t, row) + (int64_t)half * t->width;

	for (uint32_t i = 0; i < d->n; i++)
		for (int32_t c = d->range[i].lo; c < d->range[i].hi; c++)
			if (page_table_get(t, row, c) != (t->started ? sent[c] : -1))
				builder_add(b, ((int64_t)row * 2 + half) * t->width + c, &cells[c], 1);
}

int page_table_upload_entries(struct page_table *t, const struct page_table_sink *sink, struct page_table_upload **out,
			      struct fault *f)
{
	int64_t most = 0;
	struct builder b;
	int code;

	*out = NULL;
	for (int32_t row = 0; row < t->n_rows; row++)
		for (uint32_t i = 0; i < t->dirty[row].n; i++)
			most += 2 * (int64_t)(t->dirty[row].range[i].hi - t->dirty[row].range[i].lo);
	if ((code = page_table_check(t, f)) || (code = builder_init(&b, most, most ? most : 1)))
		return code;
	for (int32_t row = 0; row < t->n_rows; row++) {
		add_half(&b, t, row, 0);
		add_half(&b, t, row, 1);
	}
	return builder_send(&b, t, sink, !t->started, out);
}
