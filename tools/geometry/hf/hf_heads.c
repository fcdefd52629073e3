/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_heads.c - see hf_heads.h
 *
 * From what holds for all layers to what holds for one: the model's own fields,
 * by whatever name; lists with an entry for each layer; fields for sliding and
 * for full layers; per_layer_config.
 */
#include "hf_heads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hf_blocks.h"
#include "hf_keys.h"
#include "hf_lists.h"

/* Of the engine's models (model.c there). */
#define MAX_HEAD_DIM 8192
#define MAX_HEADS    4096
#define MAX_HIDDEN   ((int64_t)1 << 31)

static const char *const query_names[] = { "num_attention_heads", "n_head",          "n_heads", "num_heads",
					   "num_query_heads",     "attention_heads", NULL };
static const char *const kv_names[] = { "num_key_value_heads",
					"num_kv_heads",
					"n_head_kv",
					"n_kv_heads",
					"kv_n_heads",
					"kv_heads",
					"attention_kv_heads",
					"num_attention_groups",
					"num_query_groups",
					"multi_query_group_num",
					"num_key_value_heads_per_layer",
					NULL };
static const char *const dim_names[] = { "head_dim", "kv_channels",         "attention_head_dim", "d_kv", "d_head",
					 "dim_head", "attention_head_size", "head_size",          NULL };
static const char *const hidden_names[] = { "hidden_size", "n_embd",    "n_embed", "d_model",
					    "embed_dim",   "model_dim", "dim",     NULL };

struct heads {
	int64_t query, kv, k_dim, v_dim;
};

/* ---- of all layers ------------------------------------------------------ */

/* One KV head, or as many as heads, by the ways to say so; 0: the file does not. */
static int read_multi_query(const struct hf_json *j, const struct hf_defaults *d, int64_t heads, int64_t *kv)
{
	static const char *const of_falcon[] = { "num_kv_heads", "n_head_kv", NULL }; /* count where it is off */
	const char *type = json_string_value(hf_json_field(j, "attention_head_type"));
	bool newer = false, one = d->flags & HF_MULTI_QUERY, several = true, groups = true;
	int64_t shared = 0; /* heads that share one of K and V */
	int r;

	*kv = 0;
	if ((r = hf_json_bool(j, "new_decoder_architecture", &newer)) || (r = hf_json_bool(j, "multi_query", &one)) ||
	    (r = hf_json_bool(j, "multi_query_attention", &several)) ||
	    (r = hf_json_bool(j, "group_query_attention", &groups)) ||
	    (r = hf_json_count(j, "n_shared_head", MAX_HEADS, &shared)))
		return r;
	if (one && !newer)
		*kv = 1;
	else if (shared)
		*kv = (heads + shared - 1) / shared;
	else if ((d->flags & HF_MULTI_QUERY && !hf_json_name(j, of_falcon)) || !several || !groups ||
		 (type && strcmp(type, "multihead") == 0))
		*kv = heads;
	else if ((type && strcmp(type, "multiquery") == 0) ||
		 (hf_json_field(j, "multi_query_attention") && !hf_json_name(j, kv_names)))
		*kv = 1;
	return 0;
}

/* attn_config of mpt and dbrx. */
static int read_attn_config(const struct hf_json *j, int64_t heads, int64_t *kv)
{
	struct hf_json inner;
	const char *type;

	if (!hf_json_inner(&inner, j, "attn_config"))
		return 0;
	if (json_number_value(hf_json_field(&inner, "sliding_window_size")) > 0)
		return hf_json_say(&inner, HF_UNMAPPABLE, "%ssliding_window_size: nothing says which layers have it",
				   inner.path);
	type = json_string_value(hf_json_field(&inner, "attn_type"));
	if (type && strcmp(type, "multihead_attention") == 0)
		*kv = heads;
	else if (type && strcmp(type, "multiquery_attention") == 0)
		*kv = 1;
	else
		return hf_json_count_by_name(&inner, kv_names, MAX_HEADS, kv);
	return 0;
}

static bool is_list(const struct hf_json *j, const char *name)
{
	return name && json_is_array(hf_json_field(j, name));
}

