/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c - page tables as kernels of others read them (swakv_export.3)
 *
 * Every export walks twice: the first time only to see that all of it can be
 * written, so that a refused one has written nothing.
 */
#include <inttypes.h>
#include <limits.h>

#include <swakv/export.h>

#include "sized.h"
#include "text.h"

/* More than any list has: none of it is touched. */
enum { MOST_SEQUENCES = 1 << 20, MOST_PAGE_TOKENS = 1 << 16 };

/* One sequence, as its row shows it. */
struct kept {
	const int32_t *ids; /* of its row */
	int64_t length;
	uint32_t first, end; /* columns from the first page that is kept to behind that of the last token; no hole */
};

/* What all exports are given, checked. */
struct export
{
	struct swakv_export_rows rows;
	struct swakv_export_style style;
	uint32_t tokens; /* of a kernel page */
	struct text why;
};

static int style_check(struct export *e)
{
	const struct swakv_export_style *s = &e->style;

	if (s->halves < 1 || s->halves > 2)
		return text_set(&e->why, SWAKV_EINVALID, "style: %" PRIu32 " halves: give 1 or 2", s->halves);
	if (s->ratio == 0 || e->rows.page_tokens % s->ratio != 0)
		return text_set(&e->why, SWAKV_EINVALID,
				"style: a page of %" PRIu32 " tokens cannot be read as %" PRIu32 " kernel pages",
				e->rows.page_tokens, s->ratio);
	if (s->hole < INT32_MIN || s->hole > INT32_MAX)
		return text_set(&e->why, SWAKV_EINVALID, "style: hole %" PRId64 " is no int32", s->hole);
	if (s->scale < s->ratio || s->scale > INT32_MAX || s->v_offset < 0 || s->v_offset > INT32_MAX)
		return text_set(&e->why, SWAKV_EINVALID,
				"style: scale %" PRId64 " or v_offset %" PRId64 " is outside %" PRIu32 " (0) to %d",
				s->scale, s->v_offset, s->ratio, INT32_MAX);
	e->tokens = e->rows.page_tokens / s->ratio;
	return 0;
}

/* Takes what the caller gave; false when it cannot be used, with the sentence. */
static int export_init(struct export *e, const struct swakv_export_rows *rows, const struct swakv_export_style *style,
		       char *why, size_t why_size)
{
	const struct sized kind_of_rows = SIZED(swakv_export_rows, n_rows);
	const struct sized kind_of_style = SIZED(swakv_export_style, hole);

	e->why = (struct text){ why, why_size };
	if (!rows || !style)
		return text_set(&e->why, SWAKV_EINVALID, "the %s NULL", rows ? "style is" : "rows are");
	if (!sized_take(&kind_of_rows, &e->rows, rows, why, why_size) ||
	    !sized_take(&kind_of_style, &e->style, style, why, why_size))
		return SWAKV_EINVALID;
	if (!e->rows.ids || !e->rows.lengths)
		return text_set(&e->why, SWAKV_EINVALID, "rows: the %s are NULL", e->rows.ids ? "lengths" : "ids");
	if (e->rows.n > MOST_SEQUENCES || e->rows.width > INT32_MAX || e->rows.page_tokens > MOST_PAGE_TOKENS)
		return text_set(&e->why, SWAKV_EINVALID,
				"rows: %" PRIu32 " sequences of %" PRIu32 " columns, pages of %" PRIu32
				" tokens: more than %d, %d or %d",
				e->rows.n, e->rows.width, e->rows.page_tokens, MOST_SEQUENCES, INT32_MAX,
				MOST_PAGE_TOKENS);
	if (e->rows.width == 0 || e->rows.stride < e->rows.width || e->rows.page_tokens == 0)
		return text_set(&e->why, SWAKV_EINVALID,
				"rows: width %" PRIu32 ", stride %" PRIu32 ", pages of %" PRIu32
				" tokens: none may be 0, and no row lies over the next",
				e->rows.width, e->rows.stride, e->rows.page_tokens);
	return style_check(e);
}

