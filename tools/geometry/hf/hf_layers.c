/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_layers.c - see hf_layers.h
 *
 * Models say it in different ways. The first that is there counts: a list that
 * names each layer (hf_lists.c), a window for each layer, sliding_window_pattern
 * (each n-th is full, or letters to repeat), global_attn_every_n_layers,
 * max_window_layers (full below it), the layout of the type. With none of them
 * a window is refused: taken as that of all layers it would give up pages that
 * full layers read. Over all stands use_sliding_window: false.
 */
#include "hf_layers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hf_blocks.h"
#include "hf_lists.h"

static const char *const layer_names[] = { "num_hidden_layers",      "n_layer", "n_layers", "num_layers",
					   "num_transformer_layers", "layers",  NULL };
static const char *const window_names[] = { "sliding_window", "sliding_window_size", "local_attention", "window_size",
					    NULL };

void hf_note(struct hf_config *c, const char *format, ...)
{
	va_list list;

	if (c->n_notes == HF_MAX_NOTES)
		return;
	va_start(list, format);
	vsnprintf(c->notes[c->n_notes++], HF_NOTE, format, list);
	va_end(list);
}

/* Layer @i of @layers is full in the layout. */
static bool is_full(enum hf_layout layout, int64_t i, int64_t n, int64_t layers)
{
	switch (layout) {
	case HF_LAYOUT_ALL:
		return false;
	case HF_LAYOUT_NTH_FULL:
		return (i + 1) % n == 0;
	case HF_LAYOUT_FIRST_FULL:
		return i % n == 0;
	case HF_LAYOUT_MIMO:
		return i == 0 || (i + 1) % n == 0;
	case HF_LAYOUT_NTH_OR_LAST:
		return (i + 1) % n == 0 || i == layers - 1;
	case HF_LAYOUT_BACKWARDS:
		return (layers - 1 - i) % n == 0;
	case HF_LAYOUT_FLINT:
		return i == 0 || i % n == 1 || i == layers - 1;
	case HF_LAYOUT_FROM:
		return i < n;
	case HF_LAYOUT_EVEN_BELOW:
		return i % 2 || i >= n;
	case HF_LAYOUT_NO_ROPE:
		return (i + 1) % n != 0;
	default:
		return true;
	}
}

static void lay_out(struct hf_layers *l, const struct hf_config *c, enum hf_layout layout, int64_t n)
{
	for (uint32_t i = 0; i < c->layers; i++)
		l->layer[i].kind = is_full(layout, i, n, c->layers) ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING;
}

/* "LLLG", from the first layer on and again and again; the last layer is full. */
static int read_letters(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	const json_t *value = hf_json_field(j, field);
	const char *letters = json_string_value(value);
	size_t n = strlen(letters);

	if (n == 0 || strspn(letters, "LG") != n)
		return hf_json_refuse(j, field, value, "letters L (sliding) and G (full), or a whole number");
	for (uint32_t i = 0; i < c->layers; i++)
		l->layer[i].kind = letters[i % n] == 'L' && i + 1 < c->layers ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
	return 0;
}

static int read_pattern(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field,
			enum hf_layout layout)
{
	int64_t n = 0;
	int r;

	if (json_is_string(hf_json_field(j, field)))
		return read_letters(l, c, j, field);
	r = hf_json_count(j, field, INT32_MAX, &n);
	if (r == 0)
		lay_out(l, c, layout, n);
	return r;
}

/* Layers from max_window_layers on slide (in some types: before it); a number above their count leaves none. */
static int read_max_window_layers(struct hf_layers *l, struct hf_config *c, const struct hf_json *j,
				  const struct hf_defaults *d)
{
	const json_t *v = hf_json_field(j, "max_window_layers");
	enum hf_layout layout = d->layout == HF_LAYOUT_EVEN_BELOW ? d->layout : HF_LAYOUT_FROM;
	int64_t n = v ? json_integer_value(v) : d->n;

	if (v && (!json_is_integer(v) || n < 0 || n > INT32_MAX))
		return hf_json_refuse(j, "max_window_layers", v, "a whole number from 0 to 2147483647");
	lay_out(l, c, layout, n);
	if (layout == HF_LAYOUT_FROM && n >= c->layers)
		hf_note(c, "max_window_layers is %" PRId64 ", not below the %" PRIu32 " layers: all are full", n,
			c->layers);
	return 0;
}

/* no_rope_layers: 0 for a layer without rotary embedding, which slides. */
static int read_no_rope(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j,
			const struct hf_defaults *d)
{
	int64_t n = d->n;
	const json_t *list;
	int r = hf_json_count(j, "no_rope_layer_interval", INT32_MAX, &n);

	lay_out(l, c, HF_LAYOUT_NO_ROPE, n);
	if (r || !hf_json_field(j, "no_rope_layers"))
		return r;
	list = hf_lists_of_layers(j, "no_rope_layers", c->layers);
	for (uint32_t i = 0; list && i < c->layers; i++)
		l->layer[i].kind = json_integer_value(json_array_get(list, i)) ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING;
	return list ? 0 : HF_BAD;
}