/* A count by any of its names; a list of them is left for later, with its name in *@list. */
static int read_count(const struct hf_json *j, const struct hf_config *c, const char *const names[], int64_t most,
		      int64_t *out, const char **list)
{
	const char *name;
	int r = hf_json_one_name(j, names, &name);

	*list = r == 0 && is_list(j, name) ? name : NULL;
	if (*list)
		return hf_lists_of_layers(j, name, c->layers) ? 0 : HF_BAD;
	return r || !name ? r : hf_json_count(j, name, most, out);
}

/* hidden over heads. */
static int divide(const struct hf_json *j, const struct hf_defaults *d, struct heads *h)
{
	int64_t hidden = 0, heads = h->query;
	int r = hf_json_count_by_name(j, hidden_names, MAX_HIDDEN, &hidden);

	if (r)
		return r;
	if (!hidden && j->path[0] && !hf_json_is_there(j, hidden_names))
		hidden = d->hidden;
	if (!heads || !hidden)
		return hf_json_say(j, HF_BAD, "%shead_dim is missing, and so is %s to compute it", j->path,
				   heads ? "hidden_size" : "num_attention_heads");
	if (hidden % heads || hidden / heads > MAX_HEAD_DIM)
		return hf_json_say(j, HF_BAD,
				   "%shead_dim is missing, and hidden_size %" PRId64
				   " over num_attention_heads %" PRId64 " is no head dimension up to %d",
				   j->path, hidden, heads, MAX_HEAD_DIM);
	h->k_dim = hidden / heads;
	return 0;
}

static int read_dims(const struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d, struct heads *h,
		     const char **list)
{
	bool no_mla = json_is_false(hf_json_field(j, "use_mla")); /* v_head_dim may be 0 then */
	int r = read_count(j, c, dim_names, MAX_HEAD_DIM, &h->k_dim, list);

	if (r == 0 && !h->k_dim && !*list && !hf_json_is_there(j, dim_names))
		h->k_dim = d->head_dim;
	if (r == 0 && !h->k_dim && !*list)
		r = divide(j, d, h);
	h->v_dim = d->v_head_dim ? d->v_head_dim : h->k_dim;
	return r || no_mla ? r : hf_json_count(j, "v_head_dim", MAX_HEAD_DIM, &h->v_dim);
}

static int read_counts(struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d, struct heads *h,
		       const char **query_list, const char **kv_list)
{
	int64_t one = 0;
	int r;

	if ((r = read_count(j, c, query_names, MAX_HEADS, &h->query, query_list)))
		return r;
	if (!h->query && !*query_list && j->path[0] && !hf_json_is_there(j, query_names))
		h->query = d->heads;
	if ((r = read_count(j, c, kv_names, MAX_HEADS, &h->kv, kv_list)) ||
	    (r = read_attn_config(j, h->query, &h->kv)) || (r = read_multi_query(j, d, h->query, &one)))
		return r;
	if (one)
		h->kv = one;
	if (!h->kv && !*kv_list && d->kv_heads && !hf_json_is_there(j, kv_names)) {
		h->kv = d->kv_heads;
		if (h->query % h->kv)
			return hf_json_say(j, HF_BAD,
					   "%snum_key_value_heads is missing, and the %" PRId32
					   " of its type do not divide the %" PRId64 " heads",
					   j->path, d->kv_heads, h->query);
		hf_note(c, "the file has no num_key_value_heads; in %s they are %" PRId32, c->model_type, d->kv_heads);
	}
	if (!h->kv && !*kv_list)
		h->kv = h->query;
	if (!h->kv && !*kv_list && !*query_list)
		return hf_json_say(j, HF_BAD, "%snum_key_value_heads and num_attention_heads are missing", j->path);
	if (h->kv && h->query % h->kv)
		hf_note(c, "%" PRId64 " KV heads do not divide %" PRId64 " attention heads: is one of them wrong?",
			h->kv, h->query);
	return 0;
}

static void give(struct hf_layer *layer, const struct heads *h)
{
	layer->kv_heads = (uint16_t)h->kv;
	layer->k_head_dim = (uint16_t)h->k_dim;
	layer->v_head_dim = (uint16_t)h->v_dim;
}

