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
		for (int half = 0; half < paging_halves(g->joined); half++)
			counts[i] += differences(paging_half(g, half, list[i]), g->page_stride, patterns[i]);
}
