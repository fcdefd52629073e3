/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_blocks.h"

#include <inttypes.h>
#include <stdio.h>

#include "hf_lists.h"

/* The attention of block @i, with its path for sentences. False with the sentence. */
static bool find_attention(struct hf_json *out, const struct hf_json *j, const json_t *list, uint32_t i)
{
	*out = *j;
	out->object = json_object_get(json_array_get(list, i), "attention");
	snprintf(out->path, sizeof(out->path), "%.40sblock_configs[%" PRIu32 "].attention.", j->path, i);
	if (json_is_object(out->object))
		return true;
	hf_lists_refuse(j, HF_BAD, "block_configs", i, json_array_get(list, i), "expected an object with an attention");
	return false;
}

static int read_block(struct hf_layer *layer, const struct hf_json *block)
{
	bool none = false, linear = false;
	int64_t window = 0;
	int r;

	if ((r = hf_json_bool(block, "no_op", &none)) || (r = hf_json_bool(block, "replace_with_linear", &linear)) ||
	    (r = hf_json_count(block, "window_length", INT32_MAX, &window)))
		return r;
	if (hf_json_says(block, "num_sink_tokens") || hf_json_says(block, "sparsify"))
		return hf_json_say(block, HF_UNMAPPABLE,
				   "%snum_sink_tokens: tokens far behind the window are kept, too", block->path);
	layer->kind = none || linear ? HF_KEEPS_NOTHING : window ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
	layer->window = (int32_t)window;
	return 0;
}

int hf_blocks_read(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, bool *found)
{
	const json_t *list = hf_json_field(j, "block_configs");
	struct hf_json block;
	int r = 0;

	*found = hf_json_says(j, "block_configs");
	if (!*found)
		return 0;
	list = hf_lists_of_layers(j, "block_configs", c->layers);
	for (uint32_t i = 0; list && r == 0 && i < c->layers; i++)
		r = find_attention(&block, j, list, i) ? read_block(&l->layer[i], &block) : HF_BAD;
	return list ? r : HF_BAD;
}

int hf_blocks_read_heads(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, int64_t heads)
{
	const json_t *list = hf_json_field(j, "block_configs");
	struct hf_json block;

	for (uint32_t i = 0; i < c->layers && hf_json_says(j, "block_configs"); i++) {
		int64_t in_group = 0, kv = 0;
		int r;

		if (l->layer[i].kind == HF_KEEPS_NOTHING)
			continue;
		if (!find_attention(&block, j, list, i))
			return HF_BAD;
		if ((r = hf_json_count(&block, "n_heads_in_group", UINT16_MAX, &in_group)) ||
		    (r = hf_json_count(&block, "num_key_value_heads", UINT16_MAX, &kv)))
			return r;
		if (!kv && in_group && heads >= in_group)
			kv = heads / in_group;
		if (!kv)
			return hf_json_say(&block, HF_BAD,
					   "%sn_heads_in_group is missing, or more than the %" PRId64 " heads",
					   block.path, heads);
		l->layer[i].kv_heads = (uint16_t)kv;
	}
	return 0;
}
