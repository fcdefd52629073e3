/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_layers.c - see hf_layers.h
 *
 * Model types say it in different ways. The first that is there counts:
 * layer_types (a name for each layer), hybrid_layer_pattern (0 or 1 for each),
 * sliding_window_pattern (each n-th is full, or letters to repeat), the pattern
 * of the type, max_window_layers (full below it), a window alone (all slide).
 * Over all of them stands use_sliding_window: false.
 */
#include "hf_layers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define QWEN_MAX_WINDOW_LAYERS 28 /* what the file leaves out when it is this */

void hf_note(struct hf_config *c, const char *format, ...)
{
	va_list list;

	if (c->n_notes == HF_MAX_NOTES)
		return;
	va_start(list, format);
	vsnprintf(c->notes[c->n_notes++], HF_NOTE, format, list);
	va_end(list);
}

static void all(struct hf_layers *l, uint8_t kind)
{
	memset(l->kind, kind, sizeof(l->kind));
}

/* Layers n - 1, 2n - 1, ... are full. */
static void each_nth_full(struct hf_layers *l, int64_t n)
{
	for (int64_t i = 0; i < HF_MAX_LAYERS; i++)
		l->kind[i] = (i + 1) % n ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
}

/* An array with one entry for each layer, or NULL with the sentence. */
static const json_t *list_of_layers(const struct hf_json *j, const char *field, uint32_t layers)
{
	const json_t *list = hf_json_field(j, field);
	char expected[64];

	if (json_is_array(list) && json_array_size(list) == layers)
		return list;
	if (json_is_array(list)) {
		hf_json_say(j, HF_BAD, "%s%s has %zu entries, but num_hidden_layers is %" PRIu32, j->path, field,
			    json_array_size(list), layers);
		return NULL;
	}
	snprintf(expected, sizeof(expected), "a list with one entry for each of the %" PRIu32 " layers", layers);
	hf_json_refuse(j, field, list, expected);
	return NULL;
}

static int refuse_entry(const struct hf_json *j, int code, const char *field, size_t i, const json_t *value,
			const char *what)
{
	char text[64];

	return hf_json_say(j, code, "%s%s[%zu] is %s, %s", j->path, field, i, hf_json_text(value, text, sizeof(text)),
			   what);
}

static int read_layer_types(struct hf_layers *l, const struct hf_json *j, uint32_t layers)
{
	const json_t *list = list_of_layers(j, "layer_types", layers), *entry;
	size_t i;

	if (!list)
		return HF_BAD;
	json_array_foreach(list, i, entry)
	{
		const char *type = json_string_value(entry);

		if (!type)
			return refuse_entry(j, HF_BAD, "layer_types", i, entry, "expected the name of an attention");
		if (strcmp(type, "sliding_attention") == 0)
			l->kind[i] = WIRE_GROUP_SLIDING;
		else if (strcmp(type, "full_attention") == 0 || strcmp(type, "attention") == 0)
			l->kind[i] = WIRE_GROUP_FULL;
		else if (strcmp(type, "chunked_attention") == 0)
			return refuse_entry(j, HF_UNMAPPABLE, "layer_types", i, entry,
					    "which forgets whole chunks at a time: no sliding window");
		else
			return refuse_entry(j, HF_UNMAPPABLE, "layer_types", i, entry,
					    "a layer without K and V pages that slide or are full");
	}
	return 0;
}

static int read_hybrid(struct hf_layers *l, const struct hf_json *j, uint32_t layers)
{
	const json_t *list = list_of_layers(j, "hybrid_layer_pattern", layers), *entry;
	size_t i;

	if (!list)
		return HF_BAD;
	json_array_foreach(list, i, entry)
	{
		if (!json_is_integer(entry) || json_integer_value(entry) < 0 || json_integer_value(entry) > 1)
			return refuse_entry(j, HF_BAD, "hybrid_layer_pattern", i, entry,
					    "expected 0 (full) or 1 (sliding)");
		l->kind[i] = json_integer_value(entry) ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
	}
	return 0;
}

/* "LLLG", from the first layer on and again and again; the last layer is full. */
static int read_letters(struct hf_layers *l, const struct hf_json *j, const char *field, uint32_t layers)
{
	const json_t *value = hf_json_field(j, field);
	const char *letters = json_string_value(value);
	size_t n = strlen(letters);

	if (n == 0 || strspn(letters, "LG") != n)
		return hf_json_refuse(j, field, value, "letters L (sliding) and G (full), or a whole number");
	for (uint32_t i = 0; i < layers; i++)
		l->kind[i] = letters[i % n] == 'L' && i + 1 < layers ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL;
	return 0;
}

static int read_pattern(struct hf_layers *l, const struct hf_json *j, const char *field, uint32_t layers)
{
	int64_t n = 0;
	int r;

	if (json_is_string(hf_json_field(j, field)))
		return read_letters(l, j, field, layers);
	r = hf_json_count(j, field, INT32_MAX, &n);
	if (r == 0)
		each_nth_full(l, n);
	return r;
}

