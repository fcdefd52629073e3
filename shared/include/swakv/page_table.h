/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_table.h - a page table in the caller's own memory (man 3 swakv_page_table)
 *
 * For an engine that manages its pages itself and wants a table in the library's
 * format: int32 [n_rows][2][width], the K ids of a row, then its V ids (K id +
 * num_pages); -1 is empty in both halves. It is not the table of a session,
 * which the broker keeps.
 *
 * Every edit checks all of its arguments first: a refused one changes nothing,
 * and swakv_page_table_error() says what was wrong. A NULL table is SWAKV_EINVALID.
 * One thread at a time. Spec section 5; its section 7 has the numbers.
 */
#ifndef SWAKV_PAGE_TABLE_H
#define SWAKV_PAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct swakv_page_table swakv_page_table;

enum swakv_page_table_kind {
	SWAKV_TABLE_SPARSE, /* for a window: empty columns anywhere, no page twice in a row */
	SWAKV_TABLE_DENSE,  /* also no page behind an empty column */
};

struct swakv_page_table_options {
	uint32_t size; /* sizeof(struct swakv_page_table_options) */
	enum swakv_page_table_kind kind;
	int32_t n_rows;    /* 1 or more, as width and num_pages; n_rows * width at most INT32_MAX */
	int32_t width;     /* columns: pages of the longest sequence */
	int32_t num_pages; /* page ids are 0 to num_pages - 1; at most INT32_MAX / 2, so that V ids fit */
	int32_t *cells;    /* [n_rows][2][width], borrowed until swakv_page_table_free(); filled with -1 */
	uint64_t device;   /* address of the device view, same layout; 0: none, and uploads are refused */
};

/*
 * On success *@out is owned by the caller until swakv_page_table_free(). On
 * failure it is NULL, and @why (may be NULL) gets the sentence, at most @why_size
 * bytes, terminated.
 * Errors: SWAKV_EINVALID, SWAKV_ENOMEM.
 */
int swakv_page_table_new(const struct swakv_page_table_options *options, swakv_page_table **out, char *why,
			 size_t why_size);
/* The cells stay the caller's, as they are. NULL is ignored. */
void swakv_page_table_free(swakv_page_table *t);
/* The sentence of the last refused call. Valid until the next call. Never NULL. */
const char *swakv_page_table_error(const swakv_page_table *t);

/* ---- edits ------------------------------------------------------------------ */

struct swakv_page_table_row {
	uint32_t size; /* sizeof(struct swakv_page_table_row), in each of a list */
	int32_t row;
	int32_t count;      /* columns [count, width) are cleared */
	const int32_t *ids; /* K ids of columns [0, count); NULL only when count is 0 */
};

/* Row b gets the ids [b * width, (b + 1) * width). Errors: SWAKV_EINVALID (the pool has fewer pages). */
int swakv_page_table_set_identity(swakv_page_table *t);
/* True from swakv_page_table_set_identity() until the next edit, even one that writes the same ids. */
bool swakv_page_table_is_identity(const swakv_page_table *t);
/* @ids: K ids of columns [0, @count), the rest is cleared; NULL if @count is 0. Errors: SWAKV_EINVALID. */
int swakv_page_table_set_row(swakv_page_table *t, int32_t row, const int32_t *ids, int32_t count);
/*
 * All of the @n rows or none; a row at most once. The sentence names the update at fault by its index.
 * Errors: SWAKV_EINVALID.
 */
int swakv_page_table_set_rows(swakv_page_table *t, const struct swakv_page_table_row *rows, int32_t n);
/* @page: a K id. Errors: SWAKV_EINVALID. */
int swakv_page_table_set_entry(swakv_page_table *t, int32_t row, int32_t column, int32_t page);
/* Errors: SWAKV_EINVALID. */
int swakv_page_table_clear_entry(swakv_page_table *t, int32_t row, int32_t column);
/*
 * Row i < @n moves to row @old_to_new[i], or goes when that is -1: each
 * destination in [0, @new_batch) exactly once. Rows from @new_batch on are
 * cleared. K and V stay where they are.
 * Errors: SWAKV_EINVALID, SWAKV_ENOMEM.
 */
int swakv_page_table_compact_rows(swakv_page_table *t, const int32_t *old_to_new, int32_t n, int32_t new_batch);

/* ---- what is in it ------------------------------------------------------------ */

/* K ids of @row, then its V ids: 2 * width int32, borrowed; NULL when @row is out of range. */
const int32_t *swakv_page_table_row(const swakv_page_table *t, int32_t row);

/* What a kernel wants to know. */
struct swakv_page_table_view {
	uint32_t size; /* sizeof(struct swakv_page_table_view) */
	int32_t n_rows, width, num_pages;
	uint64_t device; /* as in the options: it never changes, so a graph may capture it */
	int32_t *cells;  /* the host's, writable: for an engine that binds pages itself; checked before an upload */
};
/*
 * Zeroes for a NULL table.
 * Errors: SWAKV_EINVALID.
 */
int swakv_page_table_get_view(const swakv_page_table *t, struct swakv_page_table_view *out);

/*
 * Looks for the first violation: an id out of range, a V id that is not K id +
 * num_pages, a page twice in a row, a hole in a dense row.
 * Errors: SWAKV_EINVALID (there is one).
 */
int swakv_page_table_check(swakv_page_table *t);

/* ---- upload to the device view ---------------------------------------------------- */

/* Each enqueues on one stream and returns 0, or non-zero when it was not accepted. @dst lies in the device view. */
struct swakv_page_table_sink {
	uint32_t size; /* sizeof(struct swakv_page_table_sink) */
	int (*copy)(void *arg, uint64_t dst, const void *src, size_t bytes);
	int (*fill)(void *arg, uint64_t dst, int32_t value, size_t n); /* @n int32 */
	void *arg;
};

/* Holds what an upload sends until the stream has passed it. */
typedef struct swakv_page_table_upload swakv_page_table_upload;

/*
 * Enqueues the whole rows that differ from the device view, adjacent ones as one
 * copy; the first upload sends all. A table that fails swakv_page_table_check()
 * is not sent. *@out is NULL when nothing differed: then nothing was enqueued.
 * Otherwise the caller frees it once the stream has passed the copies, also after
 * SWAKV_EDEVICE.
 * Errors: SWAKV_EINVALID, SWAKV_ENOMEM, SWAKV_EDEVICE (the sink refused: what was to be sent still differs).
 */
int swakv_page_table_upload_rows(swakv_page_table *t, const struct swakv_page_table_sink *sink,
				 swakv_page_table_upload **out);
/*
 * The same entry by entry, adjacent ones as one copy; the first upload fills the
 * view with -1, then sends what is not.
 * Errors: SWAKV_EINVALID, SWAKV_ENOMEM, SWAKV_EDEVICE (the sink refused: what was to be sent still differs).
 */
int swakv_page_table_upload_entries(swakv_page_table *t, const struct swakv_page_table_sink *sink,
				    swakv_page_table_upload **out);
/* How many int32 were sent, not counting fills; 0 for NULL. */
int64_t swakv_page_table_upload_entries_sent(const swakv_page_table_upload *u);
/* How many copies that took; 0 for NULL. */
int32_t swakv_page_table_upload_copies(const swakv_page_table_upload *u);
/* NULL is ignored. */
void swakv_page_table_upload_free(swakv_page_table_upload *u);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
