/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.c - see sizes.h
 *
 * All products stay below 2^47 for a page; those that a long sequence or a
 * large pool multiplies further are checked. Window arithmetic is the page
 * engine's own.
 */
#include "sizes.h"

#include <inttypes.h>
#include <stdio.h>

#include "extent.h"
#include "fit.h"
#include "page_shape.h"
#include "window.h"

#define MOST_PAGES (INT32_MAX / 2) /* so that V ids are int32, too */

/* ---- groups ------------------------------------------------------------- */

static void measure(struct group_sizes *g, int64_t max_seq)
{
	const struct wire_group *s = &g->shape;
	struct window w = window_kept(s->window, 0, s->page_tokens);
	struct page_shape shape = { 0 };

	(void)shape_find(s, &shape);
	g->k_row = shape.k_row;
	g->v_row = shape.v_row;
	g->token_bytes = (shape.k_row + shape.v_row) * s->layers;
	g->layer_stride = shape.layer_stride;
	g->page = (struct page_key){ shape.page_bytes, shape.joined };
	g->padding = page_key_whole(g->page) - g->token_bytes * s->page_tokens;
	g->width = window_width(&w, max_seq);
}

/* Into how many equal parts the layers of @g go, so that no page is above @largest; 0: one layer alone is. */
static uint32_t parts_of(const struct group_sizes *g, uint64_t largest)
{
	for (uint32_t parts = 1; parts <= g->shape.layers; parts++)
		if (g->shape.layers % parts == 0 && g->page.bytes / parts <= largest)
			return parts;
	return 0;
}

static int add_group(struct sizes *z, const struct group_sizes *whole, const char **what)
{
	uint64_t largest = z->options.largest_page ? z->options.largest_page : UINT64_MAX;
	uint32_t parts = parts_of(whole, largest);

	*what = parts ? "and a model has at most 8 groups" : "and one layer of it alone is larger";
	if (!parts || parts > WIRE_MAX_GROUPS - z->n_groups)
		return HF_UNMAPPABLE;
	for (uint32_t i = 0; i < parts; i++) {
		struct group_sizes *g = &z->groups[z->n_groups++];

		*g = *whole;
		g->part = i;
		g->parts = parts;
		g->shape.layers /= parts;
		measure(g, z->options.max_seq);
	}
	z->token_bytes += whole->token_bytes;
	return 0;
}

static int add_groups(struct sizes *z, const struct hf_config *c, char *why, size_t why_size)
{
	for (uint32_t i = 0; i < c->n_groups; i++) {
		struct group_sizes whole = {
			.shape = c->groups[i].shape,
			.first_layer = c->groups[i].first_layer,
			.k_is_v = c->groups[i].k_is_v,
		};
		const char *what;

		whole.shape.page_tokens = z->options.page_tokens;
		if (z->options.form)
			whole.shape.form = z->options.form - 1;
		measure(&whole, z->options.max_seq);
		if (add_group(z, &whole, &what) == 0)
			continue;
		snprintf(why, why_size,
			 "pages of at most %" PRIu64 " bytes: group %" PRIu32 " has pages of %" PRIu64
			 " bytes in %" PRIu32 " layers, %s",
			 z->options.largest_page, i, whole.page.bytes, whole.shape.layers, what);
		return HF_UNMAPPABLE;
	}
	return 0;
}

/* ---- sequences ---------------------------------------------------------- */

static int32_t pages_of(const struct group_sizes *g, int64_t max_seq, const struct rule *r)
{
	struct window w = window_kept(g->shape.window, r->max_rewind, g->shape.page_tokens);

	return window_reservation(&w, max_seq, r->max_advance, 1);
}