/* What the type is known to do. */
static int lay_out_by_type(struct hf_layers *l, struct hf_config *c, const struct hf_json *j,
			   const struct hf_defaults *d)
{
	switch (d->layout) {
	case HF_LAYOUT_UNKNOWN:
		return hf_json_say(
			j, HF_UNMAPPABLE,
			"%s%s is %" PRId64 ", and nothing says which layers have it: layer_types is missing", j->path,
			hf_json_name(j, window_names) ? hf_json_name(j, window_names) : "the window", l->window);
	case HF_LAYOUT_FROM:
	case HF_LAYOUT_EVEN_BELOW:
		return read_max_window_layers(l, c, j, d);
	case HF_LAYOUT_NO_ROPE:
		return read_no_rope(l, c, j, d);
	case HF_LAYOUT_FULL:
		hf_note(c, "a window of %" PRId64 " and no layer_types: in %s all layers are full then", l->window,
			c->model_type);
		break;
	case HF_LAYOUT_ALL:
		break;
	case HF_LAYOUT_NTH_FULL:
	case HF_LAYOUT_FIRST_FULL:
		hf_note(c, "the file does not say which layers slide; in %s one of %" PRId32 " is full", c->model_type,
			d->n);
		break;
	default:
		hf_note(c, "the file does not say which layers slide: taken as is usual in %s", c->model_type);
	}
	lay_out(l, c, d->layout, d->n);
	return 0;
}

/* Layers of the kind have a window of their own, null: they are full. */
static int read_windows(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, const char *field)
{
	const json_t *list = hf_lists_of_layers(j, field, c->layers);

	if (!list)
		return HF_BAD;
	for (uint32_t i = 0; i < c->layers; i++) {
		const json_t *entry = json_array_get(list, i);
		json_int_t n = json_integer_value(entry);

		if (!json_is_null(entry) && (!json_is_integer(entry) || n < 1 || n > INT32_MAX))
			return hf_lists_refuse(j, HF_BAD, field, i, entry,
					       "expected null (full) or a window from 1 to 2147483647");
		l->layer[i].kind = n ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
		l->layer[i].window = (int32_t)n;
	}
	return 0;
}

/* The name of a list of windows, NULL: there is none, or it is no list for the layers. */
static const char *list_of_windows(const struct hf_config *c, const struct hf_json *j)
{
	const char *name = hf_json_name(j, window_names);

	return name && json_array_size(hf_json_field(j, name)) == c->layers ? name : NULL;
}

static int read_kinds(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d,
		      bool off)
{
	static const char *const patterns[] = { "sliding_window_pattern", "_sliding_window_pattern", NULL };
	enum hf_layout every = d->layout == HF_LAYOUT_FIRST_FULL ? HF_LAYOUT_FIRST_FULL : HF_LAYOUT_NTH_FULL;
	const char *name;
	bool found;
	int r = hf_lists_read(l, c, j, &found);

	if (r || found || (r = hf_blocks_read(l, c, j, &found)) || found)
		return r;
	if (!off && (name = list_of_windows(c, j)))
		return read_windows(l, c, j, name);
	if (!l->window) {
		lay_out(l, c, HF_LAYOUT_FULL, 0);
		return 0;
	}
	if (strcmp(c->model_type, "cohere2_moe") == 0 && hf_json_says(j, "first_k_dense_replace"))
		return hf_json_say(
			j, HF_UNMAPPABLE,
			"%sfirst_k_dense_replace moves the pattern of sliding layers: layer_types is missing", j->path);
	if ((name = hf_json_name(j, patterns)))
		return read_pattern(l, c, j, name, HF_LAYOUT_NTH_FULL);
	if (hf_json_field(j, "global_attn_every_n_layers") && d->layout != HF_LAYOUT_UNKNOWN)
		return read_pattern(l, c, j, "global_attn_every_n_layers", every);
	if (hf_json_field(j, "max_window_layers"))
		return read_max_window_layers(l, c, j, d);
	return lay_out_by_type(l, c, j, d);
}

/* What the type has where the file has no window; of modernbert-decoder local_attention is both sides together. */
static int read_window_by_type(struct hf_layers *l, struct hf_config *c, const struct hf_json *j,
			       const struct hf_defaults *d)
{
	int r = 0;

	if (!hf_json_is_there(j, window_names)) {
		l->window = d->window;
		if (d->window)
			hf_note(c, "the file has no sliding_window; in %s it is %" PRId32, c->model_type, d->window);
	}
	if (strcmp(c->model_type, "gpt_neo") == 0)
		r = hf_json_count(j, "window_size", INT32_MAX, &l->window);
	if (strcmp(c->model_type, "modernbert-decoder") == 0 && !hf_json_field(j, "sliding_window") &&
	    hf_json_field(j, "local_attention")) {
		r = hf_json_count(j, "local_attention", INT32_MAX, &l->window);
		l->window = l->window > 1 ? l->window / 2 : 1;
	}
	return r;
}

