/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h */
#include "layout.h"

#include "page_shape.h"
#include "wire.h"

struct swakv_layout layout_derive(const struct wire_welcome *w, uint32_t group, const struct wire_group *g,
				  uint64_t pool, const void *host_tables)
{
	const struct wire_layout *l = &w->layouts[group];
	const unsigned char *host = host_tables;
	struct page_shape shape;

	(void)shape_find(g, &shape); /* of what the broker has taken */
	return (struct swakv_layout){
		.k_base = pool + l->k_base,
		.v_base = pool + l->v_base,
		.table = pool + w->tables[group].device_offset,
		.page_stride = l->page_stride,
		.layer_stride = l->layer_stride,
		.num_pages = l->num_pages,
		.width = l->width,
		.private_pages = l->private_pages,
		.page_tokens = g->page_tokens,
		.layers = g->layers,
		.kv_heads = g->kv_heads,
		.head_dim = g->k_head_dim,
		.v_head_dim = g->v_head_dim,
		.element_bytes = element_bytes(g->dtype),
		.kind = (enum swakv_group_kind)g->kind,
		.window = g->window,
		.wide_offsets = l->flags & WIRE_LAYOUT_WIDE,
		.dtype = (enum swakv_dtype)g->dtype,
		.host_table = (const int32_t *)(const void *)(host + w->tables[group].host_offset),
		.first_page = pool + l->base,
		.v_first = shape.v_row ? pool + l->v_first : 0,
		.extra_first = g->extra_bytes ? pool + l->extra_first : 0,
		.k_token_stride = l->k_token_stride,
		.v_token_stride = l->v_token_stride,
		.k_bytes = (uint32_t)shape.k_row,
		.v_bytes = (uint32_t)shape.v_row,
		.extra_bytes = g->extra_bytes,
		.align = g->align ? g->align : 1,
		.form = (enum swakv_form)g->form,
		.order = (enum swakv_order)g->order,
		.tag = g->tag,
	};
}
