/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels.h"
#include "paging.h"

void kernel_kv_write_cpu(const struct kernel_kv_write *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *slots = (const int32_t *)(uintptr_t)p->slots;
	const int64_t *positions = (const int64_t *)(uintptr_t)p->positions;
	/* All heads of a token lie side by side, in the source and in the page. */
	uint64_t k_bytes = paging_vector(g, 1, 0, g->k_head_dim);
	uint64_t v_bytes = paging_vector(g, 1, 0, g->v_head_dim);

	for (int32_t i = 0; i < p->n_tokens; i++) {
		int32_t token, k, v;

		if (slots[i] < 0 || positions[i] < 0 ||
		    !paging_lookup(g, paging_row(g, slots[i]), positions[i] / g->page_tokens, &k, &v))
			continue;
		token = (int32_t)(positions[i] % g->page_tokens);
		memcpy((char *)(uintptr_t)(paging_layer(g, g->k_base, k, p->layer) + (uint64_t)token * k_bytes),
		       (const char *)(uintptr_t)p->k + (uint64_t)i * k_bytes, k_bytes);
		memcpy((char *)(uintptr_t)(paging_layer(g, g->v_base, v, p->layer) + (uint64_t)token * v_bytes),
		       (const char *)(uintptr_t)p->v + (uint64_t)i * v_bytes, v_bytes);
	}
}
