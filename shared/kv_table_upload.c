/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_table_upload.c - from a table of one's own to a device view of the same layout
 *
 * Copies are asynchronous, so each upload carries the values it sends in memory
 * of its own: a second upload, or an edit, right behind it disturbs nothing.
 * What was sent counts as delivered only when every call was accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sized.h"

#include "kv_table.h"

struct swakv_page_table_upload {
	int64_t n_entries;
	int32_t n_copies;
	int32_t staged[];
};

/* An upload that is being made: copies of staged values, with their places in the view. */
struct builder {
	struct swakv_page_table_upload *upload;
	struct copy {
		int64_t at, first, n; /* in int32 */
	} * copies;
};

int64_t swakv_page_table_upload_entries_sent(const struct swakv_page_table_upload *u)
{
	return u ? u->n_entries : 0;
}

int32_t swakv_page_table_upload_copies(const struct swakv_page_table_upload *u)
{
	return u ? u->n_copies : 0;
}

void swakv_page_table_upload_free(struct swakv_page_table_upload *u)
{
	free(u);
}

static int builder_init(struct builder *b, struct swakv_page_table *t, int64_t most_entries, int64_t most_copies)
{
	b->upload = malloc(sizeof(*b->upload) + (size_t)most_entries * sizeof(int32_t));
	b->copies = malloc((size_t)(most_copies ? most_copies : 1) * sizeof(*b->copies));
	if (b->upload && b->copies) {
		b->upload->n_entries = 0;
		b->upload->n_copies = 0;
		return 0;
	}
	free(b->upload);
	free(b->copies);
	snprintf(t->why, sizeof(t->why), "there is no memory to stage %lld entries", (long long)most_entries);
	return SWAKV_ENOMEM;
}

/* Appends @n values for position @at; what touches the copy before it becomes part of that. */
static void builder_add(struct builder *b, int64_t at, const int32_t *src, int64_t n)
{
	struct swakv_page_table_upload *u = b->upload;
	struct copy *last = u->n_copies ? &b->copies[u->n_copies - 1] : NULL;

	memcpy(u->staged + u->n_entries, src, (size_t)n * sizeof(*src));
	if (last && last->at + last->n == at)
		last->n += n;
	else
		b->copies[u->n_copies++] = (struct copy){ at, u->n_entries, n };
	u->n_entries += n;
}

/* Sends what was built, after a fill with -1 when @fill is set; the upload goes to the caller, or is freed. */
static int builder_send(struct builder *b, struct swakv_page_table *t, const struct swakv_page_table_sink *sink,
			bool fill, struct swakv_page_table_upload **out)
{
	int64_t cells = (int64_t)t->n_rows * 2 * t->width;
	struct swakv_page_table_upload *u = b->upload;
	bool failed = fill && sink->fill(sink->arg, t->device, -1, (size_t)cells);

	for (int32_t i = 0; i < u->n_copies && !failed; i++) {
		const struct copy *c = &b->copies[i];

		failed = sink->copy(sink->arg, t->device + (uint64_t)c->at * sizeof(int32_t), u->staged + c->first,
				    (size_t)c->n * sizeof(int32_t));
	}
	if (!failed) {
		memcpy(t->sent, t->cells, (size_t)cells * sizeof(*t->sent));
		t->started = true;
	} else {
		snprintf(t->why, sizeof(t->why), "the sink refused a call: what was to be sent still differs");
	}
	/* A copy that was accepted before a failure may still be read: its memory goes to the caller all the same. */
	if (u->n_copies > 0 || (fill && !failed))
		*out = u;
	else
		free(u);
	free(b->copies);
	return failed ? SWAKV_EDEVICE : 0;
}

static int check_upload(struct swakv_page_table *t, const struct swakv_page_table_sink *sink,
			struct swakv_page_table_upload **out)
{
	if (out)
		*out = NULL;
	if (t && !out)
		snprintf(t->why, sizeof(t->why), "the pointer for the upload is NULL");
	if (!t || !out)
		return SWAKV_EINVALID;
	if (sink && !sized_check(&SIZED(swakv_page_table_sink, arg), sink, t->why, sizeof(t->why)))
		return SWAKV_EINVALID;
	if (!sink || !sink->copy || !sink->fill || !t->device) {
		snprintf(t->why, sizeof(t->why),
			 "an upload needs a device view (see the options) and a sink with copy and fill");
		return SWAKV_EINVALID;
	}
	return swakv_page_table_check(t);
}

int swakv_page_table_upload_rows(struct swakv_page_table *t, const struct swakv_page_table_sink *sink,
				 struct swakv_page_table_upload **out)
{
	int code = check_upload(t, sink, out);
	struct builder b;
	int64_t row_cells;

	if (code)
		return code;
	row_cells = 2 * (int64_t)t->width;
	code = builder_init(&b, t, t->n_rows * row_cells, t->n_rows);
	if (code)
		return code;
	for (int32_t row = 0; row < t->n_rows; row++) {
		const int32_t *now = kv_table_row(t, row);

		if (!t->started || memcmp(now, t->sent + row * row_cells, (size_t)row_cells * sizeof(*now)) != 0)
			builder_add(&b, row * row_cells, now, row_cells);
	}
	return builder_send(&b, t, sink, false, out);
}

int swakv_page_table_upload_entries(struct swakv_page_table *t, const struct swakv_page_table_sink *sink,
				    struct swakv_page_table_upload **out)
{
	int code = check_upload(t, sink, out);
	int64_t cells, most = 0;
	struct builder b;

	if (code)
		return code;
	cells = (int64_t)t->n_rows * 2 * t->width;
	/* Before the first upload `sent` is -1 everywhere, which is what the fill makes of the view. */
	for (int64_t i = 0; i < cells; i++)
		most += t->cells[i] != t->sent[i];
	code = builder_init(&b, t, most, most);
	if (code)
		return code;
	for (int64_t i = 0; i < cells; i++)
		if (t->cells[i] != t->sent[i])
			builder_add(&b, i, &t->cells[i], 1);
	return builder_send(&b, t, sink, !t->started, out);
}
