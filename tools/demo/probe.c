/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

static uint32_t elements(const struct swakv_layout *l)
{
	return l->head_dim < PROBE_MAX_DIM ? l->head_dim : PROBE_MAX_DIM;
}

struct probe probe_choose(const struct swakv_layout *l, uint64_t sequence, int64_t endpoint, uint64_t nth)
{
	int64_t held = l->kind == SWAKV_SLIDING && l->window < endpoint ? l->window : endpoint;
	uint64_t x = (nth + 1) * 0x9e3779b97f4a7c15ull;

	return (struct probe){
		.sequence = sequence,
		.position = endpoint - held + (int64_t)((x >> 16) % (uint64_t)held),
		.layer = (uint32_t)((x >> 8) % l->layers),
		.head = (uint32_t)((x >> 40) % l->kv_heads),
	};
}

int32_t probe_column(const struct swakv_layout *l, const struct probe *p)
{
	return (int32_t)(p->position / l->page_tokens);
}

/*
 * A page holds its layers one behind another, a layer its tokens, a token its heads. The V of a joined page's layer
 * lies behind its K.
 */
uint64_t probe_address(const struct swakv_layout *l, const struct probe *p, int32_t page, bool v)
{
	uint64_t vector = (uint64_t)l->head_dim * l->element_bytes, token = vector * l->kv_heads;
	bool joined = l->form == SWAKV_JOINED;
	uint64_t address = v && !joined ? l->v_base : l->k_base;

	address += l->page_stride * ((uint64_t)page + (v && !joined ? (uint64_t)l->num_pages : 0));
	address += l->layer_stride * p->layer + (v && joined ? token * l->page_tokens : 0);
	address += token * (uint64_t)(p->position % l->page_tokens);
	return address + vector * p->head;
}

/* Behind the K of a layer, and the V of a joined page's: of K, then of V, a float for each token and head. */
uint64_t probe_scale_address(const struct swakv_layout *l, const struct probe *p, int32_t page, bool v)
{
	uint64_t vectors = (uint64_t)l->page_tokens * l->kv_heads, token = (uint64_t)(p->position % l->page_tokens);
	uint64_t address = l->k_base + l->page_stride * (uint64_t)page + l->layer_stride * p->layer;

	address += vectors * l->head_dim * l->element_bytes * (l->form == SWAKV_JOINED ? 2 : 1);
	return address + ((v ? vectors : 0) + token * l->kv_heads + p->head) * sizeof(float);
}

size_t probe_bytes(const struct swakv_layout *l)
{
	return (size_t)elements(l) * l->element_bytes;
}

bool probe_holds(const struct probe *p, const struct swakv_layout *l, const struct kvgen *gen, uint32_t first_layer,
		 bool v, const void *bits, float scale, uint32_t *wrong)
{
	const struct kvgen_at at = { v ? KVGEN_V : KVGEN_K, p->sequence, p->position, first_layer + p->layer, p->head };
	unsigned char want[PROBE_MAX_DIM * sizeof(uint16_t)];

	kvgen_bits(gen, at, elements(l), want);
	for (*wrong = 0; *wrong < probe_bytes(l); (*wrong)++)
		if (((const unsigned char *)bits)[*wrong] != want[*wrong])
			return false;
	return gen->dtype != KVGEN_FP8 || scale == kvgen_scale(gen, at);
}
