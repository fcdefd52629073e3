/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"
#include "paging.h"

void kernel_pages_rows(struct kernel_pages *g)
{
	g->k_head = paging_bytes(g, g->k_head_dim);
	g->v_head = paging_bytes(g, g->v_head_dim);
	g->k_token = (uint64_t)g->kv_heads * g->k_head;
	g->v_token = (uint64_t)g->kv_heads * g->v_head;
}