/* ---- lists -------------------------------------------------------------- */

/* Entry @i of the list @field, as if it stood alone. */
static int read_entry(const struct hf_json *j, const char *field, const json_t *list, uint32_t i, int64_t most,
		      uint16_t *out)
{
	const json_t *entry = json_array_get(list, i);
	char expected[64];

	if (json_is_integer(entry) && json_integer_value(entry) >= 1 && json_integer_value(entry) <= most) {
		*out = (uint16_t)json_integer_value(entry);
		return 0;
	}
	snprintf(expected, sizeof(expected), "expected a whole number from 1 to %" PRId64, most);
	return hf_lists_refuse(j, HF_BAD, field, i, entry, expected);
}

static int read_lists(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *heads,
		      const char *dims)
{
	const json_t *h = heads ? hf_lists_of_layers(j, heads, c->layers) : NULL;
	const json_t *d = dims ? hf_lists_of_layers(j, dims, c->layers) : NULL;

	if ((heads && !h) || (dims && !d))
		return HF_BAD;
	for (uint32_t i = 0; i < c->layers; i++) {
		struct hf_layer *layer = &l->layer[i];

		if (layer->kind == HF_KEEPS_NOTHING)
			continue;
		if ((h && read_entry(j, heads, h, i, MAX_HEADS, &layer->kv_heads)) ||
		    (d && read_entry(j, dims, d, i, MAX_HEAD_DIM, &layer->k_head_dim)))
			return HF_BAD;
		if (d)
			layer->v_head_dim = layer->k_head_dim;
	}
	return 0;
}

/* ---- of one kind of layer ----------------------------------------------- */

/* Fields that hold for sliding layers only. */
static int read_sliding(struct heads *h, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t k_dim = h->k_dim;
	struct hf_json inner;
	int r;

	if (d->flags & HF_TWICE_THE_HEADS && !hf_json_field(j, "swa_num_key_value_heads") && h->kv <= MAX_HEADS / 2)
		h->kv *= 2;
	if ((r = hf_json_count(j, "swa_num_key_value_heads", MAX_HEADS, &h->kv)) ||
	    (r = hf_json_count(j, "swa_head_dim", MAX_HEAD_DIM, &h->k_dim)))
		return r;
	if (hf_json_inner(&inner, j, "attention_other_setting") &&
	    ((r = hf_json_count_by_name(&inner, kv_names, MAX_HEADS, &h->kv)) ||
	     (r = hf_json_count_by_name(&inner, dim_names, MAX_HEAD_DIM, &h->k_dim))))
		return r;
	if (h->k_dim != k_dim && !hf_json_field(j, "v_head_dim"))
		h->v_dim = h->k_dim;
	return hf_json_count(j, "swa_v_head_dim", MAX_HEAD_DIM, &h->v_dim);
}

/* Fields that hold for full layers only. */
static int read_full(struct heads *h, struct hf_layers *l, struct hf_config *c, const struct hf_json *j,
		     const struct hf_defaults *d)
{
	int64_t dim = hf_json_field(j, "per_layer_config") ? 0 : d->full_head_dim;
	bool own_heads;
	int r;

	l->k_is_v = false;
	if ((r = hf_json_bool(j, "attention_k_eq_v", &l->k_is_v)) ||
	    (r = hf_json_count(j, "global_head_dim", MAX_HEAD_DIM, &dim)))
		return r;
	if (dim)
		h->k_dim = h->v_dim = dim;
	/* Where the file, or its type, says that V is not made of K, these heads are not in use. */
	own_heads = hf_json_field(j, "attention_k_eq_v") ? l->k_is_v : !(d->flags & HF_GATED_GLOBAL_HEADS);
	if (own_heads)
		return hf_json_count(j, "num_global_key_value_heads", MAX_HEADS, &h->kv);
	if (hf_json_field(j, "num_global_key_value_heads"))
		hf_note(c, "num_global_key_value_heads is not in use (attention_k_eq_v is false)");
	return 0;
}

static bool differ(const struct heads *a, const struct heads *b)
{
	return a->kv != b->kv || a->k_dim != b->k_dim || a->v_dim != b->v_dim;
}

