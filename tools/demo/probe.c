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

/* A page holds its layers one behind another, a layer its tokens, a token its heads. */
uint64_t probe_address(const struct swakv_layout *l, const struct probe *p, int32_t page, bool v)
{
	uint64_t vector = (uint64_t)l->head_dim * l->element_bytes, token = vector * l->kv_heads;
	uint64_t address = v ? l->v_base : l->k_base;

	address += l->page_stride * ((uint64_t)page + (v ? (uint64_t)l->num_pages : 0));
	address += l->layer_stride * p->layer;
	address += token * (uint64_t)(p->position % l->page_tokens);
	return address + vector * p->head;
}

size_t probe_bytes(const struct swakv_layout *l)
{
	return (size_t)elements(l) * l->element_bytes;
}

bool probe_holds(const struct probe *p, const struct swakv_layout *l, const struct kvgen *gen, uint32_t first_layer,
		 bool v, const uint16_t *bits, uint32_t *wrong)
{
	const struct kvgen_at at = { v ? KVGEN_V : KVGEN_K, p->sequence, p->position, first_layer + p->layer, p->head };
	uint16_t want[PROBE_MAX_DIM];

	kvgen_bits(gen, at, elements(l), want);
	for (*wrong = 0; *wrong < elements(l); (*wrong)++)
		if (bits[*wrong] != want[*wrong])
			return false;
	return true;
}
