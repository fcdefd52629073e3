/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "kernels.h"
#include "paging.h"

static void fill_bytes(uint64_t address, uint64_t bytes, uint16_t pattern)
{
	unsigned char *p = (unsigned char *)(uintptr_t)address;
	uint64_t head = address % 2 < bytes ? address % 2 : bytes, words = (bytes - head) / sizeof(pattern);

	if (head)
		p[0] = (unsigned char)(pattern >> 8);
	for (uint64_t i = 0; i < words; i++)
		memcpy(p + head + i * sizeof(pattern), &pattern, sizeof(pattern));
	if (head + words * sizeof(pattern) < bytes)
		p[bytes - 1] = (unsigned char)pattern;
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

	for (int32_t i = 0; i < p->n_pages; i++)
		for (int half = 0; half < paging_halves(g->joined); half++)
			fill_bytes(paging_half(g, half, list[i]), g->page_stride, p->pattern);
}
