/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "json_put.h"
#include "print.h"

/* Heads, or null where a latent row stands in their place. */
static void put_heads(json_t *o, const struct wire_group *s)
{
	bool heads = s->kv_heads > 0;

	json_object_set_new(o, "kv_heads", heads ? json_integer(s->kv_heads) : json_null());
	json_object_set_new(o, "k_head_dim", heads ? json_integer(s->k_head_dim) : json_null());
	json_object_set_new(o, "v_head_dim", heads ? json_integer(s->v_head_dim) : json_null());
}

static json_t *group_json(const struct group_sizes *g, const struct hf_config *c, bool pool)
{
	const struct wire_group *s = &g->shape;
	bool slides = s->kind == WIRE_GROUP_SLIDING;
	json_t *o = json_pack("{s:s, s:o, s:I, s:I, s:s, s:I, s:b, s:I, s:I, s:s, s:s}", "kind",
			      slides ? "sliding" : "full", "window", slides ? json_integer(s->window) : json_null(),
			      "layers", (json_int_t)s->layers, "first_layer", (json_int_t)g->first_layer, "dtype",
			      hf_dtype_name(c->dtype), "page_tokens", (json_int_t)s->page_tokens, "v_from_k", g->k_is_v,
			      "part", (json_int_t)g->part, "parts", (json_int_t)g->parts, "form",
			      g->page.joined ? "joined" : "split", "tag", s->tag);

	put_heads(o, s);
	json_put(o, "k_row_bytes", (json_int_t)g->k_row);
	json_put(o, "v_row_bytes", (json_int_t)g->v_row);
	json_put(o, "bytes_per_token", (json_int_t)g->token_bytes);
	json_put(o, "layer_stride", (json_int_t)g->layer_stride);
	json_put(o, "page_bytes", (json_int_t)g->page.bytes);
	json_put(o, "padding_bytes", (json_int_t)g->padding);
	json_object_set_new(o, "width", g->width ? json_integer(g->width) : json_null());
	if (!pool)
		return o;
	json_put(o, "num_pages", g->num_pages);
	json_put_bool(o, "offset_overflow", g->overflow_page != 0);
	json_object_set_new(o, "first_overflowing_page",
			    g->overflow_page ? json_integer(g->overflow_page) : json_null());
	json_put_bool(o, "too_many_pages", g->too_many_pages);
	json_put_bool(o, "page_above_extent", g->page_above_extent);
	return o;
}

static json_t *rule_json(const struct sizes *z, uint32_t i)
{
	const struct rule *r = &z->options.rules[i];
	json_t *pages = json_array(), *o;

	for (uint32_t k = 0; k < z->n_groups; k++)
		json_array_append_new(pages, json_integer(z->rules[i].pages[k]));
	o = json_pack("{s:o, s:o, s:I}", "max_advance",
		      r->max_advance ? json_integer(r->max_advance) : json_string("any"), "pages", pages, "bytes",
		      (json_int_t)z->rules[i].bytes);
	if (r->max_advance)
		json_put(o, "in_flight", r->in_flight);
	json_put(o, "max_rewind", r->max_rewind);
	if (z->options.pool)
		json_put(o, "sequences", z->rules[i].fit);
	return o;
}

/* A path may be no UTF-8, which JSON cannot hold: then what is none becomes '?'. */
static json_t *path_json(const char *path)
{
	json_t *v = json_string(path);
	char *copy = v ? NULL : strdup(path);

	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	if (copy)
		v = json_string(copy);
	free(copy);
	return v ? v : json_null();
}

void print_json(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z)
{
	json_t *groups = json_array(), *rules = json_array(), *notes = json_array(), *o;
	json_t *donors = json_array();

	for (uint32_t i = 0; i < z->n_groups; i++)
		json_array_append_new(groups, group_json(&z->groups[i], c, z->options.pool != 0));
	for (uint32_t i = 0; i < z->options.n_rules; i++)
		json_array_append_new(rules, rule_json(z, i));
	for (uint32_t i = 0; i < c->n_notes; i++)
		json_array_append_new(notes, json_string(c->notes[i]));
	for (uint32_t i = 0; i < c->layers; i++)
		if (c->donor[i] != i)
			json_array_append_new(donors, json_pack("{s:I, s:I}", "layer", (json_int_t)i, "reads",
								(json_int_t)c->donor[i]));
	o = json_pack("{s:o, s:s, s:I, s:I, s:o, s:I, s:o, s:I, s:o, s:o, s:o}", "file", path_json(path), "model_type",
		      c->model_type, "layers", (json_int_t)c->layers, "shared_layers", (json_int_t)c->shared, "donors",
		      donors, "layers_without_attention", (json_int_t)c->without, "max_seq",
		      z->options.max_seq ? json_integer(z->options.max_seq) : json_null(), "bytes_per_token",
		      (json_int_t)z->token_bytes, "groups", groups, "sequence", rules, "notes", notes);
	if (z->options.pool)
		json_object_set_new(o, "pool",
				    json_pack("{s:I, s:I}", "bytes", (json_int_t)z->options.pool, "extent_bytes",
					      (json_int_t)z->options.extent));
	json_dumpf(o, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(o);
}
