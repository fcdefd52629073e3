/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_lists.c - see hf_lists.h
 *
 * The first that is there counts: names (layer_types, layers_block_type, of
 * gpt_neo attention_layers and attention_types), numbers (hybrid_layer_pattern,
 * attn_type_list), letters (hybrid_override_pattern), indices (full_attn_idxs).
 * A layer that keeps a state instead of K and V refuses the file.
 */
#include "hf_lists.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEEPS_STATE 0xff /* beside enum wire_group_kind */

static const struct {
	const char *name;
	uint8_t kind;
} kinds[] = {
	{ "full_attention", WIRE_GROUP_FULL },
	{ "attention", WIRE_GROUP_FULL },
	{ "global", WIRE_GROUP_FULL },
	{ "sliding_attention", WIRE_GROUP_SLIDING },
	{ "local", WIRE_GROUP_SLIDING },
	{ "mlp", HF_KEEPS_NOTHING },
	{ "moe", HF_KEEPS_NOTHING },
	{ "linear_attention", KEEPS_STATE },
	{ "mamba", KEEPS_STATE },
	{ "mamba2", KEEPS_STATE },
	{ "conv", KEEPS_STATE },
	{ "recurrent", KEEPS_STATE },
	{ "hybrid", KEEPS_STATE }, /* beside K and V */
	{ "hybrid_sliding", KEEPS_STATE },
};

int hf_lists_refuse(const struct hf_json *j, int code, const char *field, size_t i, const json_t *value,
		    const char *what)
{
	char text[64];

	return hf_json_say(j, code, "%s%s[%zu] is %s, %s", j->path, field, i, hf_json_text(value, text, sizeof(text)),
			   what);
}

const json_t *hf_lists_of_layers(const struct hf_json *j, const char *field, uint32_t layers)
{
	const json_t *list = hf_json_field(j, field);
	json_int_t more = json_integer_value(hf_json_field(j, "num_nextn_predict_layers"));
	size_t n = json_array_size(list);
	char expected[64];

	if (json_is_array(list) && (n == layers || (more > 0 && n == layers + (size_t)more)))
		return list;
	if (json_is_array(list)) {
		hf_json_say(j, HF_BAD, "%s%s has %zu entries, but num_hidden_layers is %" PRIu32, j->path, field, n,
			    layers);
		return NULL;
	}
	snprintf(expected, sizeof(expected), "a list with one entry for each of the %" PRIu32 " layers", layers);
	hf_json_refuse(j, field, list, expected);
	return NULL;
}

/* The first of @n layers that keeps a state, and how many do, refuse the file. */
static int refuse_states(const struct hf_layers *l, uint32_t n, const struct hf_json *j, const char *field,
			 const char *what)
{
	uint32_t first = n, states = 0;

	for (uint32_t i = n; i-- > 0;)
		if (l->layer[i].kind == KEEPS_STATE) {
			first = i;
			states++;
		}
	if (!states)
		return 0;
	return hf_json_say(j, HF_UNMAPPABLE,
			   "%s%s[%" PRIu32 "] is %s: %" PRIu32 " of %" PRIu32 " layers keep a state%s K and V", j->path,
			   field, first, what, states, n, strstr(what, "hybrid") ? " beside" : " instead of");
}

static int read_name(struct hf_layer *layer, const struct hf_json *j, const char *field, size_t i, const json_t *entry)
{
	const char *name = json_string_value(entry);

	if (!name)
		return hf_lists_refuse(j, HF_BAD, field, i, entry, "expected the name of an attention");
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (strcmp(kinds[k].name, name) == 0) {
			layer->kind = kinds[k].kind;
			return 0;
		}
	return hf_lists_refuse(j, HF_UNMAPPABLE, field, i, entry,
			       strcmp(name, "chunked_attention") == 0
				       ? "which forgets whole chunks at a time: no sliding window"
				       : "a layer without K and V pages that slide or are full");
}

static int read_names(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	const json_t *list = hf_lists_of_layers(j, field, c->layers);
	char text[64] = "";
	int r = list ? 0 : HF_BAD;

	for (uint32_t i = 0; r == 0 && i < c->layers; i++) {
		const json_t *entry = json_array_get(list, i);

		r = read_name(&l->layer[i], j, field, i, entry);
		if (r == 0 && l->layer[i].kind == KEEPS_STATE && !text[0])
			hf_json_text(entry, text, sizeof(text));
	}
	return r ? r : refuse_states(l, c->layers, j, field, text);
}

