/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_shape.h - where the parts of a page lie: a layer group in bytes (spec section 1)
 *
 * The one place that turns heads into bytes. A page holds a run for each layer,
 * one behind the other; a run holds the K of all tokens, their V, and what the
 * group has beside them, in the order that it says. Every part begins at a
 * multiple of the alignment. Where K and V lie in two halves, the run of the V
 * half holds V only, and both are as long as the longer; a joined page has one run.
 */
#ifndef SWAKV_PAGE_SHAPE_H
#define SWAKV_PAGE_SHAPE_H

#include <stdbool.h>

#include "wire.h"

/* Bytes of one element of @dtype, an enum wire_dtype; 0: there is no such type. */
static inline uint32_t element_bytes(uint32_t dtype)
{
	switch (dtype) {
	case WIRE_F16:
	case WIRE_BF16:
		return 2;
	case WIRE_F32:
		return 4;
	case WIRE_FP8:
		return 1;
	default:
		return 0;
	}
}

/* All in bytes. */
struct page_shape {
	uint64_t k_row, v_row;       /* of one token and layer */
	uint64_t k_stride, v_stride; /* from one token to the next */
	uint64_t k_at, v_at,
		extra_at; /* of layer 0, from the start of its half of the page; of a joined one, of the page */
	uint64_t layer_stride;
	uint64_t page_bytes; /* one half of a page, all layers; of a joined page, all of it */
	bool joined;
};

/* True when a group says its bytes instead of its heads. */
static inline bool shape_is_raw(const struct wire_group *g)
{
	return g->k_bytes || g->v_bytes;
}

/* @n rows of @row bytes, made a multiple of @align; false: more than 64 bits count. */
static inline bool shape_part(uint64_t n, uint64_t row, uint64_t align, uint64_t *out)
{
	if (__builtin_mul_overflow(n, row, out) || *out > UINT64_MAX - align)
		return false;
	*out = (*out + align - 1) / align * align;
	return true;
}

/* K and V of one token and layer; false: more than 64 bits count. */
static inline bool shape_rows(const struct wire_group *g, uint64_t *k, uint64_t *v)
{
	uint64_t head = (uint64_t)g->kv_heads * element_bytes(g->dtype);

	*k = g->k_bytes;
	*v = g->v_bytes;
	return shape_is_raw(g) ||
	       (!__builtin_mul_overflow(head, g->k_head_dim, k) && !__builtin_mul_overflow(head, g->v_head_dim, v));
}

/* Lays the parts of a run one behind the other, in an order; false: more than 64 bits count. */
static inline bool shape_place(struct page_shape *out, uint32_t order, uint64_t k, uint64_t v, uint64_t extra)
{
	bool extra_first = order == WIRE_ORDER_EXTRA_K_V;

	out->extra_at = 0;
	out->k_at = extra_first ? extra : 0;
	if (__builtin_add_overflow(out->k_at, k, &out->v_at) ||
	    __builtin_add_overflow(out->v_at, v, &out->layer_stride))
		return false;
	if (extra_first)
		return true;
	out->extra_at = out->layer_stride;
	return !__builtin_add_overflow(out->layer_stride, extra, &out->layer_stride);
}

/* False, and *@out is of no use, when more than 64 bits count. What @g declares need not be possible otherwise. */
static inline bool shape_find(const struct wire_group *g, struct page_shape *out)
{
	bool joined = g->form == WIRE_JOINED, rows = joined && g->order == WIRE_ORDER_ROWS;
	uint64_t align = g->align ? g->align : 1, k, v, extra, row = 0;

	out->joined = joined;
	if (!shape_rows(g, &out->k_row, &out->v_row) || __builtin_add_overflow(out->k_row, out->v_row, &row))
		return false;
	out->k_stride = rows ? row : out->k_row;
	out->v_stride = rows ? row : out->v_row;
	if (!shape_part(g->page_tokens, out->k_stride, align, &k) ||
	    !shape_part(g->page_tokens, out->v_row, align, &v) || !shape_part(1, g->extra_bytes, align, &extra) ||
	    !shape_place(out, g->order, k, joined && !rows ? v : 0, extra))
		return false;
	if (rows)
		out->v_at = out->k_at + out->k_row;
	if (!joined)
		out->v_at = 0;
	if (!joined && out->layer_stride < v)
		out->layer_stride = v;
	return !__builtin_mul_overflow(out->layer_stride, (uint64_t)g->layers, &out->page_bytes);
}

/* Rows of ids that a slot has in its table: of K ids and of V ids, or of the ids of joined pages. */
static inline uint32_t shape_id_rows(bool joined)
{
	return joined ? 1 : 2;
}

#endif
