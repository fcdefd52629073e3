/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels.h"
#include "paging.h"

void kernel_copy_cpu(const struct kernel_copy *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *from = (const int32_t *)(uintptr_t)p->from_list, *to = (const int32_t *)(uintptr_t)p->to_list;

	for (int32_t i = 0; i < p->n_pages; i++) {
		memcpy((void *)(uintptr_t)paging_layer(g, g->k_base, to[i], 0),
		       (const void *)(uintptr_t)paging_layer(g, g->k_base, from[i], 0), g->page_stride);
		memcpy((void *)(uintptr_t)paging_layer(g, g->v_base, to[i] + g->num_pages, 0),
		       (const void *)(uintptr_t)paging_layer(g, g->v_base, from[i] + g->num_pages, 0), g->page_stride);
	}
}
