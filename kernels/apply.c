/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "kernels.h"
#include "paging.h"

_Static_assert(offsetof(struct kernel_apply, updates[KERNEL_APPLY_MAX]) <= 4096 && sizeof(struct kernel_apply) <= 32764,
	       "an apply launch must fit the kernel parameters");

void kernel_apply_cpu(const struct kernel_apply *p)
{
	int32_t *table = (int32_t *)(uintptr_t)p->table;

	for (uint32_t i = 0; i < p->n_updates; i++) {
		int64_t row = p->updates[i].cell / (uint32_t)p->width;
		int64_t column = p->updates[i].cell % (uint32_t)p->width;
		int32_t page = p->updates[i].page;
		int32_t *k = table + row * paging_halves((int32_t)p->joined) * p->width + column;

		k[0] = page;
		if (!p->joined)
			k[p->width] = page < 0 ? -1 : page + p->num_pages;
	}
}

void kernel_count_cpu(const struct kernel_count *p)
{
	uint64_t *counter = (uint64_t *)(uintptr_t)p->counter;

	*counter += 1;
	__atomic_store_n((uint64_t *)(uintptr_t)p->word, *counter, __ATOMIC_RELEASE);
}
