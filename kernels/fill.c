/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "kernels.h"
#include "paging.h"

static void fill_page(uint64_t address, uint64_t bytes, uint16_t pattern)
{
	uint16_t *p = (uint16_t *)(uintptr_t)address;

	for (uint64_t i = 0; i < bytes / sizeof(*p); i++)
		p[i] = pattern;
}

_Static_assert(offsetof(struct kernel_scrub, list[KERNEL_SCRUB_FEW]) <= 4096 && sizeof(struct kernel_scrub) <= 32764,
	       "a scrub launch must fit the kernel parameters");

void kernel_scrub_cpu(const struct kernel_scrub *p)
{
	const struct kernel_fill fill = { .pages = p->pages,
					  .page_list = (uint64_t)(uintptr_t)p->list,
					  .n_pages = p->n_pages };

	kernel_fill_cpu(&fill);
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
