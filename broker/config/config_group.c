/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_group.c - a line of a [model] section that says one layer group
 *
 * "sliding window=1024 layers=20 kv_heads=8 head_dim=128": the kind, then what
 * the keys of a section with one group say, read by the same table. Bytes may
 * stand in place of heads.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "page_shape.h"

static const char *const keys[] = { "window",      "page_tokens", "layers", "kv_heads", "head_dim",
				    "v_head_dim",  "dtype",       "form",   "k_bytes",  "v_bytes",
				    "extra_bytes", "align",       "order",  "tag" };

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

bool config_group_has(const struct config_key *key)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (key->section == SECTION_MODEL && !strcmp(key->name, keys[i]))
			return true;
	return false;
}

static bool has(const struct config_model *m, const char *name)
{
	return m->seen & 1ull << config_key_find(SECTION_MODEL, name);
}

bool config_group_lacks(const struct config_model *m, const struct config_key *key)
{
	if (!key->required || has(m, key->name))
		return false;
	if (!strcmp(key->name, "window"))
		return m->model.groups[0].kind == WIRE_GROUP_SLIDING;
	if (!strcmp(key->name, "kv_heads") || !strcmp(key->name, "head_dim")) /* or bytes instead */
		return !has(m, "k_bytes") && !has(m, "v_bytes");
	return true;
}

void config_group_finish(struct config_model *m)
{
	struct wire_group *g = &m->model.groups[0];

	g->v_head_dim = m->v_head_dim ? m->v_head_dim : g->k_head_dim;
	if (shape_is_raw(g) && !has(m, "dtype"))
		g->dtype = 0;
}

struct config_model config_model_make(int line)
{
	return (struct config_model){
		.line = line,
		.model = { .n_groups = 1,
			   .n_streams = 1,
			   .groups = { { .kind = WIRE_GROUP_SLIDING, .page_tokens = 128, .dtype = WIRE_F16 } } },
	};
}

/* "NAME=VALUE" into @m. */
static int store_word(struct config_model *m, char *word, char *allowed, size_t size)
{
	char *value = strchr(word, '=');
	int index;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	index = config_key_find(SECTION_MODEL, word);
	if (index < 0 || !config_group_has(config_key_at((size_t)index)) || m->seen & 1ull << index)
		return -EINVAL;
	m->seen |= 1ull << index;
	if (config_key_store(config_key_at((size_t)index), m, value, allowed, size) == 0)
		return 0;
	/* What is allowed is of that value. */
	memmove(allowed + strlen(word) + 2, allowed, strlen(allowed) + 1);
	memcpy(allowed, word, strlen(word));
	memcpy(allowed + strlen(word), ": ", 2);
	return -EINVAL;
}

/* The keys that @m must have, of its kind, and no window in a full one. */
static bool is_whole(const struct config_model *m)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (config_group_lacks(m, config_key_at((size_t)config_key_find(SECTION_MODEL, keys[i]))))
			return false;
	return m->model.groups[0].kind == WIRE_GROUP_SLIDING || !has(m, "window");
}

int config_group_store(struct config_model *m, const char *value, char *allowed, size_t size)
{
	struct config_model one = config_model_make(m->line);
	struct wire_group *g = &one.model.groups[0];
	char copy[512], *save, *word;

	snprintf(allowed, size,
		 "up to %d groups of a model, each \"sliding\" or \"full\" and then window=TOKENS (of sliding ones), "
		 "layers=N, kv_heads=N, head_dim=N, and if need be v_head_dim=N, page_tokens=TOKENS, dtype=TYPE, "
		 "form=FORM, extra_bytes=N, align=N, order=ORDER, tag=WORD; or k_bytes=N and v_bytes=N in place of "
		 "heads "
		 "and dtype",
		 WIRE_MAX_GROUPS);
	if (strlen(value) >= sizeof(copy) || m->n_lines == WIRE_MAX_GROUPS)
		return -EINVAL;
	strcpy(copy, value);
	word = strtok_r(copy, " \t", &save);
	if (word && !strcmp(word, "full"))
		g->kind = WIRE_GROUP_FULL;
	else if (!word || strcmp(word, "sliding"))
		return -EINVAL;
	while ((word = strtok_r(NULL, " \t", &save)))
		if (store_word(&one, word, allowed, size) < 0)
			return -EINVAL;
	if (!is_whole(&one))
		return -EINVAL;
	config_group_finish(&one);
	m->model.groups[m->n_lines++] = *g;
	m->model.n_groups = m->n_lines;
	return 0;
}
