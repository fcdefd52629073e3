/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_model.c - what a [model] section says as a whole
 *
 * Only limits, or all that a worker would declare: then its groups are checked
 * as the engine checks those of a worker, as far as that needs no pool.
 */
#include <inttypes.h>
#include <string.h>

#include "config.h"
#include "engine/model.h"
#include "size.h"

/* True when a limit was given, and nothing but that of what the model is. */
static bool only_limits(const struct config_model *m)
{
	uint64_t name = 1ull << config_key_find(SECTION_MODEL, "name");
	uint64_t limits =
		1ull << config_key_find(SECTION_MODEL, "floor") | 1ull << config_key_find(SECTION_MODEL, "ceiling");

	return (m->seen & limits) && !(m->seen & ~(limits | name));
}

/* Limits are found by name: two sections of one name would contradict each other. */
static int finish_name(struct config *c, struct config_model *m, const char *path, struct config_error *e)
{
	if (!m->name[0])
		strcpy(m->name, m->label);
	for (const struct config_model *other = c->models; other < m; other++)
		if (!strcmp(other->name, m->name))
			return config_fail(e, "%s:%d: [model %s]: the model \"%s\" has a section in line %d already",
					   path, m->line, m->label, m->name, other->line);
	return 0;
}

/* What no pool could hold. */
static int check_groups(const struct config_model *m, const char *path, struct config_error *e)
{
	struct fault f = { 0 };
	char text[192];

	for (uint32_t i = 0; i < m->model.n_groups; i++) {
		if (model_check_group(&m->model.groups[i], &f) == 0)
			continue;
		f.seq = m->model.n_groups > 1 ? (int32_t)i : -1;
		fault_format(&f, text, sizeof(text));
		return config_fail(e, "%s:%d: [model %s]: %s", path, m->line, m->label, text);
	}
	return 0;
}

uint64_t config_limit_bytes(const struct config_size *limit, uint64_t half_bytes)
{
	return limit->percent ? size_share(2 * half_bytes, (uint32_t)limit->value) : limit->value;
}

static int finish_model(struct config_model *m, const char *path, struct config_error *e)
{
	/* One in bytes and one in percent are compared once the pool is known: see plan_floors(). */
	if (m->ceiling.value && m->floor.percent == m->ceiling.percent && m->floor.value > m->ceiling.value)
		return config_fail(e, "%s:%d: [model %s]: the floor of %" PRIu64 "%s is above the ceiling of %" PRIu64,
				   path, m->line, m->label, m->floor.value, m->floor.percent ? "%" : " bytes",
				   m->ceiling.value);
	m->limits_only = only_limits(m);
	if (m->limits_only)
		return 0;

	for (size_t i = 0; config_key_at(i); i++) {
		const struct config_key *key = config_key_at(i);
		bool in_lines = m->n_lines && config_group_has(key), seen = m->seen & (1ull << i);

		if (key->section != SECTION_MODEL)
			continue;
		if (seen && in_lines)
			return config_fail(e, "%s:%d: [model %s]: %s beside group: give it in each group line", path,
					   m->line, m->label, key->name);
		if (key->required && !seen && !in_lines && (!config_group_has(key) || config_group_lacks(m, key)))
			return config_fail(e, "%s:%d: [model %s] lacks the key %s (%s)", path, m->line, m->label,
					   key->name, key->help);
	}
	if (!m->n_lines)
		config_group_finish(m);
	return check_groups(m, path, e);
}

int config_model_finish(struct config *c, struct config_model *m, const char *path, struct config_error *e)
{
	int r = finish_name(c, m, path, e);

	return r ? r : finish_model(m, path, e);
}
