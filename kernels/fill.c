/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "paging.h"

static void fill_page(uint64_t address, uint64_t bytes, uint16_t pattern)
{
	uint16_t *p = (uint16_t *)(uintptr_t)address;

	for (uint64_t i = 0; i < bytes / sizeof(*p); i++)
		p[i] = pattern;
}

void kernel_fill_cpu(const struct kernel_fill *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *list = (const int32_t *)(uintptr_t)p->page_list;

	for (int32_t i = 0; i < p->n_pages; i++) {
		fill_page(paging_layer(g, g->k_base, list[i], 0), g->page_stride, p->pattern);
		fill_page(paging_layer(g, g->v_base, list[i] + g->num_pages, 0), g->page_stride, p->pattern);
	}
}
