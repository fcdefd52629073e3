/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paging.h - from (slot, position, layer, head) to an address, for C and CUDA alike
 *
 * The one place of the address rule of kernels.h. Everything is widened before
 * it is multiplied: a pool is larger than 4 GiB. An id outside the pool is
 * treated as an empty entry, so a wrong table shows and reads nothing wild.
 */
#ifndef SWAKV_PAGING_H
#define SWAKV_PAGING_H

#include "kernels.h"

#ifdef __CUDACC__
#define PAGING_FN static __device__ __forceinline__
#else
#define PAGING_FN static inline
#endif

PAGING_FN uint64_t paging_element_bytes(const struct kernel_pages *g)
{
	return g->dtype == KERNEL_F32 ? 4 : g->dtype == KERNEL_FP8 ? 1 : 2;
}

/* Runs of bytes that a page has, and rows of ids that a slot has. */
PAGING_FN int32_t paging_halves(int32_t joined)
{
	return joined ? 1 : 2;
}

/* First byte of @half (0: K) of page @page. */
PAGING_FN uint64_t paging_half(const struct kernel_pages *g, int half, int32_t page)
{
	return g->half[half] + (uint64_t)page * g->page_stride;
}

/* Row of @slot: K ids, and in split pages `width` entries later the V ids. */
PAGING_FN const int32_t *paging_row(const struct kernel_pages *g, int32_t slot)
{
	return (const int32_t *)(uintptr_t)g->table + (int64_t)slot * paging_halves(g->joined) * g->width;
}

/*
 * Finds in which page K and V of logical page @column lie, both counted from 0.
 * False: the entry is empty (either half), no page of this pool, or beyond the row.
 */
PAGING_FN int paging_lookup(const struct kernel_pages *g, const int32_t *row, int64_t column, int32_t *k, int32_t *v)
{
	uint32_t n = (uint32_t)g->num_pages, first, second;

	if (column < 0 || column >= g->width)
		return 0;
	first = (uint32_t)row[column];
	second = g->joined ? first : (uint32_t)row[g->width + column] - n;
	*k = (int32_t)first;
	*v = (int32_t)second;
	return first < n && second < n;
}

/* Address of layer @layer of page @page; @base is that of page 0: k or v. */
PAGING_FN uint64_t paging_layer(const struct kernel_pages *g, uint64_t base, int32_t page, int32_t layer)
{
	return base + (uint64_t)page * g->page_stride + (uint64_t)layer * g->layer_stride;
}

/* Offsets in a layer of token @token's vectors of head @head. */
PAGING_FN uint64_t paging_k(const struct kernel_pages *g, int32_t token, int32_t head)
{
	return (uint64_t)token * g->k_token + (uint64_t)head * g->k_head;
}

PAGING_FN uint64_t paging_v(const struct kernel_pages *g, int32_t token, int32_t head)
{
	return (uint64_t)token * g->v_token + (uint64_t)head * g->v_head;
}

/* Offset in a page's scales of those of token @token: a float for each head; @v: of V, not of K. */
PAGING_FN uint64_t paging_scales(const struct kernel_pages *g, int v, int32_t token)
{
	return ((uint64_t)v * (uint64_t)g->page_tokens + (uint64_t)token) * (uint64_t)g->kv_heads * sizeof(float);
}

/* Bytes of a vector of @dim elements. */
PAGING_FN uint64_t paging_bytes(const struct kernel_pages *g, int32_t dim)
{
	return (uint64_t)dim * paging_element_bytes(g);
}

#endif
