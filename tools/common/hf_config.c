/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_config.c - see hf_config.h
 *
 * What describes the language model may lie in an object of the file. Fields
 * that mean another way to keep K and V refuse the file: its numbers would be
 * read as heads and windows that the model does not have.
 */
#include "hf_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "hf_layers.h"

/* Of the engine's models (model.c there). */
#define MAX_HEAD_DIM 8192
#define MAX_HEADS    4096
#define MAX_HIDDEN   ((int64_t)1 << 31)

static const char *const dtypes[] = {
	[WIRE_F16] = "f16", [WIRE_BF16] = "bf16", [WIRE_F32] = "f32", [WIRE_FP8] = "fp8"
};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

const char *hf_dtype_name(uint32_t dtype)
{
	return dtype < N_DTYPES ? dtypes[dtype] : NULL;
}

uint32_t hf_dtype_find(const char *name)
{
	for (uint32_t i = 1; i < N_DTYPES; i++)
		if (strcmp(dtypes[i], name) == 0)
			return i;
	return 0;
}

/* ---- what cannot be mapped ---------------------------------------------- */

static const struct {
	const char *field;
	const char *what;
	bool by_layer_types; /* layer_types, where it is there, says better */
} unmappable[] = {
	{ "kv_lora_rank", "K and V are one latent vector a token (MLA), not heads of K and of V", false },
	{ "compress_ratios", "K and V are compressed over several tokens", false },
	{ "o_lora_rank", "K and V are one latent vector a token, compressed in part", false },
	{ "index_topk", "an indexer keeps keys of its own for each token", false },
	{ "sparse_attention_config", "an indexer keeps keys of its own for each token", false },
	{ "per_layer_config", "layers have shapes of their own", false },
	{ "block_configs", "layers have shapes of their own", false },
	{ "use_cla", "layers share K and V in a way this tool does not know", false },
	{ "is_encoder_decoder", "a decoder that also reads an encoder's K and V", false },
	{ "cross_attention_layers", "some layers keep K and V of images, not of tokens", false },
	{ "full_attention_interval", "most layers keep a state instead of K and V (linear attention)", true },
	{ "linear_attn_config", "some layers keep a state instead of K and V (linear attention)", true },
	{ "hybrid_override_pattern", "some layers keep a state instead of K and V", true },
	{ "layers_block_type", "some layers keep a state instead of K and V", true },
	{ "attn_layer_period", "some layers keep a state instead of K and V", true },
	{ "attn_layer_indices", "some layers keep a state instead of K and V", true },
	{ "attn_type_list", "some layers keep a state instead of K and V (linear attention)", true },
	{ "block_types", "some layers keep a state instead of K and V", true },
	{ "mamba_d_state", "some layers keep a state instead of K and V", true },
	{ "ssm_state_size", "some layers keep a state instead of K and V", true },
};

static int refuse_unmappable(const struct hf_json *j, const struct hf_defaults *d)
{
	bool types = hf_json_field(j, "layer_types") || hf_json_field(j, "hybrid_layer_pattern");
	bool chunks = json_object_get(j->object, "attention_chunk_size") ? hf_json_says(j, "attention_chunk_size")
									 : d->chunk > 0;
	char text[64];

	for (size_t i = 0; i < sizeof(unmappable) / sizeof(unmappable[0]); i++)
		if (!(unmappable[i].by_layer_types && types) && hf_json_says(j, unmappable[i].field))
			return hf_json_say(j, HF_UNMAPPABLE, "%s%s is %s: %s", j->path, unmappable[i].field,
					   hf_json_text(hf_json_field(j, unmappable[i].field), text, sizeof(text)),
					   unmappable[i].what);
	/* Some files of sliding windows carry a chunk size as well: there the layers' own list counts. */
	if (chunks && !types)
		return hf_json_say(j, HF_UNMAPPABLE,
				   "%sattention_chunk_size is %s: attention in chunks forgets a whole chunk at a time, "
				   "which no sliding window does",
				   j->path,
				   hf_json_field(j, "attention_chunk_size")
					   ? hf_json_text(hf_json_field(j, "attention_chunk_size"), text, sizeof(text))
					   : "that of its type");
	return 0;
}

/* ---- heads -------------------------------------------------------------- */

struct heads {
	int64_t kv, k_dim, v_dim;
};