static int add_rule(struct sizes *z, uint32_t index, char *why, size_t why_size)
{
	struct rule_sizes *r = &z->rules[index];

	for (uint32_t i = 0; i < z->n_groups; i++) {
		uint64_t bytes;

		r->pages[i] = pages_of(&z->groups[i], z->options.max_seq, &z->options.rules[index]);
		if (__builtin_mul_overflow(page_key_whole(z->groups[i].page), (uint64_t)r->pages[i], &bytes) ||
		    __builtin_add_overflow(r->bytes, bytes, &r->bytes) || r->bytes > INT64_MAX) {
			snprintf(why, why_size,
				 "a sequence of %" PRId64 " tokens takes more bytes than 63 bits can count",
				 z->options.max_seq);
			return HF_BAD;
		}
	}
	return 0;
}

/* ---- the pool ----------------------------------------------------------- */

/* Offsets count elements, of a latent row bytes, as the layout that the library answers does. */
static void measure_pool(struct group_sizes *g, uint64_t half, uint64_t extent)
{
	uint64_t unit = shape_is_raw(&g->shape) ? 1 : element_bytes(g->shape.dtype);
	uint64_t stride = unit ? g->page.bytes / unit : 0, whole = page_key_whole(g->page), n, ids, first;

	if (!stride || !whole)
		return; /* hf_config_read() takes no such shape */
	n = g->page.bytes > half ? 0 : 2 * half / whole;
	ids = g->page.joined ? n : 2 * n; /* those of V count, too */
	first = INT32_MAX / stride + 1;
	g->too_many_pages = n > MOST_PAGES;
	g->num_pages = (int64_t)n;
	g->overflow_page = n && first <= ids - 1 ? (int64_t)first : 0;
	g->page_above_extent = g->page.bytes > extent;
}

/* What was asked for, else what the broker takes by itself for models of these pages. Never above the half. */
static uint64_t extent_of(const struct sizes *z, uint64_t half)
{
	uint64_t largest = 0;

	for (uint32_t i = 0; i < z->n_groups; i++)
		if (largest < z->groups[i].page.bytes)
			largest = z->groups[i].page.bytes;
	if (!z->options.extent)
		return extent_default(half, largest);
	return z->options.extent < half ? z->options.extent : half;
}

/* True when @n sequences of rule @r have room; @n is at most the pool over the bytes of one: no product overflows. */
static bool have_room(const struct sizes *z, const struct rule_sizes *r, uint64_t half, int64_t n)
{
	struct fit_need needs[WIRE_MAX_GROUPS];
	uint32_t n_needs = 0;

	for (uint32_t i = 0; i < z->n_groups; i++)
		fit_add(needs, &n_needs, z->groups[i].page, (uint64_t)r->pages[i] * (uint64_t)n);
	return fit_extents(half, z->options.extent, needs, n_needs, NULL) >= 0;
}

static void fit(const struct sizes *z, struct rule_sizes *r, uint64_t half)
{
	int64_t none = 0, most = (int64_t)(2 * half / r->bytes) + 1;

	/* Between them lies the answer: `none` have room, `most` have not. */
	while (most - none > 1) {
		int64_t middle = none + (most - none) / 2;

		if (have_room(z, r, half, middle))
			none = middle;
		else
			most = middle;
	}
	r->fit = none;
}

int sizes_make(struct sizes *out, const struct hf_config *c, const struct sizes_options *o, char *why, size_t why_size)
{
	uint64_t half = o->pool / 2;
	int r;

	*out = (struct sizes){ .options = *o };
	if (!out->options.max_seq)
		out->options.max_seq = c->max_seq;
	if ((r = add_groups(out, c, why, why_size)))
		return r;
	if (!out->options.max_seq)
		out->options.n_rules = 0;
	for (uint32_t i = 0; i < out->options.n_rules; i++)
		if ((r = add_rule(out, i, why, why_size)))
			return r;
	if (!half)
		return 0;
	out->options.extent = extent_of(out, half);
	for (uint32_t i = 0; i < out->n_groups; i++)
		measure_pool(&out->groups[i], half, out->options.extent);
	for (uint32_t i = 0; i < out->options.n_rules; i++)
		fit(out, &out->rules[i], half);
	return 0;
}