/* 0 or 1 for each layer: kinds @zero and @one. */
static int read_bits(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field,
		     uint8_t zero, uint8_t one, const char *expected)
{
	const json_t *list = hf_lists_of_layers(j, field, c->layers);

	if (!list)
		return HF_BAD;
	for (uint32_t i = 0; i < c->layers; i++) {
		const json_t *entry = json_array_get(list, i);

		if (!json_is_integer(entry) || json_integer_value(entry) < 0 || json_integer_value(entry) > 1)
			return hf_lists_refuse(j, HF_BAD, field, i, entry, expected);
		l->layer[i].kind = json_integer_value(entry) ? one : zero;
	}
	return refuse_states(l, c->layers, j, field, "0 (linear attention)");
}

/* A letter for each layer. */
static int read_letters(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	const json_t *value = hf_json_field(j, field);
	const char *letters = json_string_value(value);

	if (!letters || strspn(letters, "M*-E") != strlen(letters))
		return hf_json_refuse(j, field, value, "letters M (a state), * (attention), - and E (neither)");
	if (strlen(letters) != c->layers)
		return hf_json_say(j, HF_BAD, "%s%s has %zu letters, but num_hidden_layers is %" PRIu32, j->path, field,
				   strlen(letters), c->layers);
	for (uint32_t i = 0; i < c->layers; i++)
		l->layer[i].kind = letters[i] == 'M'   ? KEEPS_STATE
				   : letters[i] == '*' ? WIRE_GROUP_FULL
						       : HF_KEEPS_NOTHING;
	return refuse_states(l, c->layers, j, field, "M");
}

/* Indices of the full layers; the others are convolutions. */
static int read_indices(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	const json_t *list = hf_json_field(j, field), *entry;
	uint32_t full = 0;
	size_t i;

	if (!json_is_array(list))
		return hf_json_refuse(j, field, list, "a list of layers");
	json_array_foreach(list, i, entry)
	{
		if (!json_is_integer(entry) || json_integer_value(entry) < 0 || json_integer_value(entry) >= c->layers)
			return hf_lists_refuse(j, HF_BAD, field, i, entry, "expected a layer, counted from 0");
		l->layer[json_integer_value(entry)].kind = WIRE_GROUP_FULL;
	}
	for (uint32_t k = 0; k < c->layers; k++)
		full += l->layer[k].kind == WIRE_GROUP_FULL;
	if (full == c->layers)
		return 0;
	return hf_json_say(j, HF_UNMAPPABLE,
			   "%s%s names %" PRIu32 " of %" PRIu32
			   " layers: the others are convolutions, which keep a state instead of K and V",
			   j->path, field, full, c->layers);
}

/* [[["global", "local"], 12]]: the names in order, so many times. */
static int read_repeats(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	static const char expected[] =
		"pairs of names (global, local) and a count that make as many as there are layers";
	const json_t *list = hf_json_field(j, field), *pair, *name;
	size_t i, k, n = 0;

	json_array_foreach(list, i, pair)
	{
		const json_t *names = json_array_get(pair, 0);
		json_int_t times = json_integer_value(json_array_get(pair, 1));

		for (json_int_t t = 0; t < times && n <= c->layers && json_array_size(names); t++)
			json_array_foreach(names, k, name)
			{
				if (n < c->layers && read_name(&l->layer[n], j, field, i, name))
					return HF_UNMAPPABLE;
				n++;
			}
	}
	return n == c->layers ? 0 : hf_json_refuse(j, field, list, expected);
}

int hf_lists_read(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, bool *found)
{
	static const char *const names[] = { "layer_types", "layers_block_type", "attention_layers", NULL };
	const char *name = hf_json_name(j, names);

	*found = true;
	if (name)
		return read_names(l, c, j, name);
	if (hf_json_field(j, "hybrid_layer_pattern"))
		return read_bits(l, c, j, "hybrid_layer_pattern", WIRE_GROUP_FULL, WIRE_GROUP_SLIDING,
				 "expected 0 (full) or 1 (sliding)");
	if (hf_json_field(j, "attn_type_list"))
		return read_bits(l, c, j, "attn_type_list", KEEPS_STATE, WIRE_GROUP_FULL,
				 "expected 0 (linear) or 1 (full)");
	if (hf_json_field(j, "hybrid_override_pattern"))
		return read_letters(l, c, j, "hybrid_override_pattern");
	if (hf_json_field(j, "full_attn_idxs"))
		return read_indices(l, c, j, "full_attn_idxs");
	if (hf_json_field(j, "attention_types"))
		return read_repeats(l, c, j, "attention_types");
	*found = false;
	return 0;
}