/* Sequence @i of those that are exported. */
static int kept_find(struct export *e, uint32_t i, struct kept *k)
{
	const struct swakv_export_rows *r = &e->rows;
	int64_t row = r->rows ? (int64_t)r->rows[i] : (int64_t)i, length = r->lengths[i], pages;

	if (row < 0 || row >= r->n_rows)
		return text_set(&e->why, SWAKV_EINVALID,
				"sequence %" PRIu32 ": row %" PRId64 " is outside 0 to %" PRId64, i, row,
				(int64_t)r->n_rows - 1);
	if (length < 0 || length > (int64_t)r->width * r->page_tokens)
		return text_set(&e->why, SWAKV_EINVALID,
				"sequence %" PRIu32 ": %" PRId64 " tokens: a row has room for 0 to %" PRId64, i, length,
				(int64_t)r->width * r->page_tokens);
	pages = (length + r->page_tokens - 1) / r->page_tokens;
	*k = (struct kept){ r->ids + (size_t)row * r->stride, length, (uint32_t)pages, (uint32_t)pages };
	while (k->first > 0 && k->ids[k->first - 1] >= 0)
		k->first--;
	if (pages > 0 && k->first == k->end)
		return text_set(&e->why, SWAKV_EINVALID, "sequence %" PRIu32 ": token %" PRId64 " has no page", i,
				length - 1);
	return 0;
}

/* Kernel page @kernel of page @id, in half @half; false when that is no int32. */
static bool entry_make(struct export *e, int32_t id, uint32_t kernel, uint32_t half, int32_t *out)
{
	int64_t entry = id * e->style.scale + kernel + (half ? e->style.v_offset : 0);

	if (entry > INT32_MAX) {
		text_set(&e->why, SWAKV_EINVALID, "page %" PRId32 " would be entry %" PRId64 ", which is no int32", id,
			 entry);
		return false;
	}
	*out = (int32_t)entry;
	return true;
}

static int64_t offset_of(const struct export *e, const struct kept *k)
{
	return (int64_t)k->first * e->rows.page_tokens;
}

/* ---- styles ---------------------------------------------------------------------- */

/* What @consumer cannot read of @l; NULL: it can. */
static const char *unreadable(enum swakv_consumer consumer, const struct swakv_layout *l)
{
	switch (consumer) {
	case SWAKV_EDGE_LLM:
		return l->form == SWAKV_SPLIT ? NULL : "Edge-LLM reads split pages only";
	case SWAKV_VLLM:
		return l->form == SWAKV_JOINED ? NULL : "vLLM reads joined pages only";
	case SWAKV_TENSORRT_LLM:
		return l->form == SWAKV_JOINED && l->order == SWAKV_K_V_EXTRA && l->extra_bytes == 0 &&
				       l->k_bytes == l->v_bytes &&
				       l->layer_stride == 2 * (uint64_t)l->k_bytes * l->page_tokens
			       ? NULL
			       : "TensorRT-LLM reads joined pages only, whose layers hold K, then as much V, and "
				 "nothing else";
	case SWAKV_FLASHINFER:
	case SWAKV_FLASH_ATTENTION:
		return NULL;
	}
	return "there is no such consumer";
}

int swakv_export_style_of(enum swakv_consumer consumer, const struct swakv_layout *layout, uint32_t ratio, int32_t hole,
			  struct swakv_export_style *out, char *why, size_t why_size)
{
	const struct sized kind_of_layout = SIZED(swakv_layout, tag), kind_of_style = SIZED(swakv_export_style, hole);
	struct swakv_layout l;
	struct swakv_export_style s = { .halves = 1, .ratio = ratio ? ratio : 1, .hole = -1 };
	struct text text = { why, why_size };
	const char *what;

