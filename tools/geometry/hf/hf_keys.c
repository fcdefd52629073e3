/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_keys.c - see hf_keys.h
 *
 * Models find new ways to say which layers slide and what heads they have. A
 * key that may be one is refused rather than overlooked.
 */
#include "hf_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "hf_config.h"

/* Parts of the names of such keys. */
static const char *const heads_or_windows[] = {
	"window",
	"sliding",
	"swa_",
	"_swa",
	"kv_",
	"_kv",
	"key_value",
	"head_dim",
	"head_size",
	"shared_head",
	"attention_heads",
	"attn_heads",
	"query_heads",
	"query_group",
	"attn_group",
	"attention_group",
	"cross_att",
	"cla_",
	"reuse",
	"layer_shar",
	"share_layer",
	"loop",
	"sink_token",
	"sink_size",
	"attention_chunk",
	"attn_chunk",
	"local_att",
	"attn_cfg",
	"attention_cfg",
	"attn_config",
	"attention_config",
};
/* Those that do not count beside a list that names each layer. */
static const char *const layouts[] = {
	"layer_type", "attn_type",     "attention_type", "layer_pattern", "attn_pattern", "attention_pattern",
	"block_type", "block_pattern", "every_n",        "attn_layer",    "attn_idx",     "attention_layer",
	"full_att",   "global_att",    "global_layer",   "local_layer",   "linear_att",   "mamba",
	"ssm_",       "recurrent",     "rwkv",           "deltanet",      "delta_net",    "hybrid",
	"retention",  "sparse_att",    "blocksparse",    "block_sparse",  "compress",     "indexer",
	"index_head", "index_n_heads", "index_topk",     "lru_",          "conv_l",
};
/* Of parts that keep no K and V for the tokens of the model itself. */
static const char *const elsewhere[] = { "vision", "visual", "image",   "audio",  "video", "projector",
					 "mtp",    "nextn",  "draft",   "expert", "moe",   "mlp",
					 "rope",   "rotary", "linear_", "mamba_", "index_" };
/* How many of the last three are elsewhere only beside a list that names each layer. */
enum { OF_OTHER_LAYERS = 3 };