static int read_kind(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d,
		     const struct heads *of_all, uint8_t kind)
{
	struct heads h = *of_all;
	bool any = false;
	int r = 0;

	for (uint32_t i = 0; i < c->layers && !any; i++)
		any = l->layer[i].kind == kind;
	if (any)
		r = kind == WIRE_GROUP_SLIDING ? read_sliding(&h, j, d) : read_full(&h, l, c, j, d);
	for (uint32_t i = 0; any && r == 0 && differ(&h, of_all) && i < c->layers; i++)
		if (l->layer[i].kind == kind)
			give(&l->layer[i], &h);
	return r;
}

/* ---- of one layer ------------------------------------------------------- */

/* What per_layer_config says of layer @i, in @own. */
static int read_own(struct hf_layer *layer, const struct hf_json *own, const char *model_type)
{
	int64_t kv = layer->kv_heads, k_dim = layer->k_head_dim, v_dim = layer->v_head_dim, window = layer->window;
	bool one_dim = v_dim == k_dim;
	int r;

	if ((r = hf_keys_refuse(own, model_type, false)) ||
	    (r = hf_json_count_by_name(own, kv_names, MAX_HEADS, &kv)) ||
	    (r = hf_json_count_by_name(own, dim_names, MAX_HEAD_DIM, &k_dim)))
		return r;
	if (one_dim)
		v_dim = k_dim;
	if ((r = hf_json_count(own, "v_head_dim", MAX_HEAD_DIM, &v_dim)))
		return r;
	if (json_is_null(json_object_get(own->object, "sliding_window")))
		layer->kind = WIRE_GROUP_FULL;
	if ((r = hf_json_count(own, "sliding_window", INT32_MAX, &window)))
		return r;
	layer->window = layer->kind == WIRE_GROUP_SLIDING ? (int32_t)window : 0;
	give(layer, &(struct heads){ .kv = kv, .k_dim = k_dim, .v_dim = v_dim });
	return 0;
}

/* The object for layer @i: its key may have zeroes before it. NULL: there is none. */
static const json_t *find_own(const json_t *all, uint32_t i)
{
	const json_t *own = NULL;
	char key[16];

	for (int width = 1; width <= 4 && !own; width++) {
		snprintf(key, sizeof(key), "%0*" PRIu32, width, i);
		own = json_object_get(all, key);
	}
	return own;
}

/* {"5": {...}} or {"05": {...}}: what some layers have otherwise. */
static int read_per_layer(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j)
{
	const json_t *all = hf_json_field(j, "per_layer_config");
	struct hf_json own = *j;
	size_t n = 0;
	int r = 0;

	if (!all)
		return 0;
	for (uint32_t i = 0; r == 0 && i < c->layers; i++) {
		own.object = find_own(all, i);
		if (!own.object)
			continue;
		n++;
		snprintf(own.path, sizeof(own.path), "%.40sper_layer_config.%" PRIu32 ".", j->path, i);
		if (!json_is_object(own.object))
			return hf_json_refuse(j, "per_layer_config", all, "an object for each layer that it names");
		if (l->layer[i].kind != HF_KEEPS_NOTHING)
			r = read_own(&l->layer[i], &own, c->model_type);
	}
	if (r == 0 && (!json_is_object(all) || n != json_object_size(all)))
		return hf_json_refuse(j, "per_layer_config", all, "an object whose fields are layers, counted from 0");
	return r;
}

int hf_heads_read(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	struct heads h = { 0 };
	const char *queries, *heads, *dims;
	int r;

	if ((r = read_counts(c, j, d, &h, &queries, &heads)) || (r = read_dims(c, j, d, &h, &dims)))
		return r;
	for (uint32_t i = 0; i < c->layers; i++)
		give(&l->layer[i], &h);
	if (!heads && !h.kv)
		heads = queries;
	if ((r = read_lists(l, c, j, heads, dims)) || (r = hf_blocks_read_heads(l, c, j, h.query)) ||
	    (r = read_kind(l, c, j, d, &h, WIRE_GROUP_SLIDING)) || (r = read_kind(l, c, j, d, &h, WIRE_GROUP_FULL)))
		return r;
	return read_per_layer(l, c, j);
}
