/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_geometry.c - config.json files of models, and the sizes that follow from them
 *
 * The input is either the file itself or a choice of fields and values to make
 * one of. A file is refused with a sentence, or leads to groups that cover the
 * layers and to sizes within their bounds.
 */
#include "input.h"
#include "print.h"
#include "sizes.h"

enum { TEXT_SIZE = 8192 };

static const char *const fields[] = { "num_hidden_layers",
				      "num_attention_heads",
				      "num_key_value_heads",
				      "hidden_size",
				      "head_dim",
				      "v_head_dim",
				      "sliding_window",
				      "sliding_window_size",
				      "use_sliding_window",
				      "sliding_window_pattern",
				      "max_window_layers",
				      "layer_types",
				      "hybrid_layer_pattern",
				      "num_kv_shared_layers",
				      "swa_num_key_value_heads",
				      "swa_head_dim",
				      "swa_v_head_dim",
				      "global_head_dim",
				      "num_global_key_value_heads",
				      "attention_k_eq_v",
				      "attention_chunk_size",
				      "kv_lora_rank",
				      "qk_rope_head_dim",
				      "use_mla",
				      "use_cla",
				      "cla_share_factor",
				      "model_type",
				      "torch_dtype",
				      "dtype",
				      "max_position_embeddings",
				      "use_bidirectional_attention",
				      "num_kv_heads",
				      "multi_query",
				      "multi_query_group_num",
				      "kv_channels",
				      "hidden_dim",
				      "n_embd",
				      "attention_types",
				      "attn_type_list",
				      "full_attn_idxs",
				      "hybrid_override_pattern",
				      "layers_block_type",
				      "per_layer_config",
				      "attn_config",
				      "attention_other_setting",
				      "global_attn_every_n_layers",
				      "local_attention",
				      "no_rope_layers",
				      "num_nextn_predict_layers",
				      "quantization_config",
				      "architectures",
				      "window_pattern",
				      "is_decoder" };
