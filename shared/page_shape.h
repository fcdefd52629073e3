/* SPDX-License-Identifier: Apache-2.0 */
/* page_shape.h - how many bytes a page of a layer group has (spec section 1) */
#ifndef SWAKV_PAGE_SHAPE_H
#define SWAKV_PAGE_SHAPE_H

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

/* Elements of K, or of V, of one token and head in memory: the larger of the two. */
static inline uint32_t shape_head_elements(const struct wire_group *g)
{
	return g->k_head_dim > g->v_head_dim ? g->k_head_dim : g->v_head_dim;
}

/* Bytes from one layer of a page's K (or V) to the next; 0: more than 64 bits count. */
static inline uint64_t shape_layer_stride(const struct wire_group *g)
{
	uint64_t bytes = (uint64_t)g->page_tokens * element_bytes(g->dtype);

	if (__builtin_mul_overflow(bytes, g->kv_heads, &bytes) ||
	    __builtin_mul_overflow(bytes, shape_head_elements(g), &bytes))
		return 0;
	return bytes;
}

/* Bytes of a page's K (or V), all layers; 0: more than 64 bits count. */
static inline uint64_t shape_page_bytes(const struct wire_group *g)
{
	uint64_t bytes;

	return __builtin_mul_overflow(shape_layer_stride(g), (uint64_t)g->layers, &bytes) ? 0 : bytes;
}

#endif