/* Of the layers that have no fields of their own. */
static int read_heads(struct heads *out, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t heads = d->heads, hidden = 0;
	int r;

	*out = (struct heads){ .kv = d->kv_heads, .k_dim = d->head_dim };
	if ((r = hf_json_count(j, "num_attention_heads", MAX_HEADS, &heads)) ||
	    (r = hf_json_count(j, "num_key_value_heads", MAX_HEADS, &out->kv)) ||
	    (r = hf_json_count(j, "hidden_size", MAX_HIDDEN, &hidden)) ||
	    (r = hf_json_count(j, "head_dim", MAX_HEAD_DIM, &out->k_dim)))
		return r;
	if (!out->kv)
		out->kv = heads;
	if (!out->kv)
		return hf_json_say(j, HF_BAD, "%snum_key_value_heads and num_attention_heads are missing", j->path);
	if (!out->k_dim) {
		if (!heads || !hidden)
			return hf_json_say(j, HF_BAD, "%shead_dim is missing, and so is %s to compute it", j->path,
					   heads ? "hidden_size" : "num_attention_heads");
		if (hidden % heads || hidden / heads > MAX_HEAD_DIM)
			return hf_json_say(j, HF_BAD,
					   "%shead_dim is missing, and hidden_size %" PRId64
					   " over num_attention_heads %" PRId64 " is no head dimension up to %d",
					   j->path, hidden, heads, MAX_HEAD_DIM);
		out->k_dim = hidden / heads;
	}
	out->v_dim = out->k_dim;
	return hf_json_count(j, "v_head_dim", MAX_HEAD_DIM, &out->v_dim);
}

/* Fields that hold for sliding layers only. */
static int read_sliding_heads(struct heads *h, const struct hf_json *j)
{
	int r;

	if ((r = hf_json_count(j, "swa_num_key_value_heads", MAX_HEADS, &h->kv)) ||
	    (r = hf_json_count(j, "swa_head_dim", MAX_HEAD_DIM, &h->k_dim)))
		return r;
	if (hf_json_field(j, "swa_head_dim") && !hf_json_field(j, "v_head_dim"))
		h->v_dim = h->k_dim;
	return hf_json_count(j, "swa_v_head_dim", MAX_HEAD_DIM, &h->v_dim);
}

/* Fields that hold for full layers only. */
static int read_full_heads(struct heads *h, bool *k_is_v, struct hf_config *c, const struct hf_json *j,
			   const struct hf_defaults *d)
{
	int64_t dim = d->full_head_dim;
	bool own_heads = true;
	int r;

	*k_is_v = false;
	if ((r = hf_json_bool(j, "attention_k_eq_v", k_is_v)) ||
	    (r = hf_json_count(j, "global_head_dim", MAX_HEAD_DIM, &dim)))
		return r;
	if (dim)
		h->k_dim = h->v_dim = dim;
	/* Where the file says that V is not made of K, these heads are not in use. */
	if (hf_json_field(j, "attention_k_eq_v"))
		own_heads = *k_is_v;
	if (own_heads)
		return hf_json_count(j, "num_global_key_value_heads", MAX_HEADS, &h->kv);
	if (hf_json_field(j, "num_global_key_value_heads"))
		hf_note(c, "num_global_key_value_heads is not in use (attention_k_eq_v is false)");
	return 0;
}

/* ---- groups ------------------------------------------------------------- */

static int read_dtype_of(const struct hf_json *j, const char *field, struct hf_config *c, uint32_t *dtype)
{
	static const struct {
		const char *name;
		uint32_t dtype;
	} names[] = {
		{ "bfloat16", WIRE_BF16 },   { "float16", WIRE_F16 }, { "half", WIRE_F16 },
		{ "float32", WIRE_F32 },     { "float", WIRE_F32 },   { "float8_e4m3fn", WIRE_FP8 },
		{ "float8_e5m2", WIRE_FP8 },
	};
	char name[32] = "";
	int r = hf_json_string(j, field, name, sizeof(name));

	if (r || !name[0] || strcmp(name, "auto") == 0)
		return r;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(strncmp(name, "torch.", 6) ? name : name + 6, names[i].name) == 0)
			*dtype = names[i].dtype;
	return *dtype ? 0
		      : hf_json_say(j, HF_UNMAPPABLE,
				    "%s%s is \"%s\": pages hold f16, bf16, f32 or fp8 (choose one with --dtype)",
				    j->path, field, name);
}

/* Of the model's object first, then of the file's. */
static int read_dtype(const struct hf_json *j, const struct hf_json *file, struct hf_config *c, uint32_t *dtype)
{
	const struct hf_json *objects[] = { j, file };
	static const char *const fields[] = { "dtype", "torch_dtype" };
	int r;

	for (int i = 0; i < 4 && !*dtype; i++)
		if ((r = read_dtype_of(objects[i / 2], fields[i % 2], c, dtype)))
			return r;
	if (!*dtype) {
		*dtype = WIRE_BF16;
		hf_note(c, "the file names no dtype: taken as bf16");
	}
	return 0;
}

/* The group of kind @kind, made when it is new. */
static struct hf_group *group_of(struct hf_config *c, uint32_t kind, uint32_t layer)
{
	for (uint32_t i = 0; i < c->n_groups; i++)
		if (c->groups[i].shape.kind == kind)
			return &c->groups[i];
	c->groups[c->n_groups] = (struct hf_group){ .shape.kind = kind, .first_layer = layer };
	return &c->groups[c->n_groups++];
}

static void shape_group(struct hf_group *g, const struct heads *h, uint32_t dtype)
{
	g->shape.kv_heads = (uint32_t)h->kv;
	g->shape.k_head_dim = (uint32_t)h->k_dim;
	g->shape.v_head_dim = (uint32_t)h->v_dim;
	g->shape.dtype = dtype;
}