static const char *const values[] = {
	"0",
	"1",
	"2",
	"3",
	"4",
	"128",
	"2047",
	"4096",
	"-1",
	"1.5",
	"2147483647",
	"2147483648",
	"1e3",
	"null",
	"true",
	"false",
	"\"\"",
	"\"LLLG\"",
	"\"LG\"",
	"\"bfloat16\"",
	"\"float32\"",
	"\"float8_e4m3fn\"",
	"\"gemma4_text\"",
	"\"gemma3n_text\"",
	"\"qwen2\"",
	"\"mistral\"",
	"\"all\"",
	"[]",
	"{}",
	"[0,1,1,0]",
	"[0,0]",
	"[\"full_attention\",\"sliding_attention\"]",
	"[\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"full_attention\"]",
	"[\"chunked_attention\",\"mamba\"]",
	"9223372036854775807",
	"8192",
	"NaN",
	"-Infinity",
	"\"gpt_neo\"",
	"\"mimo_v2_flash\"",
	"\"deepseek_v3\"",
	"\"longcat_flash\"",
	"\"falcon\"",
	"\"smollm3\"",
	"\"cohere2\"",
	"\"bert\"",
	"\"M*-E\"",
	"{\"1\":{\"head_dim\":64,\"sliding_window\":32}}",
	"{\"00\":{\"num_key_value_heads\":2}}",
	"{\"kv_n_heads\":2,\"attn_type\":\"multiquery_attention\"}",
	"[[[\"global\",\"local\"],2]]",
	"[64,null]",
	"[\"attention\",\"mlp\"]",
	"{\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"float\"}}",
	"[\"XForMaskedLM\"]"
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Makes a file of the input's choices; some lie in an object of their own. Returns its length. */
static size_t make_text(char *text, struct input *in)
{
	bool inner = input_u8(in) & 1;
	size_t len = (size_t)sprintf(text, "%s\"num_hidden_layers\": %u, \"num_attention_heads\": 8, \"head_dim\": 64",
				     inner ? "{\"text_config\": {" : "{", 1 + input_u8(in) % 8u);
	bool used[N(fields)] = { true };

	while (in->left > 0 && len < TEXT_SIZE - 256) {
		size_t f = input_u8(in) % N(fields), v = input_u8(in) % N(values);

		if (used[f] || f == 1 || f == 4)
			continue;
		used[f] = true;
		len += (size_t)sprintf(text + len, ", \"%s\": %s", fields[f], values[v]);
	}
	return len + (size_t)sprintf(text + len, inner ? "}}" : "}");
}

static void check_config(const struct hf_config *c)
{
	uint32_t layers = 0;

	FUZZ_CHECK(c->layers >= 1 && c->layers <= HF_MAX_LAYERS && c->shared < c->layers && c->without < c->layers);
	FUZZ_CHECK(c->n_groups >= 1 && c->n_groups <= N(c->groups) && c->n_notes <= HF_MAX_NOTES);
	FUZZ_CHECK(c->max_seq >= 0 && c->max_seq <= INT32_MAX);
	for (uint32_t i = 0; i < c->n_groups; i++) {
		const struct wire_group *s = &c->groups[i].shape;

		layers += s->layers;
		FUZZ_CHECK(s->kind == WIRE_GROUP_SLIDING ? s->window >= 1 && s->window <= INT32_MAX
							 : s->kind == WIRE_GROUP_FULL && s->window == 0);
		FUZZ_CHECK(hf_dtype_name(c->dtype) && hf_dtype_find(hf_dtype_name(c->dtype)) == c->dtype);
		FUZZ_CHECK(s->layers >= 1 && !s->kv_heads == (c->latent > 0));
		if (c->latent) {
			FUZZ_CHECK(s->k_bytes >= c->latent && s->k_bytes <= 1 << 19 && !s->v_bytes && !s->dtype);
			FUZZ_CHECK(memchr(s->tag, 0, sizeof(s->tag)));
			continue;
		}
		FUZZ_CHECK(s->k_head_dim >= 1 && s->v_head_dim >= 1 && s->dtype == c->dtype);
		FUZZ_CHECK(s->kv_heads <= 4096 && s->k_head_dim <= 8192 && s->v_head_dim <= 8192);
	}
	FUZZ_CHECK(layers >= c->layers - c->shared - c->without && layers <= c->layers - c->shared);
}

static void check_sizes(const struct sizes *z)
{
	FUZZ_CHECK(z->n_groups >= 1 && z->n_groups <= WIRE_MAX_GROUPS);
	for (uint32_t i = 0; i < z->n_groups; i++) {
		const struct group_sizes *g = &z->groups[i];

		FUZZ_CHECK(g->page.bytes > 0 && g->page.bytes <= 1ull << 48 &&
			   (g->width >= 1) == (z->options.max_seq > 0));
		FUZZ_CHECK(g->token_bytes * g->shape.page_tokens + g->padding == page_key_whole(g->page));
		FUZZ_CHECK(!z->options.largest_page || g->page.bytes <= z->options.largest_page);
	}
	for (uint32_t i = 0; i < z->options.n_rules; i++) {
		FUZZ_CHECK(z->rules[i].bytes > 0 && z->rules[i].fit >= 0);
		for (uint32_t k = 0; k < z->n_groups; k++)
			FUZZ_CHECK(z->rules[i].pages[k] >= 1 && z->rules[i].pages[k] <= z->groups[k].width);
		FUZZ_CHECK((unsigned __int128)z->rules[i].bytes * (uint64_t)z->rules[i].fit <= z->options.pool);
	}
}

static void print(const struct hf_config *c, const struct sizes *z)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	FUZZ_CHECK(out);
	print_text(out, "config.json", c, z);
	print_json(out, "config\xff.json", c, z);
	FUZZ_CHECK(fclose(out) == 0 && size > 0);
	free(text);
}

static struct sizes_options make_options(struct input *in)
{
	uint32_t flags = input_u8(in);
	struct sizes_options o = { .page_tokens = 16u << (flags & 3), .n_rules = 2 };

	o.max_seq = flags & 4 ? 1 + input_u32(in) % INT32_MAX : 0;
	o.pool = flags & 8 ? (1 + (uint64_t)input_u32(in)) << (input_u8(in) % 31) : 0;
	o.extent = flags & 16 ? 1 + input_u32(in) : 0;
	o.largest_page = flags & 32 ? 1 + (uint64_t)input_u32(in) : 0;
	o.rules[1] = (struct rule){ 1 + input_u32(in) % INT32_MAX, 1 + input_u8(in), input_u16(in) };
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct hf_config c;
	static struct sizes z;
	struct input in = { data, size };
	char text[TEXT_SIZE], why[HF_WHY] = "";
	uint8_t how = input_u8(&in);
	struct sizes_options o = make_options(&in);
	size_t len;
	int r;

	if (how & 1) {
		len = make_text(text, &in);
	} else {
		len = in.left < TEXT_SIZE ? in.left : TEXT_SIZE;
		input_bytes(&in, text, len);
	}
	r = hf_config_parse(&c, text, len, "config.json", how & 2 ? WIRE_FP8 : 0, why, sizeof(why));
	if (r == 0) {
		check_config(&c);
		r = sizes_make(&z, &c, &o, why, sizeof(why));
	}
	FUZZ_CHECK(r == 0 || r == HF_BAD || r == HF_UNMAPPABLE);
	FUZZ_CHECK((r == 0) == (why[0] == '\0') && memchr(why, '\0', sizeof(why)));
	if (r == 0) {
		check_sizes(&z);
		print(&c, &z);
	}
	return 0;
}