	if (!layout || !out)
		return text_set(&text, SWAKV_EINVALID, "the %s is NULL", layout ? "pointer for the style" : "layout");
	if (!sized_take(&kind_of_layout, &l, layout, why, why_size) || !sized_check(&kind_of_style, out, why, why_size))
		return SWAKV_EINVALID;
	what = unreadable(consumer, &l);
	if (what)
		return text_set(&text, SWAKV_EINVALID, "consumer %d: %s", (int)consumer, what);
	if (l.page_tokens == 0 || l.page_tokens % s.ratio != 0)
		return text_set(&text, SWAKV_EINVALID,
				"a page of %" PRIu32 " tokens cannot be read as %" PRIu32 " kernel pages",
				l.page_tokens, s.ratio);
	if ((consumer == SWAKV_VLLM || consumer == SWAKV_FLASH_ATTENTION) && hole < 0)
		return text_set(&text, SWAKV_EINVALID,
				"hole %" PRId32 ": kernels of consumer %d follow every entry, give a page of yours",
				hole, (int)consumer);
	s.scale = s.ratio;
	if (consumer == SWAKV_VLLM || consumer == SWAKV_FLASH_ATTENTION)
		s.hole = hole;
	if (consumer == SWAKV_EDGE_LLM || consumer == SWAKV_TENSORRT_LLM)
		s.halves = 2;
	if (consumer == SWAKV_EDGE_LLM)
		s.v_offset = (int64_t)l.num_pages * s.ratio;
	if (consumer == SWAKV_TENSORRT_LLM) {
		s.scale = 2 * (int64_t)l.layers * s.ratio;
		s.v_offset = s.ratio;
	}
	s.rebased = consumer == SWAKV_FLASHINFER;
	s.size = sized_of(out);
	sized_give(&kind_of_style, out, &s);
	return 0;
}

/* ---- dense ----------------------------------------------------------------------- */

/* Columns of one half of one row, from @k's first page on if @e says so; @out NULL: only looks whether it can. */
static bool half_write(struct export *e, uint32_t sequence, const struct kept *k, uint32_t half, uint32_t columns,
		       int32_t *out)
{
	uint32_t first = e->style.rebased ? k->first : 0, ratio = e->style.ratio;
	uint64_t most = ((uint64_t)e->rows.width - first) * ratio;
	int32_t entry;

	for (uint64_t c = 0; c < most || (out && c < columns); c++) {
		int32_t id = c < most ? k->ids[first + c / ratio] : -1;

		if (id >= 0 && c >= columns) {
			text_set(&e->why, SWAKV_EINVALID,
				 "sequence %" PRIu32 ": page %" PRIu64 " lies beyond %" PRIu32 " columns", sequence,
				 first + c / ratio, columns);
			return false;
		}
		if (id >= 0 && !entry_make(e, id, (uint32_t)(c % ratio), half, &entry))
			return false;
		if (out && c < columns)
			out[c] = id >= 0 ? entry : (int32_t)e->style.hole;
	}
	return true;
}

static int dense_walk(struct export *e, int32_t *table, uint32_t columns, int64_t *offsets)
{
	struct kept k;

	for (uint32_t i = 0; i < e->rows.n; i++) {
		int r = kept_find(e, i, &k);

		if (r < 0)
			return r;
		for (uint32_t half = 0; half < e->style.halves; half++) {
			size_t at = ((size_t)i * e->style.halves + half) * columns;

			if (!half_write(e, i, &k, half, columns, table ? table + at : NULL))
				return SWAKV_EINVALID;
		}
		if (offsets)
			offsets[i] = e->style.rebased ? offset_of(e, &k) : 0;
	}
	return 0;
}

int swakv_export_dense(const struct swakv_export_rows *rows, const struct swakv_export_style *style, int32_t *table,
		       uint32_t columns, int64_t *offsets, char *why, size_t why_size)
{
	struct export e;
	int r = export_init(&e, rows, style, why, why_size);

	if (r < 0)
		return r;
	if (!table || columns == 0)
		return text_set(&e.why, SWAKV_EINVALID, "the table is %s", table ? "of 0 columns" : "NULL");
	r = dense_walk(&e, NULL, columns, NULL);
	return r < 0 ? r : dense_walk(&e, table, columns, offsets);
}

/* ---- lists ----------------------------------------------------------------------- */

/* Where an export of lists writes; NULL members: it only counts. */
struct lists {
	int32_t *indptr, *indices, *last_page_len;
	int64_t *offsets;
};

