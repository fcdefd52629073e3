/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - page tables as kernels of others read them (man 3 swakv_export) */
#ifndef SWAKV_EXPORT_H
#define SWAKV_EXPORT_H

#include <swakv/session.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Host memory to host memory, without a broker or a session: each call is a
 * function of what it is given, and may run beside others. When one fails, @why (if not NULL) gets the
 * sentence, at most @why_size bytes, terminated, and nothing is written.
 */

/* Rows of page ids: those of a group's host table, or of an engine's own. */
struct swakv_export_rows {
	uint32_t size;      /* sizeof(struct swakv_export_rows) */
	uint32_t n;         /* sequences */
	const int32_t *ids; /* of row 0, column 0; -1 is empty. Of split pages K ids */
	uint32_t stride; /* ids from one row to the next: 2 * width in the table of split pages, width of joined ones */
	uint32_t width;  /* columns of a row: page j of a sequence is in column j */
	const int32_t *rows; /* [n], the row of each sequence, its slot; NULL: 0 to n - 1 */
	/* [n], tokens of each sequence, those of a step that is prepared included; the last has a page. 0: it has none
	 */
	const int64_t *lengths;
	uint32_t page_tokens;
	uint32_t n_rows; /* of @ids: a row at or above it is refused */
};

/* Who reads the table. */
enum swakv_consumer {
	SWAKV_EDGE_LLM = 1,    /* int32 [n][2][columns], V ids behind K ids, -1 */
	SWAKV_VLLM,            /* int32 [n][columns], the null block where there is no page */
	SWAKV_TENSORRT_LLM,    /* int32 [n][2][columns], in units of K or V of one layer and kernel page, -1 */
	SWAKV_FLASHINFER,      /* CSR: see swakv_export_csr() */
	SWAKV_FLASH_ATTENTION, /* int32 [n][columns], a page of the caller's where there is none */
};

/*
 * How ids are written: kernel page i of page p, i of 0 to ratio - 1, is p * scale + i. Where a page holds one layer, or
 * kernels count from a layer's own start in steps of whole pages, scale is ratio.
 */
struct swakv_export_style {
	uint32_t size;    /* sizeof(struct swakv_export_style) */
	uint32_t halves;  /* rows a sequence: 1, or 2: V ids below K ids */
	uint32_t ratio;   /* kernel pages a page; divides page_tokens */
	uint32_t rebased; /* not 0: column 0 is the first page that is kept, not that of token 0 */
	int64_t scale;
	int64_t v_offset; /* V entry: that of K, and so much more */
	int64_t hole;     /* an entry without a page, as it is written: an int32 */
};

/*
 * The style of @consumer for a group of @layout. @ratio: kernel pages a page, 0: 1. @hole: for vLLM its null block, for
 * FlashAttention a page of the caller's that may be read, both as the consumer numbers them; others do not look at it.
 * Members can be changed afterwards. Edge-LLM reads split pages only, vLLM joined ones; TensorRT-LLM joined ones whose
 * K and V are of one size, with nothing beside them. Its kernels add twice the layer's number to an entry.
 * Errors: SWAKV_EINVALID (an unknown consumer, a form of pages that it cannot read, a hole that it would follow, a
 * @ratio that does not divide the tokens of a page).
 */
int swakv_export_style_of(enum swakv_consumer consumer, const struct swakv_layout *layout, uint32_t ratio, int32_t hole,
			  struct swakv_export_style *out, char *why, size_t why_size);

/*
 * A dense table: int32 [n][halves][columns], every entry of it written. @offsets
 * (may be NULL): int64 [n], the position of the first token of column 0: 0, unless
 * rebased. Kernels that are given a rebased row count lengths and positions from there.
 * Errors: SWAKV_EINVALID (a row, a length or a count that is wrong; a page beyond @columns; an id that is no int32).
 */
int swakv_export_dense(const struct swakv_export_rows *rows, const struct swakv_export_style *style, int32_t *table,
		       uint32_t columns, int64_t *offsets, char *why, size_t why_size);
/*
 * Lists of pages: those of sequence i are @indices[@indptr[i]] to @indices[@indptr[i + 1] - 1], without holes, from the
 * first page that is kept to the one of the last token, of which @last_page_len[i] tokens (1 to the tokens of a
 * kernel page; 0 of an empty sequence) are there. @indptr: int32 [n + 1], @last_page_len: int32 [n], @offsets as
 * above, int64 [n]. *@n_indices is how many there are, also when @capacity is too small for them.
 * Errors: SWAKV_EINVALID (also a @capacity that is too small, and a style of two halves).
 */
int swakv_export_csr(const struct swakv_export_rows *rows, const struct swakv_export_style *style, int32_t *indptr,
		     int32_t *indices, size_t capacity, size_t *n_indices, int32_t *last_page_len, int64_t *offsets,
		     char *why, size_t why_size);
/*
 * Where the last @count[i] tokens of each sequence lie: kernel page * its tokens + place in it, one int64 a token, one
 * sequence behind the other; as vLLM's slot mapping. @n_slots: places of @slots; those behind the last token get -1.
 * Errors: SWAKV_EINVALID (also a token without a page, and more tokens than places).
 */
int swakv_export_slots(const struct swakv_export_rows *rows, const struct swakv_export_style *style,
		       const int32_t *count, int64_t *slots, size_t n_slots, char *why, size_t why_size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