/* Layers from max_window_layers on slide; a number above their count leaves none. */
static int read_max_window_layers(struct hf_layers *l, struct hf_config *c, const struct hf_json *j)
{
	const json_t *v = hf_json_field(j, "max_window_layers");
	int64_t first = v ? json_integer_value(v) : QWEN_MAX_WINDOW_LAYERS;

	if (v && (!json_is_integer(v) || first < 0 || first > INT32_MAX))
		return hf_json_refuse(j, "max_window_layers", v, "a whole number from 0 to 2147483647");
	for (int64_t i = 0; i < HF_MAX_LAYERS; i++)
		l->kind[i] = i < first ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING;
	if (first >= c->layers)
		hf_note(c, "max_window_layers is %" PRId64 ", not below the %" PRIu32 " layers: all are full", first,
			c->layers);
	return 0;
}

static int read_kinds(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	if (hf_json_field(j, "layer_types"))
		return read_layer_types(l, j, c->layers);
	if (hf_json_field(j, "hybrid_layer_pattern"))
		return read_hybrid(l, j, c->layers);
	if (!l->window) {
		all(l, WIRE_GROUP_FULL);
		return 0;
	}
	if (hf_json_field(j, "sliding_window_pattern"))
		return read_pattern(l, j, "sliding_window_pattern", c->layers);
	if (hf_json_field(j, "_sliding_window_pattern"))
		return read_pattern(l, j, "_sliding_window_pattern", c->layers);
	if (hf_json_field(j, "max_window_layers") || hf_defaults_window_off(c->model_type))
		return read_max_window_layers(l, c, j);
	if (d->pattern) {
		each_nth_full(l, d->pattern);
		hf_note(c, "the file does not say which layers slide; in %s one of %" PRId64 " is full", c->model_type,
			d->pattern);
		return 0;
	}
	all(l, WIRE_GROUP_SLIDING);
	if (!d->all_slide)
		hf_note(c, "the file has a window and does not say which layers slide: taken as all of them");
	return 0;
}

/* The window, 0 when there is none or it is not in use. */
static int read_window(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d,
		       bool *off)
{
	bool use = !hf_defaults_window_off(c->model_type);
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
	/* A null window is none; one that is not written is that of the type. */
	if (!json_object_get(j->object, "sliding_window") && !json_object_get(j->object, "sliding_window_size")) {
		l->window = d->window;
		if (d->window)
			hf_note(c, "the file has no sliding_window; in %s it is %" PRId64, c->model_type, d->window);
	}
	r = hf_json_count(j, "sliding_window_size", INT32_MAX, &l->window);
	return r ? r : hf_json_count(j, "sliding_window", INT32_MAX, &l->window);
}

static int read_shared(struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	const json_t *v = hf_json_field(j, "num_kv_shared_layers");
	int64_t n = v ? json_integer_value(v) : d->shared;

	if (v && (!json_is_integer(v) || n < 0 || n > HF_MAX_LAYERS))
		return hf_json_refuse(j, "num_kv_shared_layers", v, "a whole number from 0 to 4096");
	if (n >= c->layers)
		return hf_json_say(j, HF_UNMAPPABLE,
				   "%snum_kv_shared_layers is %" PRId64 " of %" PRIu32
				   " layers: none keeps K and V of its own",
				   j->path, n, c->layers);
	c->shared = (uint32_t)n;
	if (n)
		hf_note(c, "the last %" PRId64 " layers read the K and V of earlier ones and keep none", n);
	return 0;
}

int hf_layers_read(struct hf_layers *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t layers = 0;
	bool off;
	int r;

	if (!hf_json_field(j, "num_hidden_layers"))
		return hf_json_say(j, HF_BAD, "%snum_hidden_layers is missing", j->path);
	if ((r = hf_json_count(j, "num_hidden_layers", HF_MAX_LAYERS, &layers)))
		return r;
	c->layers = (uint32_t)layers;
	if ((r = read_window(out, c, j, d, &off)) || (r = read_kinds(out, c, j, d)) || (r = read_shared(c, j, d)))
		return r;
	if (d->last_full && out->kind[layers - 1] != WIRE_GROUP_FULL) {
		out->kind[layers - 1] = WIRE_GROUP_FULL;
		hf_note(c, "the last layer is full in %s, whatever the file says", c->model_type);
	}
	for (int64_t i = 0; i < layers; i++) {
		if (off)
			out->kind[i] = WIRE_GROUP_FULL;
		if (out->kind[i] == WIRE_GROUP_SLIDING && !out->window)
			return hf_json_say(j, HF_BAD, "%slayer %" PRId64 " slides, but sliding_window is %s", j->path,
					   i, json_object_get(j->object, "sliding_window") ? "null" : "missing");
	}
	return 0;
}
