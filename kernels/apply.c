/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "kernels.h"

_Static_assert(offsetof(struct kernel_apply, updates[KERNEL_APPLY_MAX]) <= 4096 && sizeof(struct kernel_apply) <= 32764,
	       "an apply launch must fit the kernel parameters");

void kernel_apply_cpu(const struct kernel_apply *p)
{
	int32_t *table = (int32_t *)(uintptr_t)p->table;

	for (uint32_t i = 0; i < p->n_updates; i++) {
		int64_t row = p->updates[i].cell / (uint32_t)p->width;
		int64_t column = p->updates[i].cell % (uint32_t)p->width;
		int32_t page = p->updates[i].page;
		int32_t *k = table + row * 2 * p->width + column;

		k[0] = page;
		k[p->width] = page < 0 ? -1 : page + p->num_pages;
	}
}

void kernel_apply_ring_cpu(const struct kernel_apply_ring *p)
{
	uint64_t step = *(const uint64_t *)(uintptr_t)p->counter + 1;
	const struct kernel_ring_buffer *b =
		(const struct kernel_ring_buffer *)(uintptr_t)p->ring + step % p->n_buffers;
	struct kernel_apply apply = { .table = p->table, .width = p->width, .num_pages = p->num_pages };

	if (__atomic_load_n(&b->step, __ATOMIC_ACQUIRE) != step)
		return;
	apply.n_updates = b->n_updates;
	memcpy(apply.updates, b->updates, apply.n_updates * sizeof(apply.updates[0]));
	kernel_apply_cpu(&apply);
}

void kernel_count_cpu(const struct kernel_count *p)
{
	uint64_t *counter = (uint64_t *)(uintptr_t)p->counter;

	*counter += 1;
	__atomic_store_n((uint64_t *)(uintptr_t)p->word, *counter, __ATOMIC_RELEASE);
}
