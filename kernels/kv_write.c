/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels.h"
#include "paging.h"

/* The heads of a token lie side by side at @from, and @stride bytes apart at @to. */
static void write_heads(uint64_t to, uint64_t stride, uint64_t from, uint64_t bytes, int32_t n)
{
	for (int32_t head = 0; head < n; head++)
		memcpy((char *)(uintptr_t)to + (uint64_t)head * stride,
		       (const char *)(uintptr_t)from + (uint64_t)head * bytes, bytes);
}

/* @scales: of the token's page and layer; @first: of the token in the sources. */
static void write_scales(const struct kernel_kv_write *p, uint64_t scales, int32_t token, uint64_t first)
{
	const struct kernel_pages *g = &p->pages;
	size_t bytes = (size_t)g->kv_heads * sizeof(float);

	memcpy((char *)(uintptr_t)(scales + paging_scales(g, 0, token)), (const float *)(uintptr_t)p->k_scales + first,
	       bytes);
	memcpy((char *)(uintptr_t)(scales + paging_scales(g, 1, token)), (const float *)(uintptr_t)p->v_scales + first,
	       bytes);
}

void kernel_kv_write_cpu(const struct kernel_kv_write *p)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *slots = (const int32_t *)(uintptr_t)p->slots;
	const int64_t *positions = (const int64_t *)(uintptr_t)p->positions;
	uint64_t k_bytes = paging_bytes(g, g->k_head_dim), v_bytes = paging_bytes(g, g->v_head_dim);

	for (int32_t i = 0; i < p->n_tokens; i++) {
		uint64_t first = (uint64_t)i * (uint64_t)g->kv_heads;
		int32_t token, k, v;

		if (slots[i] < 0 || positions[i] < 0 ||
		    !paging_lookup(g, paging_row(g, slots[i]), positions[i] / g->page_tokens, &k, &v))
			continue;
		token = (int32_t)(positions[i] % g->page_tokens);
		write_heads(paging_layer(g, g->k, k, p->layer) + paging_k(g, token, 0), g->k_head,
			    p->k + first * k_bytes, k_bytes, g->kv_heads);
		write_heads(paging_layer(g, g->v, v, p->layer) + paging_v(g, token, 0), g->v_head,
			    p->v + first * v_bytes, v_bytes, g->kv_heads);
		if (g->dtype == KERNEL_FP8)
			write_scales(p, paging_layer(g, g->scales, k, p->layer), token, first);
	}
}
