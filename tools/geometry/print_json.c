/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "json_put.h"
#include "print.h"

static json_t *group_json(const struct group_sizes *g, bool pool)
{
	const struct wire_group *s = &g->shape;
	bool slides = s->kind == WIRE_GROUP_SLIDING;
	json_t *o = json_pack(
		"{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "kind",
		slides ? "sliding" : "full", "window", slides ? json_integer(s->window) : json_null(), "layers",
		(json_int_t)s->layers, "first_layer", (json_int_t)g->first_layer, "kv_heads", (json_int_t)s->kv_heads,
		"k_head_dim", (json_int_t)s->k_head_dim, "v_head_dim", (json_int_t)s->v_head_dim, "dtype",
		hf_dtype_name(s->dtype), "page_tokens", (json_int_t)s->page_tokens, "v_from_k", g->k_is_v, "part",
		(json_int_t)g->part, "parts", (json_int_t)g->parts, "bytes_per_token", (json_int_t)g->token_bytes,
		"layer_stride", (json_int_t)g->layer_stride, "page_bytes", (json_int_t)g->page_bytes, "padding_bytes",
		(json_int_t)g->padding, "width", g->width ? json_integer(g->width) : json_null());

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

	for (uint32_t i = 0; i < z->n_groups; i++)
		json_array_append_new(groups, group_json(&z->groups[i], z->options.pool != 0));
	for (uint32_t i = 0; i < z->options.n_rules; i++)
		json_array_append_new(rules, rule_json(z, i));
	for (uint32_t i = 0; i < c->n_notes; i++)
		json_array_append_new(notes, json_string(c->notes[i]));
	o = json_pack("{s:o, s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:o}", "file", path_json(path), "model_type",
		      c->model_type, "layers", (json_int_t)c->layers, "shared_layers", (json_int_t)c->shared,
		      "layers_without_attention", (json_int_t)c->without, "max_seq",
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