static const struct {
	const char *key;
	const char *type; /* in which it is understood, NULL: any */
} known[] = {
	{ "sliding_window", NULL },
	{ "sliding_window_size", NULL },
	{ "use_sliding_window", NULL },
	{ "max_window_layers", NULL },
	{ "sliding_window_pattern", NULL },
	{ "_sliding_window_pattern", NULL },
	{ "context_window", NULL },
	{ "context_window_size", NULL },
	{ "full_attn_mod", "phi3" }, /* with a window above the longest sequence */
	{ "layer_types", NULL },
	{ "layers_block_type", NULL },
	{ "hybrid_layer_pattern", NULL },
	{ "hybrid_override_pattern", NULL },
	{ "attn_type_list", NULL },
	{ "full_attn_idxs", NULL },
	{ "num_attention_heads", NULL },
	{ "num_query_heads", NULL },
	{ "attention_heads", NULL },
	{ "num_attention_heads_per_layer", NULL }, /* of queries */
	{ "num_key_value_heads", NULL },
	{ "num_key_value_heads_per_layer", NULL },
	{ "num_kv_heads", NULL },
	{ "n_head_kv", NULL },
	{ "n_kv_heads", NULL },
	{ "kv_n_heads", NULL },
	{ "kv_heads", NULL },
	{ "attention_kv_heads", NULL },
	{ "num_attention_groups", NULL },
	{ "num_query_groups", NULL },
	{ "multi_query_group_num", NULL },
	{ "group_query_attention", NULL },
	{ "n_shared_head", NULL },
	{ "num_global_key_value_heads", NULL },
	{ "num_kv_shared_layers", NULL },
	{ "swa_num_key_value_heads", NULL },
	{ "swa_num_attention_heads", NULL },
	{ "swa_head_dim", NULL },
	{ "swa_v_head_dim", NULL },
	{ "global_head_dim", NULL },
	{ "head_dim", NULL },
	{ "kv_channels", NULL },
	{ "attention_head_dim", NULL },
	{ "d_kv", NULL },
	{ "v_head_dim", NULL },
	{ "num_sliding_attention_heads", NULL },
	{ "kv_cache_dtype", NULL },
	{ "compression_config", NULL },
	{ "add_swa_attention_sink_bias", NULL }, /* of the scores alone */
	{ "add_full_attention_sink_bias", NULL },
	{ "dual_chunk_attention_config", NULL }, /* all tokens are kept */
	{ "cla_share_factor", NULL },
	{ "dim_head", NULL },
	{ "attention_head_size", NULL },
	{ "head_size", NULL },
	{ "attn_type", "mpt" },
	{ "attention_chunk_size", NULL },
	{ "attn_config", NULL },
	{ "conv_L_cache", "lfm2_moe" },
	{ "conv_L_cache", "lfm2" }, /* full_attn_idxs says which layers have it */
	{ "attention_other_setting", "step3p5" },
	{ "global_attn_every_n_layers", "afmoe" },
	{ "global_attn_every_n_layers", "modernbert-decoder" },
	{ "local_attention", "modernbert-decoder" },
	{ "keep_window_size", "doge" }, /* a mask; all tokens are kept */
	{ "window_size", "gpt_neo" },
	{ "attention_types", "gpt_neo" },
	{ "attention_layers", "gpt_neo" },
	{ "prefix_dense_sliding_window_pattern", "cohere2_moe" },
	{ "index_n_heads", "minimax_m3_vl_text" },
	{ "index_head_dim", "minimax_m3_vl_text" },
	{ "index_topk_blocks", "minimax_m3_vl_text" },
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

static bool has_any(const char *name, const char *const parts[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

/* Understood where the model keeps a latent row, or says that it does not. */
static const char *const latent_keys[] = { "kv_lora_rank", "qk_nope_head_dim", "qk_head_dim", "mla_scale_kv_lora" };

static bool is_known(const char *key, const char *model_type, bool latent)
{
	for (size_t i = 0; latent && i < N(latent_keys); i++)
		if (strcmp(latent_keys[i], key) == 0)
			return true;
	for (size_t i = 0; i < N(known); i++)
		if (strcmp(known[i].key, key) == 0 && (!known[i].type || strcmp(known[i].type, model_type) == 0))
			return true;
	return false;
}

/* In small letters; "qkv" says nothing of K and V alone. */
static void fold(const char *key, char *out, size_t size)
{
	size_t n = 0;

	for (; *key && n + 1 < size; key++) {
		if (strncmp(key, "qkv", 3) == 0)
			key += 2;
		out[n++] = (char)tolower((unsigned char)*key);
	}
	out[n] = '\0';
}

static bool is_strange(const char *key, const char *model_type, bool latent, bool list)
{
	char name[96];

	fold(key, name, sizeof(name));
	for (const char *p = key; *p; p++)
		if (!isprint((unsigned char)*p)) /* such keys are nobody's, and would harm a terminal */
			return false;
	return (has_any(name, heads_or_windows, N(heads_or_windows)) ||
		(!list && has_any(name, layouts, N(layouts)))) &&
	       !has_any(name, elsewhere, N(elsewhere) - (list ? 0 : OF_OTHER_LAYERS)) &&
	       !is_known(key, model_type, latent);
}

/* What the key says is more than nothing, or -1 for nothing. */
static bool says(const struct hf_json *j, const char *key)
{
	return hf_json_says(j, key) && json_number_value(hf_json_field(j, key)) >= 0;
}

int hf_keys_refuse(const struct hf_json *j, const char *model_type, bool latent)
{
	static const char *const lists[] = { "layer_types",          "layers_block_type",
					     "hybrid_layer_pattern", "hybrid_override_pattern",
					     "attn_type_list",       NULL };
	bool list = hf_json_name(j, lists);
	json_t *object = (json_t *)j->object; /* jansson's iterators take no const */
	struct hf_json inner;
	char text[64];
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value)
	{
		if (says(j, key) && is_strange(key, model_type, latent, list))
			return hf_json_say(j, HF_UNMAPPABLE, "%s%s is %s: a key of attention that is not understood",
					   j->path, key, hf_json_text(value, text, sizeof(text)));
	}
	return hf_json_inner(&inner, j, "attn_config") ? hf_keys_refuse(&inner, model_type, false) : 0;
}