static int csr_walk(struct export *e, const struct lists *out, size_t *n)
{
	uint32_t ratio = e->style.ratio;
	struct kept k;
	int32_t entry;

	*n = 0;
	for (uint32_t i = 0; i < e->rows.n; i++) {
		int64_t kernels;
		int r = kept_find(e, i, &k);

		if (r < 0)
			return r;
		kernels = (k.length + e->tokens - 1) / e->tokens; /* from token 0 on */
		if (out->indptr)
			out->indptr[i] = (int32_t)*n;
		for (int64_t c = (int64_t)k.first * ratio; c < kernels; c++, ++*n) {
			if (!entry_make(e, k.ids[c / ratio], (uint32_t)(c % ratio), 0, &entry))
				return SWAKV_EINVALID;
			if (out->indices)
				out->indices[*n] = entry;
		}
		if (out->last_page_len)
			out->last_page_len[i] = (int32_t)(k.length - (kernels ? kernels - 1 : 0) * e->tokens);
		if (out->offsets)
			out->offsets[i] = offset_of(e, &k);
	}
	if (out->indptr)
		out->indptr[e->rows.n] = (int32_t)*n;
	return 0;
}

int swakv_export_csr(const struct swakv_export_rows *rows, const struct swakv_export_style *style, int32_t *indptr,
		     int32_t *indices, size_t capacity, size_t *n_indices, int32_t *last_page_len, int64_t *offsets,
		     char *why, size_t why_size)
{
	const struct lists nowhere = { 0 }, out = { indptr, indices, last_page_len, offsets };
	struct export e;
	size_t n;
	int r = export_init(&e, rows, style, why, why_size);

	if (r < 0)
		return r;
	if (!indptr || (!indices && capacity > 0) || !n_indices || !last_page_len)
		return text_set(&e.why, SWAKV_EINVALID, "%s NULL",
				!indptr      ? "indptr is"
				: !n_indices ? "the place for the count is"
				: !indices   ? "indices are"
					     : "last_page_len is");
	if (e.style.halves != 1)
		return text_set(&e.why, SWAKV_EINVALID, "style: lists have one id a page, and 2 halves were asked for");
	r = csr_walk(&e, &nowhere, &n);
	if (r < 0)
		return r;
	*n_indices = n;
	if (n > capacity || n > INT32_MAX)
		return text_set(&e.why, SWAKV_EINVALID, "%zu pages are to be listed, and there is room for %zu", n,
				capacity < INT32_MAX ? capacity : INT32_MAX);
	return csr_walk(&e, &out, &n);
}

/* ---- slots of tokens --------------------------------------------------------------- */

/* The last @count tokens of sequence @i; @out NULL: only looks whether they have pages. */
static int slots_write(struct export *e, uint32_t i, int32_t count, int64_t *out)
{
	struct kept k = { 0 };
	int r = kept_find(e, i, &k);

	if (r < 0)
		return r;
	if (count < 0 || count > k.length)
		return text_set(&e->why, SWAKV_EINVALID,
				"sequence %" PRIu32 ": the last %" PRId32 " of %" PRId64 " tokens were asked for", i,
				count, k.length);
	for (int64_t t = k.length - count; t < k.length; t++) {
		int32_t id = k.ids[t / e->rows.page_tokens];
		int64_t in_page = t % e->rows.page_tokens;

		if (id < 0)
			return text_set(&e->why, SWAKV_EINVALID, "sequence %" PRIu32 ": token %" PRId64 " has no page",
					i, t);
		if (out)
			*out++ = (id * e->style.scale + in_page / e->tokens) * e->tokens + in_page % e->tokens;
	}
	return 0;
}

int swakv_export_slots(const struct swakv_export_rows *rows, const struct swakv_export_style *style,
		       const int32_t *count, int64_t *slots, size_t n_slots, char *why, size_t why_size)
{
	struct export e;
	size_t n = 0;
	int r = export_init(&e, rows, style, why, why_size);

	if (r < 0)
		return r;
	if (!count || (!slots && n_slots > 0))
		return text_set(&e.why, SWAKV_EINVALID, "the %s are NULL", count ? "slots" : "counts");
	for (uint32_t i = 0; i < e.rows.n; i++) {
		r = slots_write(&e, i, count[i], NULL);
		if (r < 0)
			return r;
		n += (size_t)count[i];
	}
	if (n > n_slots)
		return text_set(&e.why, SWAKV_EINVALID, "%zu tokens, and places for %zu", n, n_slots);
	n = 0;
	for (uint32_t i = 0; i < e.rows.n; i++) {
		(void)slots_write(&e, i, count[i], slots + n);
		n += (size_t)count[i];
	}
	while (n < n_slots)
		slots[n++] = -1; /* NOLINT(clang-analyzer-core.NullDereference): without a list @n_slots is 0 */
	return 0;
}
