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
	return g->dtype == KERNEL_F32 ? 4 : 2;
}

/* Row of @slot: K ids, and `width` entries later the V ids. */
PAGING_FN const int32_t *paging_row(const struct kernel_pages *g, int32_t slot)
{
	return (const int32_t *)(uintptr_t)g->table + (int64_t)slot * 2 * g->width;
}

/*
 * Finds the K and V page ids of logical page @column. False: the entry is empty
 * (either half), no page of this pool, or beyond the row.
 */
PAGING_FN int paging_lookup(const struct kernel_pages *g, const int32_t *row, int64_t column, int32_t *k, int32_t *v)
{
	if (column < 0 || column >= g->width)
		return 0;
	*k = row[column];
	*v = row[g->width + column];
	return *k >= 0 && *k < g->num_pages && *v >= g->num_pages && *v - g->num_pages < g->num_pages;
}

/* Address of layer @layer of page @page; @base is k_base for K ids, v_base for V ids. */
PAGING_FN uint64_t paging_layer(const struct kernel_pages *g, uint64_t base, int32_t page, int32_t layer)
{
	return base + (uint64_t)page * g->page_stride + (uint64_t)layer * g->layer_stride;
}

/* Offset in a layer of token @token's vector of head @head; @dim is k_head_dim or v_head_dim. */
PAGING_FN uint64_t paging_vector(const struct kernel_pages *g, int32_t token, int32_t head, int32_t dim)
{
	return ((uint64_t)token * (uint64_t)g->kv_heads + (uint64_t)head) * (uint64_t)dim * paging_element_bytes(g);
}

#endif
