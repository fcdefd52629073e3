/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unchanged.c - that a refused call changed nothing
 *
 * Everything that workers and broker show is written down as lines of text
 * before and after; the first line that differs is the answer.
 */
#include <inttypes.h>
#include <string.h>

#include <swakv/error.h>

#include "run.h"

static int add_worker(struct run *r, struct player *p, json_t *lines)
{
	json_t *answer, *line;
	size_t i;

	if (run_ask(r, p, json_pack("{s:s}", "op", "dump"), &answer))
		return -1;
	json_array_foreach(json_object_get(answer, "lines"), i, line)
		json_array_append_new(lines, json_sprintf("worker %s: %s", p->name, json_string_value(line)));
	json_decref(answer);
	return 0;
}

static bool ends_a_wait(const struct statement *st)
{
	return st->kind == ST_ADMITTED || st->kind == ST_TAKEN;
}

static void add_counts(struct run *r, json_t *lines)
{
	const struct status_snapshot *s = r->broker.snapshot;

	json_array_append_new(lines, json_sprintf("pool: held %" PRIu64 " free %" PRIu64 " unusable %" PRIu64,
						  s->pool_held, s->pool_free, s->pool_unusable));
	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *c = &s->classes[i];

		json_array_append_new(lines,
				      json_sprintf("class of %" PRIu64 " bytes%s: available %" PRId64 " free %" PRId64
						   " leased %" PRId64 " quarantined %" PRId64 " extents %" PRIu32,
						   c->page_bytes, c->joined ? ", joined" : "", c->available, c->free,
						   c->leased, c->quarantined, c->extents));
	}
	for (size_t i = 0; i < r->n_players; i++) {
		const struct player *p = &r->players[i];
		const struct status_session *t = broker_session(&r->broker, p->session, p->generation);

		if (p->pid == 0 || !t)
			continue;
		json_array_append_new(lines,
				      json_sprintf("session of worker %s: requests %" PRIu32 " sequences %" PRIu32
						   " open points %" PRIu32 " leased %" PRId64 " quarantined %" PRId64
						   " behind points %" PRId64 " poisoned %" PRIu32 " waiting %" PRIu32,
						   p->name, t->n_requests, t->n_sequences, t->open_points, t->leased,
						   t->quarantined, t->behind_points, t->poisoned,
						   /* that it no longer waits is what the statement is about */
						   ends_a_wait(r->at) ? 0 : t->waiting));
	}
}

int unchanged_look(struct run *r, json_t **lines)
{
	*lines = json_array();
	for (size_t i = 0; i < r->n_players; i++)
		if (r->players[i].pid && !r->players[i].pages && add_worker(r, &r->players[i], *lines))
			return -1;
	if (run_fresh_status(r))
		return -1;
	add_counts(r, *lines);
	return 0;
}

/* What spec section 3 lets a refused call change: `limit` of a prepare turns the request to finishing. */
static void allow_change(const struct run *r, json_t *lines)
{
	char was[160], becomes[160];
	json_t *line;
	size_t i;

	if (r->at->error != SWAKV_ELIMIT || !r->at->request || r->at->kind == ST_REWIND)
		return;
	snprintf(was, sizeof(was), "worker %s: request %s: phase executing", r->at->worker, r->at->request);
	snprintf(becomes, sizeof(becomes), "worker %s: request %s: phase finishing", r->at->worker, r->at->request);
	json_array_foreach(lines, i, line) if (!strcmp(json_string_value(line), was))
		json_array_set_new(lines, i, json_string(becomes));
}

static const char *line_at(const json_t *lines, size_t i)
{
	const char *line = json_string_value(json_array_get(lines, i));

	return line ? line : "nothing more";
}

int unchanged_check(struct run *r, const json_t *before)
{
	json_t *expected = json_deep_copy(before), *now = NULL;
	int e = unchanged_look(r, &now);
	size_t n;

	allow_change(r, expected);
	n = json_array_size(expected) > json_array_size(now) ? json_array_size(expected) : json_array_size(now);
	for (size_t i = 0; i < n && e == 0; i++)
		if (strcmp(line_at(expected, i), line_at(now, i)))
			e = run_difference(r, line_at(expected, i), "%s (the refused call changed it)",
					   line_at(now, i));
	json_decref(expected);
	json_decref(now);
	return e;
}