/* The window, 0 when there is none or it is not in use. */
static int read_window(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d,
		       bool *off)
{
	bool use = !(d->flags & HF_WINDOW_OFF);
	int64_t size = 0;
	int r = hf_json_bool(j, "use_sliding_window", &use);

	*off = !use;
	l->window = 0;
	if (r)
		return r;
	if (!use) {
		if (hf_json_says(j, "sliding_window"))
			hf_note(c, "sliding_window is not in use (use_sliding_window): all layers are full");
		return 0;
	}
	if ((r = read_window_by_type(l, c, j, d)) || list_of_windows(c, j) ||
	    (r = hf_json_count(j, "sliding_window_size", INT32_MAX - 1, &size)))
		return r;
	if (size)
		l->window = size;
	if ((r = hf_json_count(j, "sliding_window", INT32_MAX, &l->window)))
		return r;
	if (!size || !(d->flags & HF_TWICE_THE_HEADS)) {
		if (size && size != l->window)
			return hf_json_say(j, HF_BAD,
					   "%ssliding_window is %" PRId64 ", but sliding_window_size is %" PRId64,
					   j->path, l->window, size);
		return 0;
	}
	l->window = size + 1;
	hf_note(c,
		"sliding_window_size %" PRId64
		" does not count the current token in all engines: taken as a window of %" PRId64,
		size, l->window);
	return 0;
}

/* Some files have the list of layers alone. */
static int64_t count_list(const struct hf_json *j)
{
	size_t n = json_array_size(hf_json_field(j, "layers_block_type"));

	if (!n)
		n = json_array_size(hf_json_field(j, "layer_types"));
	if (!n)
		n = json_string_length(hf_json_field(j, "hybrid_override_pattern"));
	return n > HF_MAX_LAYERS ? 0 : (int64_t)n;
}

/* Layers of which each attends twice, and keeps a row each time: they count as two. */
static int read_pairs(struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t pairs = j->path[0] ? d->layers / 2 : 0;
	int r = hf_json_count(j, "num_layers", HF_MAX_LAYERS / 2, &pairs);

	if (r)
		return r;
	if (!pairs)
		return hf_json_say(j, HF_BAD, "%snum_layers is missing", j->path);
	c->layers = (uint32_t)(2 * pairs);
	hf_note(c, "each of the %" PRId64 " layers attends twice and counts as two", pairs);
	return 0;
}

static int read_count(struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t layers = 0;
	int r;

	if (d->flags & HF_TWICE_THE_LAYERS)
		return read_pairs(c, j, d);
	r = hf_json_count_by_name(j, layer_names, HF_MAX_LAYERS, &layers);
	if (r)
		return r;
	if (!layers && !hf_json_is_there(j, layer_names))
		layers = count_list(j);
	if (!layers && d->layers && j->path[0] && !hf_json_is_there(j, layer_names)) {
		layers = d->layers;
		hf_note(c, "the file has no num_hidden_layers; in %s they are %" PRId32, c->model_type, d->layers);
	}
	if (!layers)
		return hf_json_say(j, HF_BAD, "%snum_hidden_layers is missing", j->path);
	c->layers = (uint32_t)layers;
	return 0;
}

/* What stands above the list, and what each layer ends with: a kind and, when it slides, a window. */
static int finish(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d,
		  bool off)
{
	struct hf_layer *last = &l->layer[c->layers - 1];

	if (d->flags & HF_LAST_FULL && last->kind == WIRE_GROUP_SLIDING) {
		last->kind = WIRE_GROUP_FULL;
		hf_note(c, "the last layer is full in %s, whatever the file says", c->model_type);
	}
	for (uint32_t i = 0; i < c->layers; i++) {
		struct hf_layer *layer = &l->layer[i];

		if (off && layer->kind == WIRE_GROUP_SLIDING)
			layer->kind = WIRE_GROUP_FULL;
		c->without += layer->kind == HF_KEEPS_NOTHING;
		if (layer->kind != WIRE_GROUP_SLIDING)
			layer->window = 0;
		else if (!layer->window)
			layer->window = (int32_t)l->window;
		if (layer->kind == WIRE_GROUP_SLIDING && !layer->window)
			return hf_json_say(j, HF_BAD, "%slayer %" PRIu32 " slides, but sliding_window is %s", j->path,
					   i, json_object_get(j->object, "sliding_window") ? "null" : "missing");
	}
	if (c->without == c->layers)
		return hf_json_say(j, HF_UNMAPPABLE, "%sno layer has an attention", j->path);
	return 0;
}

int hf_layers_read(struct hf_layers *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	bool off;
	int r;

	*out = (struct hf_layers){ 0 };
	if ((r = read_count(c, j, d)) || (r = read_window(out, c, j, d, &off)) || (r = read_kinds(out, c, j, d, off)))
		return r;
	return finish(out, c, j, d, off);
}
