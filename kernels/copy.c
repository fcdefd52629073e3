/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels.h"
#include "paging.h"

void kernel_copy_cpu(const struct kernel_copy *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *from = (const int32_t *)(uintptr_t)p->from_list, *to = (const int32_t *)(uintptr_t)p->to_list;

	for (int32_t i = 0; i < p->n_pages; i++)
		for (int half = 0; half < paging_halves(g->joined); half++)
			memcpy((void *)(uintptr_t)paging_half(g, half, to[i]),
			       (const void *)(uintptr_t)paging_half(g, half, from[i]), g->page_stride);
}
