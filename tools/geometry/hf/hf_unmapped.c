/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_unmapped.c - see hf_unmapped.h
 *
 * Two things tell: fields that mean another way to keep K and V, and the type,
 * since a short file may name nothing but that. A list that names each layer
 * says more than fields and types of models that mix layers with K and V and
 * others; hf_layers.c reads it.
 */
#include "hf_unmapped.h"

#include <stdio.h>
#include <string.h>

#include "hf_config.h"
#include "hf_families.h"

#define INDEXER "an indexer keeps keys of its own for each token"
#define STATE   "some layers keep a state instead of K and V"
#define CROSS   "a decoder that also reads an encoder's K and V"

static const struct {
	const char *field;
	const char *what;
	bool by_list; /* a list of layers, where it is there, says better */
} fields[] = {
	{ "compress_ratios", "K and V are compressed over several tokens", false },
	{ "compress_rates", "K and V are compressed over several tokens", false },
	{ "o_lora_rank", "K and V are one latent vector a token, compressed in part", false },
	{ "index_topk", INDEXER, false },
	{ "indexer_budget", INDEXER, false },
	{ "sparse_attention_config", INDEXER, false },
	{ "sparse_config", "keys of several tokens together are kept beside K and V", false },
	{ "dense_attention_every_n_layers", "the other layers attend to blocks far apart, which no window does",
	  false },
	{ "is_encoder_decoder", CROSS, false },
	{ "add_cross_attention", CROSS, false },
	{ "cross_attention_layers", "some layers keep K and V of images, not of tokens", false },
	{ "cross_layer_interval", "some layers keep K and V of images, not of tokens", false },
	{ "total_ut_steps", "layers run more than once for a token, and keep K and V each time", false },
	{ "n_recurrent_loops", "layers run more than once for a token, and keep K and V each time", false },
	{ "full_attention_interval", "most layers keep a state instead of K and V (linear attention)", true },
	{ "linear_attn_config", "some layers keep a state instead of K and V (linear attention)", true },
	{ "layer_group_size", "most layers keep a state instead of K and V (linear attention)", true },
	{ "attn_layer_period", STATE, true },
	{ "attn_layer_indices", STATE, true },
	{ "hybrid_layer_ids", STATE, true },
	{ "block_types", STATE, true },
	{ "mb_per_layer", STATE, true },
	{ "mamba_d_state", STATE, true },
	{ "mamba_d_conv", STATE, true },
	{ "mamba_step", STATE, true },
	{ "ssm_state_size", STATE, true },
	{ "state_size", STATE, true },
	{ "lru_width", STATE, true },
};

/* Fields that name each layer. */
static const char *const lists[] = { "layer_types",
				     "layers_block_type",
				     "hybrid_layer_pattern",
				     "hybrid_override_pattern",
				     "attn_type_list",
				     "full_attn_idxs",
				     NULL };

static const char *type_keeps(enum hf_family family)
{
	switch (family) {
	case HF_ENCODER:
		return "an encoder, which reads all tokens at once and keeps no K and V";
	case HF_CROSS:
		return CROSS;
	case HF_STATE:
		return "a state is kept instead of K and V";
	case HF_HYBRID:
		return STATE;
	case HF_INDEXED:
		return INDEXER;
	case HF_COMPRESSED:
		return "K and V are compressed over several tokens";
	case HF_LOOPED:
		return "layers run more than once for a token, and keep K and V each time";
	case HF_OTHER:
		return "what it keeps is no K and V of each token and layer";
	default:
		return NULL;
	}
}

static bool says_false(const struct hf_json *j, const char *field)
{
	return json_is_false(hf_json_field(j, field));
}

/* What the type keeps does not count where the file says that it is off, or made otherwise. */
static bool overruled(const struct hf_json *j, enum hf_family family)
{
	switch (family) {
	case HF_ENCODER:
		return hf_json_says(j, "is_decoder");
	case HF_HYBRID:
		return hf_json_name(j, lists);
	case HF_LOOPED: /* of hrm_text: num_hidden_layers counts the runs then */
		return hf_json_says(j, "num_layers_per_stack");
	default:
		return false;
	}
}

static int refuse_type(const struct hf_json *j, const char *type)
{
	enum hf_family family = hf_family_of(type);
	const char *keeps = type_keeps(family);

	if (!keeps || overruled(j, family))
		return 0;
	return hf_json_say(j, HF_UNMAPPABLE, "%smodel_type is \"%s\": %s", j->path, type, keeps);
}

static int refuse_field(const struct hf_json *j, const char *field, const char *what)
{
	char text[64];

	return hf_json_say(j, HF_UNMAPPABLE, "%s%s is %s: %s", j->path, field,
			   hf_json_text(hf_json_field(j, field), text, sizeof(text)), what);
}

