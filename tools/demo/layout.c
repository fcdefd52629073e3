/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <stdbool.h>

#define SCALES_ALIGN 16 /* bytes; also that of vectors which begin behind them */

/* A float for each token and head, of K and of V. */
static uint32_t scales_bytes(const struct preset *p, const struct preset_group *g)
{
	return p->dtype == SWAKV_FP8 ? 2 * p->page_tokens * g->kv_heads * (uint32_t)sizeof(float) : 0;
}

struct swakv_group layout_declare(const struct preset *p, uint32_t group)
{
	const struct preset_group *g = &p->groups[group];
	uint32_t scales = scales_bytes(p, g);

	return (struct swakv_group){
		.size = sizeof(struct swakv_group),
		.kind = g->window ? SWAKV_SLIDING : SWAKV_FULL,
		.window = g->window,
		.page_tokens = p->page_tokens,
		.layers = g->layers,
		.kv_heads = g->kv_heads,
		.head_dim = g->head_dim,
		.dtype = p->dtype,
		.form = p->form,
		.extra_bytes = scales,
		.align = scales ? SCALES_ALIGN : 0,
		.tag = scales ? "e4m3, f32 a token and head" : NULL,
	};
}

static bool within(uint64_t at, uint64_t bytes, uint64_t from, uint64_t size)
{
	return at >= from && bytes <= size && at - from <= size - bytes;
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static const char *shape_fault(const struct swakv_layout *l, const struct preset *p, const struct preset_group *g)
{
	uint32_t vector = g->head_dim * preset_element_bytes(p);
	uint64_t k = (uint64_t)p->page_tokens * g->kv_heads * vector, v = p->form == SWAKV_JOINED ? k : 0;

	if (l->kind != (g->window ? SWAKV_SLIDING : SWAKV_FULL) || l->window != g->window ||
	    l->page_tokens != p->page_tokens || l->layers != g->layers || l->kv_heads != g->kv_heads ||
	    l->head_dim != g->head_dim || l->v_head_dim != g->head_dim || l->dtype != p->dtype || l->form != p->form ||
	    l->element_bytes != preset_element_bytes(p) || l->extra_bytes != scales_bytes(p, g))
		return "the geometry is not the declared one";
	if (l->k_token_stride < (uint64_t)g->kv_heads * vector || l->v_token_stride < (uint64_t)g->kv_heads * vector ||
	    l->layer_stride < k + v + l->extra_bytes || l->page_stride < l->layer_stride * g->layers)
		return "the strides are too small";
	return NULL;
}

const char *layout_fault(const struct swakv_layout *l, const struct preset *p, uint32_t group,
			 const struct swakv_session_info *info, uint32_t max_batch, int64_t max_seq)
{
	uint64_t pages = (uint64_t)l->num_pages * l->page_stride, pool = info->pool_device, size = info->pool_bytes;
	uint64_t table = (uint64_t)max_batch * layout_id_rows(l) * (uint64_t)l->width * sizeof(int32_t);
	const char *fault = shape_fault(l, p, &p->groups[group]);

	if (fault)
		return fault;
	if (l->num_pages <= 0 || l->width <= 0 || (int64_t)l->width * l->page_tokens < max_seq)
		return "the table is too narrow for max_seq";
	if (!within(l->first_page, pages, pool, size) || !within(l->table, table, pool, size))
		return "pages or table lie outside the pool";
	if (overlap(l->table, table, l->first_page, pages))
		return "pages and table overlap";
	if (l->form == SWAKV_JOINED)
		return NULL;
	if (!within(l->v_first, pages, pool, size))
		return "V pages lie outside the pool";
	if (overlap(l->first_page, pages, l->v_first, pages) || overlap(l->table, table, l->v_first, pages))
		return "K pages, V pages and table overlap";
	return NULL;
}

static int32_t kernel_dtype(enum swakv_dtype dtype)
{
	return dtype == SWAKV_FP8 ? KERNEL_FP8 : dtype == SWAKV_F16 ? KERNEL_F16 : KERNEL_BF16;
}

struct kernel_pages layout_pages(const struct swakv_layout *l)
{
	return (struct kernel_pages){
		.table = l->table,
		.half = { l->first_page, l->form == SWAKV_JOINED ? 0 : l->v_first },
		.k = l->k_base,
		.v = l->v_first,
		.scales = l->extra_first,
		.page_stride = l->page_stride,
		.layer_stride = l->layer_stride,
		.k_token = l->k_token_stride,
		.v_token = l->v_token_stride,
		.k_head = (uint64_t)l->head_dim * l->element_bytes,
		.v_head = (uint64_t)l->v_head_dim * l->element_bytes,
		.width = l->width,
		.num_pages = l->num_pages,
		.page_tokens = (int32_t)l->page_tokens,
		.kv_heads = (int32_t)l->kv_heads,
		.k_head_dim = (int32_t)l->head_dim,
		.v_head_dim = (int32_t)l->v_head_dim,
		.dtype = kernel_dtype(l->dtype),
		.joined = l->form == SWAKV_JOINED,
	};
}
