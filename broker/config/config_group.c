/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_group.c - a line of a [model] section that says one layer group
 *
 * "sliding window=1024 layers=20 kv_heads=8 head_dim=128": the kind, then what
 * the keys of a section with one group say, read by the same table.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

static const char *const keys[] = { "window", "page_tokens", "layers", "kv_heads", "head_dim", "v_head_dim", "dtype" };

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

bool config_group_has(const struct config_key *key)
{
	for (size_t i = 0; i < N_KEYS; i++)
		if (key->section == SECTION_MODEL && !strcmp(key->name, keys[i]))
			return true;
	return false;
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
	uint64_t needed = 0, window = 1ull << config_key_find(SECTION_MODEL, "window");

	for (size_t i = 2; i < 5; i++)
		needed |= 1ull << config_key_find(SECTION_MODEL, keys[i]);
	if (m->model.groups[0].kind == WIRE_GROUP_SLIDING)
		needed |= window;
	else if (m->seen & window)
		return false;
	return (m->seen & needed) == needed;
}

int config_group_store(struct config_model *m, const char *value, char *allowed, size_t size)
{
	struct config_model one = config_model_make(m->line);
	struct wire_group *g = &one.model.groups[0];
	char copy[512], *save, *word;

	snprintf(allowed, size,
		 "up to %d groups of a model, each \"sliding\" or \"full\" and then window=TOKENS (of sliding ones), "
		 "layers=N, kv_heads=N, head_dim=N, and if need be v_head_dim=N, page_tokens=TOKENS, dtype=TYPE",
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
	g->v_head_dim = one.v_head_dim ? one.v_head_dim : g->k_head_dim;
	m->model.groups[m->n_lines++] = *g;
	m->model.n_groups = m->n_lines;
	return 0;
}