/* Fields that say something, and nothing that matters. */
static bool is_off(const struct hf_json *j, const char *field)
{
	return (strcmp(field, "n_recurrent_loops") == 0 || strcmp(field, "total_ut_steps") == 0) &&
	       json_integer_value(hf_json_field(j, field)) == 1;
}

static int refuse_fields(const struct hf_json *j)
{
	bool list = hf_json_name(j, lists);

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if ((fields[i].by_list && list) || !hf_json_says(j, fields[i].field))
			continue;
		if (is_off(j, fields[i].field))
			continue;
		return refuse_field(j, fields[i].field, fields[i].what);
	}
	return 0;
}

/* Some files of sliding windows carry a chunk size as well: there the layers' own list counts. */
static int refuse_chunks(const struct hf_json *j, const struct hf_defaults *d)
{
	static const char what[] = "attention in chunks forgets a whole chunk at a time, which no sliding window does";

	if (hf_json_name(j, lists))
		return 0;
	if (hf_json_says(j, "attention_chunk_size"))
		return refuse_field(j, "attention_chunk_size", what);
	if (d->chunk && !json_object_get(j->object, "attention_chunk_size"))
		return hf_json_say(j, HF_UNMAPPABLE, "%sattention_chunk_size is that of its type: %s", j->path, what);
	return 0;
}

/* True when an architecture's name ends with @end. */
static bool is_built_for(const struct hf_json *j, const char *end)
{
	const json_t *list = hf_json_field(j, "architectures"), *entry;
	size_t i, n = strlen(end);

	json_array_foreach(list, i, entry)
	{
		const char *name = json_string_value(entry);

		if (name && strlen(name) >= n && strcmp(name + strlen(name) - n, end) == 0)
			return true;
	}
	return false;
}

static int refuse_both_ways(const struct hf_json *j, const char *outer)
{
	static const char what[] = "tokens read later ones, nothing slides, and no K and V are kept";
	const json_t *both = hf_json_field(j, "use_bidirectional_attention");
	bool prefix = outer && strcmp(outer, "paligemma") == 0; /* of the prompt alone */

	if ((json_is_true(both) && !prefix) || (json_is_string(both) && strcmp(json_string_value(both), "all") == 0))
		return refuse_field(j, "use_bidirectional_attention", what);
	return says_false(j, "is_causal") ? refuse_field(j, "is_causal", what) : 0;
}

/* Of a type that is not known: what it was built for, or what it reads, tells an encoder. */
static int refuse_unknown_encoder(const struct hf_json *j, const struct hf_json *file)
{
	static const char *const built_for[] = {
		"ForMaskedLM", "ForImageClassification", "ForObjectDetection",     "ForCTC",
		"VisionModel", "ForAudioClassification", "ForSemanticSegmentation"
	};
	static const char *const reads[] = { "image_size", "patch_size", "num_mel_bins", "num_channels", NULL };

	for (size_t i = 0; i < sizeof(built_for) / sizeof(built_for[0]); i++)
		if (is_built_for(file, built_for[i]))
			return refuse_field(file, "architectures", type_keeps(HF_ENCODER));
	if (hf_json_name(j, reads) && !hf_json_field(j, "vocab_size") && !hf_json_field(j, "max_position_embeddings"))
		return refuse_field(j, hf_json_name(j, reads), type_keeps(HF_ENCODER));
	return 0;
}

int hf_unmapped_refuse(const struct hf_json *j, const struct hf_json *file, const char *model_type,
		       const struct hf_defaults *d)
{
	const char *outer = json_string_value(hf_json_field(file, "model_type"));
	enum hf_family family = hf_family_of(model_type);
	int r;

	if (family == HF_STATE)
		return refuse_type(j, model_type);
	if (json_object_get(j->object, "ssm_cfg")) /* empty in the first files of Mamba, which have no type */
		return refuse_field(j, "ssm_cfg", type_keeps(HF_STATE));
	if (is_built_for(file, "EncoderModel")) /* the encoder alone of a model with both */
		return refuse_field(file, "architectures", type_keeps(HF_ENCODER));
	if ((r = refuse_fields(j)) || (r = refuse_chunks(j, d)) || (r = refuse_both_ways(j, outer)) ||
	    (r = refuse_type(j, model_type)))
		return r;
	if (j->object != file->object && hf_json_says(file, "is_encoder_decoder"))
		return refuse_field(file, "is_encoder_decoder", CROSS);
	if (family != HF_UNKNOWN)
		return 0;
	r = outer ? refuse_type(file, outer) : 0;
	return r ? r : refuse_unknown_encoder(j, file);
}
