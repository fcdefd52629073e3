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
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cleanup.h"
#include "hf_heads.h"
#include "hf_keys.h"
#include "hf_latent.h"
#include "hf_shared.h"
#include "hf_unmapped.h"
#include "names.h"
#include "page_shape.h"
#include "python_json.h"

#define MOST_BYTES ((size_t)64 << 20) /* of a file */

NAMES(dtypes, WIRE_DTYPE_COUNT, "", WIRE_DTYPE_NAMES);

const char *hf_dtype_name(uint32_t dtype)
{
	return dtype < WIRE_DTYPE_COUNT ? dtypes[dtype] : NULL;
}

uint32_t hf_dtype_find(const char *name)
{
	for (uint32_t i = 1; i < WIRE_DTYPE_COUNT; i++)
		if (strcmp(dtypes[i], name) == 0)
			return i;
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

/* True for fp8, by the ways in which a quantisation says it. */
static bool is_fp8(const struct hf_json *q, const char *key)
{
	const char *name = json_string_value(hf_json_field(q, key));
	struct hf_json scheme;

	if (name)
		return strncasecmp(name, "fp8", 3) == 0 || strncasecmp(name, "float8", 6) == 0;
	if (!hf_json_inner(&scheme, q, key))
		return false;
	name = json_string_value(hf_json_field(&scheme, "type"));
	return name && strcmp(name, "float") == 0 && json_integer_value(hf_json_field(&scheme, "num_bits")) == 8;
}

/* What @key of @q keeps K and V in: fp8, or something that pages do not hold. */
static int read_scheme(const struct hf_json *q, const char *key, struct hf_config *c, uint32_t *dtype)
{
	const char *name = json_string_value(hf_json_field(q, key));
	char text[64];

	if (*dtype || !hf_json_says(q, key) || (name && strcmp(name, "auto") == 0))
		return 0;
	if (is_fp8(q, key)) {
		*dtype = WIRE_FP8;
		hf_note(c, "K and V are fp8 (%s%s)", q->path, key);
		return 0;
	}
	return hf_json_say(q, HF_UNMAPPABLE, "%s%s is %s: pages hold f16, bf16, f32 or fp8 (choose one with --dtype)",
			   q->path, key, hf_json_text(hf_json_field(q, key), text, sizeof(text)));
}

static int read_schemes(const struct hf_json *j, struct hf_config *c, uint32_t *dtype)
{
	static const char *const quantisations[] = { "quantization_config", "compression_config" };
	static const char *const keys[] = { "kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_quant_config" };
	struct hf_json q;
	int r;

	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 3 && hf_json_inner(&q, j, quantisations[i]); k++)
			if ((r = read_scheme(&q, keys[k], c, dtype)))
				return r;
	return read_scheme(j, "kv_cache_dtype", c, dtype);
}

/* Of the model's object first, then of the file's. */
static int read_dtype(const struct hf_json *j, const struct hf_json *file, struct hf_config *c, uint32_t *dtype)
{
	const struct hf_json *objects[] = { j, file };
	static const char *const fields[] = { "dtype", "torch_dtype" };
	int r;

	if ((r = read_schemes(j, c, dtype)) || (r = read_schemes(file, c, dtype)))
		return r;
	for (int i = 0; i < 4 && !*dtype; i++)
		if ((r = read_dtype_of(objects[i / 2], fields[i % 2], c, dtype)))
			return r;
	if (!*dtype) {
		*dtype = WIRE_BF16;
		hf_note(c, "the file names no dtype: taken as bf16");
	}
	return 0;
}

/* What a token keeps in @layer: heads, or a latent row, which has no V and so no use for two halves. */
static struct wire_group shape_of(const struct hf_config *c, const struct hf_layer *layer)
{
	struct wire_group shape = { .kind = layer->kind, .window = layer->window };

	if (c->latent) {
		shape.k_bytes = (c->latent + c->latent_rope) * element_bytes(c->dtype);
		shape.form = WIRE_JOINED;
		snprintf(shape.tag, sizeof(shape.tag), "mla-%" PRIu32 "+%" PRIu32 "-%s", c->latent, c->latent_rope,
			 hf_dtype_name(c->dtype));
		return shape;
	}
	shape.kv_heads = layer->kv_heads;
	shape.k_head_dim = layer->k_head_dim;
	shape.v_head_dim = layer->v_head_dim;
	shape.dtype = c->dtype;
	return shape;
}

/* The group of layers like @layer, made when it is new; NULL: there are too many. */
static struct hf_group *group_of(struct hf_config *c, const struct hf_layer *layer, uint32_t index)
{
	struct wire_group shape = shape_of(c, layer);

	for (uint32_t i = 0; i < c->n_groups; i++) {
		shape.layers = c->groups[i].shape.layers;
		if (memcmp(&c->groups[i].shape, &shape, sizeof(shape)) == 0)
			return &c->groups[i];
	}
	if (c->n_groups == WIRE_MAX_GROUPS)
		return NULL;
	shape.layers = 0;
	c->groups[c->n_groups] = (struct hf_group){ .shape = shape, .first_layer = index };
	return &c->groups[c->n_groups++];
}