static int read_groups(struct hf_config *c, const struct hf_layers *l, const struct hf_json *j,
		       const struct hf_defaults *d, uint32_t dtype)
{
	struct heads heads, own;
	int r = read_heads(&heads, j, d);

	for (uint32_t i = 0; i < c->layers - c->shared; i++)
		group_of(c, l->kind[i], i)->shape.layers++;
	for (uint32_t i = 0; r == 0 && i < c->n_groups; i++) {
		struct hf_group *g = &c->groups[i];

		own = heads;
		if (g->shape.kind == WIRE_GROUP_SLIDING) {
			g->shape.window = l->window;
			r = read_sliding_heads(&own, j);
		} else {
			r = read_full_heads(&own, &g->k_is_v, c, j, d);
		}
		shape_group(g, &own, dtype);
	}
	return r;
}

/* ---- the file ----------------------------------------------------------- */

/* From the file's object to that of the language model. */
static int find_model(struct hf_json *j)
{
	static const char *const names[] = { "text_config", "language_config", "llm_config", "thinker_config" };

	for (int depth = 0; depth < 3; depth++) {
		const json_t *inner = NULL;
		const char *name = NULL;

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !inner; i++)
			if ((inner = hf_json_field(j, names[i])))
				name = names[i];
		if (!inner)
			return 0;
		if (!json_is_object(inner))
			return hf_json_refuse(j, name, inner, "an object");
		/* Some files say all of it twice, and less of it inside. */
		if (!json_object_get(inner, "num_hidden_layers") && hf_json_field(j, "num_hidden_layers"))
			return 0;
		strlcat(j->path, name, sizeof(j->path));
		strlcat(j->path, ".", sizeof(j->path));
		j->object = inner;
	}
	return 0;
}

static int read_model(struct hf_config *c, const struct hf_json *file, uint32_t dtype)
{
	static const struct hf_layers no_layers;
	struct hf_layers l = no_layers;
	const struct hf_defaults *d;
	struct hf_json j = *file;
	char direction[32] = "";
	int r;

	if ((r = find_model(&j)) || (r = hf_json_string(&j, "model_type", c->model_type, sizeof(c->model_type))))
		return r;
	d = hf_defaults_of(c->model_type);
	if ((r = refuse_unmappable(&j, d)))
		return r;
	if (json_is_string(hf_json_field(&j, "use_bidirectional_attention")) &&
	    (r = hf_json_string(&j, "use_bidirectional_attention", direction, sizeof(direction))))
		return r;
	if (strcmp(direction, "all") == 0)
		return hf_json_say(&j, HF_UNMAPPABLE,
				   "%suse_bidirectional_attention is \"all\": tokens read later ones, nothing slides",
				   j.path);
	c->max_seq = d->max_seq;
	if ((r = hf_layers_read(&l, c, &j, d)) || (r = read_dtype(&j, file, c, &dtype)) ||
	    (r = hf_json_count(&j, "max_position_embeddings", INT32_MAX, &c->max_seq)))
		return r;
	return read_groups(c, &l, &j, d, dtype);
}

/* The reader's sentence quotes the file: no control character of it goes on. */
static int refuse_text(const struct hf_json *file, const json_error_t *e)
{
	char text[JSON_ERROR_TEXT_LENGTH];

	strlcpy(text, e->text, sizeof(text));
	for (char *p = text; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = '?';
	return hf_json_say(file, HF_BAD, "no JSON: %s (line %d, column %d)", text, e->line, e->column);
}

static int read_root(struct hf_config *c, struct hf_json *file, json_t *root, const json_error_t *e, uint32_t dtype)
{
	int r;

	*c = (struct hf_config){ 0 };
	if (!root)
		return refuse_text(file, e);
	file->object = root;
	r = json_is_object(root) ? read_model(c, file, dtype)
				 : hf_json_say(file, HF_BAD, "no JSON object, but another value");
	json_decref(root);
	return r;
}

int hf_config_parse(struct hf_config *c, const char *text, size_t len, const char *name, uint32_t dtype, char *why,
		    size_t why_size)
{
	struct hf_json file = { .name = name, .why = why, .why_size = why_size };
	json_error_t e = { 0 };

	return read_root(c, &file, json_loadb(text, len, JSON_REJECT_DUPLICATES, &e), &e, dtype);
}

int hf_config_read(struct hf_config *c, const char *path, uint32_t dtype, char *why, size_t why_size)
{
	struct hf_json file = { .name = path, .why = why, .why_size = why_size };
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	json_error_t e = { 0 };
	json_t *root = f ? json_loadf(f, JSON_REJECT_DUPLICATES, &e) : NULL;

	*c = (struct hf_config){ 0 };
	if (!f || ferror(f)) {
		json_decref(root);
		return hf_json_say(&file, HF_BAD, "%s", strerror(errno));
	}
	return read_root(c, &file, root, &e, dtype);
}
