/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_paste.c - the groups as a worker's source and a broker's configuration have them
 *
 * Both need a name. It is that of the file, or of its folder where the file is
 * a config.json, with no characters that either would not take.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "page_shape.h"
#include "print.h"

enum { NAME = 44 }; /* a section takes 43 bytes of one */

/* The last part of a path of @len bytes. */
static const char *last_part(const char *path, size_t *len)
{
	size_t begin;

	while (*len > 1 && path[*len - 1] == '/')
		--*len;
	for (begin = *len; begin > 0 && path[begin - 1] != '/';)
		begin--;
	*len -= begin;
	return path + begin;
}

static bool is(const char *part, size_t len, const char *text)
{
	return len == strlen(text) && memcmp(part, text, len) == 0;
}

/* "gemma-3-27b" of "gemma-3-27b/config.json" and of "gemma-3-27b.json"; the model's type where a path has no name. */
static void name_of(const char *path, const struct hf_config *c, char name[NAME])
{
	size_t len = strlen(path), n = 0;
	const char *part = last_part(path, &len);

	if (is(part, len, "config.json")) {
		len = (size_t)(part - path);
		part = last_part(path, &len);
	} else if (len > 5 && is(part + len - 5, 5, ".json")) {
		len -= 5;
	}
	if (len == 0 || is(part, len, "-") || is(part, len, ".") || is(part, len, "..") || is(part, len, "/")) {
		part = c->model_type[0] ? c->model_type : "model";
		len = strlen(part);
	}
	for (; n < len && n + 1 < NAME; n++) {
		bool fits = isalnum((unsigned char)part[n]) || strchr("._-", part[n]);

		name[n] = fits && (n || part[n] == '_' || isalnum((unsigned char)part[n])) ? part[n] : '_';
	}
	name[n] = '\0';
}

/* The same as a name in C. */
static void identifier_of(const char *name, char out[NAME + 1])
{
	size_t n = 0;

	if (isdigit((unsigned char)name[0]))
		out[n++] = '_';
	for (; *name; name++)
		out[n++] = isalnum((unsigned char)*name) ? *name : '_';
	out[n] = '\0';
}

/* The rule that was asked for last; without one any step is allowed. */
static const struct rule *rule_of(const struct sizes *z)
{
	return &z->options.rules[z->options.paste_rule];
}

/* "BF16" of "bf16". */
static const char *capitals(const char *name, char out[8])
{
	size_t n = 0;

	for (; name[n] && n < 7; n++)
		out[n] = (char)toupper((unsigned char)name[n]);
	out[n] = '\0';
	return out;
}

/* Heads, or bytes in their place, and what is not as usual. */
static void print_c_shape(FILE *out, const struct wire_group *s)
{
	char dtype[8];

	if (shape_is_raw(s)) {
		fprintf(out, ", .k_bytes = %" PRIu32, s->k_bytes);
	} else {
		fprintf(out, ", .kv_heads = %" PRIu32 ", .head_dim = %" PRIu32, s->kv_heads, s->k_head_dim);
		if (s->v_head_dim != s->k_head_dim)
			fprintf(out, ", .v_head_dim = %" PRIu32, s->v_head_dim);
		fprintf(out, ", .dtype = SWAKV_%s", capitals(hf_dtype_name(s->dtype), dtype));
	}
	if (s->form == WIRE_JOINED)
		fputs(", .form = SWAKV_JOINED", out);
	if (s->tag[0])
		fprintf(out, ", .tag = \"%s\"", s->tag);
}

void print_c(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z)
{
	const struct rule *r = rule_of(z);
	char name[NAME], id[NAME + 1];

	name_of(path, c, name);
	identifier_of(name, id);
	fprintf(out, "static const struct swakv_group %s_groups[] = {\n", id);
	for (uint32_t i = 0; i < z->n_groups; i++) {
		const struct wire_group *s = &z->groups[i].shape;

		if (s->kind == WIRE_GROUP_SLIDING)
			fprintf(out,
				"\t{ .size = sizeof(struct swakv_group), .kind = SWAKV_SLIDING, .window = %" PRId64
				", ",
				s->window);
		else
			fputs("\t{ .size = sizeof(struct swakv_group), .kind = SWAKV_FULL, ", out);
		fprintf(out, ".page_tokens = %" PRIu32 ", .layers = %" PRIu32, s->page_tokens, s->layers);
		print_c_shape(out, s);
		fputs(" },\n", out);
	}
	fprintf(out,
		"};\n"
		"static const struct swakv_model %s = {\n"
		"\t.size = sizeof(struct swakv_model), .name = \"%s\", .groups = %s_groups, .n_groups = %" PRIu32 ",\n"
		"\t.max_batch = %" PRIu32 ", .max_seq = %" PRId64 ",\n",
		id, name, id, z->n_groups, z->options.max_batch, z->options.max_seq);
	if (r->max_advance)
		fprintf(out, "\t.max_advance = %" PRId64 ", .in_flight = %" PRId64 ",\n", r->max_advance, r->in_flight);
	if (r->max_rewind)
		fprintf(out, "\t.max_rewind = %" PRId64 ",\n", r->max_rewind);
	fputs("};\n", out);
}

static void print_ini_heads(FILE *out, const struct wire_group *s)
{
	fprintf(out, " kv_heads=%" PRIu32 " head_dim=%" PRIu32, s->kv_heads, s->k_head_dim);
	if (s->v_head_dim != s->k_head_dim)
		fprintf(out, " v_head_dim=%" PRIu32, s->v_head_dim);
	fprintf(out, " dtype=%s", hf_dtype_name(s->dtype));
}

static void print_ini_shape(FILE *out, const struct wire_group *s)
{
	if (shape_is_raw(s))
		fprintf(out, " k_bytes=%" PRIu32, s->k_bytes);
	else
		print_ini_heads(out, s);
	if (s->form == WIRE_JOINED)
		fputs(" form=joined", out);
	if (s->tag[0])
		fprintf(out, " tag=%s", s->tag);
	fputc('\n', out);
}

void print_ini(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z)
{
	char name[NAME];

	name_of(path, c, name);
	fprintf(out, "[model %s]\nmax_batch = %" PRIu32 "\nmax_seq = %" PRId64 "\n", name, z->options.max_batch,
		z->options.max_seq);
	for (uint32_t i = 0; i < z->n_groups; i++) {
		const struct wire_group *s = &z->groups[i].shape;

		if (s->kind == WIRE_GROUP_SLIDING)
			fprintf(out, "group = sliding window=%" PRId64, s->window);
		else
			fputs("group = full", out);
		fprintf(out, " page_tokens=%" PRIu32 " layers=%" PRIu32, s->page_tokens, s->layers);
		print_ini_shape(out, s);
	}
}
