/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "print.h"
#include "size.h"

/* "max_advance 1, in_flight 2, max_rewind 0"; "any" */
static const char *rule_text(const struct rule *r, char buf[96])
{
	if (r->max_advance == 0 && r->max_rewind == 0)
		snprintf(buf, 96, "any");
	else if (r->max_advance == 0)
		snprintf(buf, 96, "any, max_rewind %" PRId64, r->max_rewind);
	else
		snprintf(buf, 96, "max_advance %" PRId64 ", in_flight %" PRId64 ", max_rewind %" PRId64, r->max_advance,
			 r->in_flight, r->max_rewind);
	return buf;
}

/* A count that a latent row has not. */
static const char *count_text(uint32_t n, char buf[16])
{
	snprintf(buf, 16, n ? "%" PRIu32 : "-", n);
	return buf;
}

static void print_group(FILE *out, const struct hf_config *c, const struct group_sizes *g, uint32_t index)
{
	const struct wire_group *s = &g->shape;
	bool slides = s->kind == WIRE_GROUP_SLIDING;
	char window[24], width[24], heads[16], k[16], v[16];

	snprintf(window, sizeof(window), "%" PRId64, s->window);
	snprintf(width, sizeof(width), "%" PRId32, g->width);
	fprintf(out,
		"%5" PRIu32 "  %-7s  %8s  %6" PRIu32 "  %5" PRIu32 "  %8s  %5s  %5s  %-5s  %13" PRIu64 "  %11" PRIu64
		"  %5s\n",
		index, slides ? "sliding" : "full", slides ? window : "-", s->layers, g->first_layer,
		count_text(s->kv_heads, heads), count_text(s->kv_heads ? s->k_head_dim : c->latent + c->latent_rope, k),
		count_text(s->v_head_dim, v), hf_dtype_name(c->dtype), g->token_bytes, g->page.bytes,
		g->width ? width : "-");
}

static void print_groups(FILE *out, const struct hf_config *c, const struct sizes *z)
{
	fprintf(out,
		"\ngroup  kind       window  layers  first  kv heads  K dim  V dim  dtype  bytes a token   page bytes  "
		"width\n");
	for (uint32_t i = 0; i < z->n_groups; i++)
		print_group(out, c, &z->groups[i], i);
	/* All groups have one form. */
	fprintf(out, "Page bytes are those of %s. A page holds %" PRIu32 " tokens.\n",
		z->groups[0].page.joined ? "a whole, joined page" : "K; V has as many", z->options.page_tokens);
}

static void print_rules(FILE *out, const struct sizes *z)
{
	char text[96], bytes[SIZE_TEXT];

	if (!z->options.max_seq) {
		fputs("\nThe file does not say how long a sequence may get: --max-seq N says what one reserves.\n",
		      out);
		return;
	}
	fprintf(out, "\na sequence of %" PRId64 " tokens reserves\n", z->options.max_seq);
	for (uint32_t i = 0; i < z->options.n_rules; i++) {
		const struct rule_sizes *r = &z->rules[i];

		fprintf(out, "  %s: pages", rule_text(&z->options.rules[i], text));
		for (uint32_t k = 0; k < z->n_groups; k++)
			fprintf(out, "%s %" PRId32, k ? " +" : "", r->pages[k]);
		fprintf(out, ", %" PRIu64 " bytes (%s)", r->bytes, size_text(r->bytes, bytes));
		if (z->options.pool)
			fprintf(out, ": %" PRId64 " in the pool", r->fit);
		fputc('\n', out);
	}
}

static void print_pool(FILE *out, const struct sizes *z)
{
	char pool[SIZE_TEXT], extent[SIZE_TEXT];

	fprintf(out, "\npool of %s, extents of %s of each half\n", size_text(z->options.pool, pool),
		size_text(z->options.extent, extent));
	for (uint32_t i = 0; i < z->n_groups; i++) {
		const struct group_sizes *g = &z->groups[i];

		fprintf(out, "  group %" PRIu32 ": %" PRId64 " pages", i, g->num_pages);
		if (g->num_pages == 0)
			fputs("; one is larger than a half of the pool", out);
		if (g->too_many_pages)
			fputs("; more than the 1073741823 that a broker takes", out);
		if (g->page_above_extent)
			fputs("; one is larger than an extent", out);
		if (g->overflow_page)
			fprintf(out, "; element offsets of page ids from %" PRId64 " on need more than 32 bits",
				g->overflow_page);
		fputc('\n', out);
	}
}

/* What the numbers alone do not say. */
static void print_notes(FILE *out, const struct hf_config *c, const struct sizes *z)
{
	const char *gap = "\n"; /* before the first */

	for (uint32_t i = 0; i < c->n_notes; i++, gap = "")
		fprintf(out, "%snote: %s\n", gap, c->notes[i]);
	for (uint32_t i = 0; i < z->n_groups; i++) {
		const struct group_sizes *g = &z->groups[i];

		if (g->parts > 1 && g->part == 0) {
			fprintf(out,
				"%snote: groups %" PRIu32 " to %" PRIu32 " are equal parts of one, so that no page is "
				"above %" PRIu64 " bytes\n",
				gap, i, i + g->parts - 1, z->options.largest_page);
			gap = "";
		}
		if (g->padding) {
			fprintf(out,
				"%snote: group %" PRIu32 ": %s; %" PRIu64 " bytes of each pair of pages hold nothing\n",
				gap, i, g->v_row ? "K and V heads differ in size" : "there is no V", g->padding);
			gap = "";
		}
		if (g->k_is_v) {
			fprintf(out,
				"%snote: group %" PRIu32
				": V comes from K's projection, but only K is rotated: both are kept\n",
				gap, i);
			gap = "";
		}
	}
}

void print_text(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z)
{
	fprintf(out, "%s: %s, %" PRIu32 " layers, %" PRIu32 " with %s of their own, %" PRIu64 " bytes a token\n", path,
		c->model_type[0] ? c->model_type : "a model without a type", c->layers,
		c->layers - c->shared - c->without, c->latent ? "a latent row" : "K and V", z->token_bytes);
	print_groups(out, c, z);
	print_rules(out, z);
	if (z->options.pool)
		print_pool(out, z);
	print_notes(out, c, z);
}
