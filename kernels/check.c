/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "paging.h"

static uint32_t differences(uint64_t address, uint64_t bytes, uint16_t pattern)
{
	const uint16_t *p = (const uint16_t *)(uintptr_t)address;
	uint32_t n = 0;

	for (uint64_t i = 0; i < bytes / sizeof(*p); i++)
		n += p[i] != pattern;
	return n;
}

void kernel_check_cpu(const struct kernel_check *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *list = (const int32_t *)(uintptr_t)p->page_list;
	const uint16_t *patterns = (const uint16_t *)(uintptr_t)p->patterns;
	uint32_t *counts = (uint32_t *)(uintptr_t)p->counts;

	for (int32_t i = 0; i < p->n_pages; i++)
		counts[i] +=
			differences(paging_layer(g, g->k_base, list[i], 0), g->page_stride, patterns[i]) +
			differences(paging_layer(g, g->v_base, list[i] + g->num_pages, 0), g->page_stride, patterns[i]);
}