static int make_groups(struct hf_config *c, const struct hf_layers *l, const struct hf_json *j)
{
	for (uint32_t i = 0; i < c->layers; i++) {
		const struct hf_layer *layer = &l->layer[i];
		struct hf_group *g;

		if (layer->kind == HF_KEEPS_NOTHING || c->donor[i] != i)
			continue;
		g = group_of(c, layer, i);
		if (!g)
			return hf_json_say(j, HF_UNMAPPABLE,
					   "%slayer %" PRIu32 " is of the %dth shape: a model has at most %d groups",
					   j->path, i, WIRE_MAX_GROUPS + 1, WIRE_MAX_GROUPS);
		g->k_is_v = l->k_is_v && layer->kind == WIRE_GROUP_FULL;
		g->shape.layers++;
	}
	if (!c->n_groups)
		return hf_json_say(j, HF_UNMAPPABLE, "%sno layer keeps K and V of its own", j->path);
	return 0;
}

/* ---- the file ----------------------------------------------------------- */

/* From the file's object to that of the language model. */
static int find_model(struct hf_json *j)
{
	static const char *const names[] = { "text_config", "language_config", "llm_config", "thinker_config",
					     "vlm_config" };

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

/* Tokens that the model was made for, by whatever name. */
static int read_max_seq(struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	static const char *const names[] = {
		"max_position_embeddings", "n_positions",      "max_seq_len", "max_sequence_length",
		"max_seq_length",          "seq_length",       "n_ctx",       "max_context_length",
		"context_length",          "model_max_length", NULL
	};
	const char *name = hf_json_name(j, names);

	if (!name && !hf_json_is_there(j, names))
		c->max_seq = d->max_seq;
	return name ? hf_json_count(j, name, INT32_MAX, &c->max_seq) : 0;
}

static int read_model(struct hf_config *c, const struct hf_json *file, uint32_t dtype)
{
	static struct hf_layers l;
	const struct hf_defaults *d;
	struct hf_json j = *file;
	struct hf_latent latent;
	int r;

	if ((r = find_model(&j)) || (r = hf_json_string(&j, "model_type", c->model_type, sizeof(c->model_type))))
		return r;
	d = hf_defaults_of(c->model_type);
	if ((r = hf_unmapped_refuse(&j, file, c->model_type, d)) || (r = hf_latent_read(&latent, c, &j, d)) ||
	    (r = hf_keys_refuse(&j, c->model_type, latent.rank || latent.off)) || (r = hf_layers_read(&l, c, &j, d)) ||
	    (!latent.rank && (r = hf_heads_read(&l, c, &j, d))) || (r = hf_shared_read(&l, c, &j, d)) ||
	    (r = read_dtype(&j, file, c, &dtype)) || (r = read_max_seq(c, &j, d)))
		return r;
	c->dtype = dtype;
	c->latent = latent.rank;
	c->latent_rope = latent.rope;
	return make_groups(c, &l, &j);
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
				 : hf_json_say(file, HF_BAD, "not a JSON object, but another value");
	json_decref(root);
	return r;
}

int hf_config_parse(struct hf_config *c, const char *text, size_t len, const char *name, uint32_t dtype, char *why,
		    size_t why_size)
{
	struct hf_json file = { .name = name, .why = why, .why_size = why_size };
	json_error_t e = { 0 };

	return read_root(c, &file, python_json_load(text, len, &e), &e, dtype);
}

/* All of a file, at most MOST_BYTES and one; *@len are there. NULL with errno. */
static char *read_all(FILE *f, size_t *len)
{
	size_t size = 1 << 16;
	char *text = malloc(size), *larger;

	for (*len = 0; text; size *= 2) {
		*len += fread(text + *len, 1, size - *len, f);
		if (*len < size || *len > MOST_BYTES)
			break;
		larger = realloc(text, 2 * size);
		if (!larger)
			free(text);
		text = larger;
	}
	if (text && !ferror(f))
		return text;
	free(text);
	return NULL;
}

int hf_config_read(struct hf_config *c, const char *path, uint32_t dtype, char *why, size_t why_size)
{
	bool standard = strcmp(path, "-") == 0;
	const char *name = standard ? "standard input" : path;
	struct hf_json file = { .name = name, .why = why, .why_size = why_size };
	AUTO_FCLOSE FILE *f = standard ? NULL : fopen(path, "re");
	AUTO_FREE char *text = NULL;
	size_t len = 0;

	*c = (struct hf_config){ 0 };
	if (f || standard)
		text = read_all(standard ? stdin : f, &len);
	if (!text)
		return hf_json_say(&file, HF_BAD, "%s", strerror(errno));
	if (len > MOST_BYTES)
		return hf_json_say(&file, HF_BAD, "more than %zu bytes, which no config.json has", MOST_BYTES);
	return hf_config_parse(c, text, len, name, dtype, why, why_size);
}
