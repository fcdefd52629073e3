/* SPDX-License-Identifier: Apache-2.0 */
/* show_map.c - see show_map.h; in JSON the extents stand in columns, since they may be thousands */
#include "show_map.h"

#include <inttypes.h>

#include "json_put.h"
#include "text.h"

enum { ROW = 64 }; /* extents on a line */

static int64_t class_of(const struct status_extent *x)
{
	return x->page_class == STATUS_NO_CLASS ? -1 : x->page_class;
}

#define COLUMN(key, value)                                                                                             \
	{                                                                                                              \
		json_t *column = json_array();                                                                         \
		for (uint32_t i = 0; i < s->n_extents; i++) {                                                          \
			const struct status_extent *x = &s->extents[i];                                                \
			json_array_append_new(column, json_integer(value));                                            \
		}                                                                                                      \
		json_object_set_new(map, key, column);                                                                 \
	}

/* Numbers of the extents that have @flag. */
static json_t *flagged(const struct status_snapshot *s, uint8_t flag)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < s->n_extents; i++)
		if (s->extents[i].flags & flag)
			json_array_append_new(array, json_integer(i));
	return array;
}

json_t *map_json(const struct status_snapshot *s)
{
	json_t *map = json_object();

	json_put(map, "extents", s->pool_extents);
	COLUMN("class", class_of(x))
	COLUMN("live", x->live)
	COLUMN("free", x->free)
	COLUMN("quarantined", x->quarantined)
	COLUMN("session", x->session)
	json_object_set_new(map, "shared", flagged(s, STATUS_EXTENT_SHARED));
	json_object_set_new(map, "emptying", flagged(s, STATUS_EXTENT_EMPTYING));
	json_object_set_new(map, "claimed", flagged(s, STATUS_EXTENT_CLAIMED));
	return map;
}

json_t *events_json(const struct sample *s)
{
	uint64_t ever = s->snapshot.events_ever;
	json_t *array = json_array();

	for (uint64_t k = status_event_first(ever); k < ever; k++) {
		const struct status_event *x = &s->snapshot.events[status_event_place(k)];
		json_t *object = json_object();

		json_put(object, "number", (int64_t)k);
		json_put_text(object, "event", text_event(x->kind));
		json_put(object, "age_ms", sample_age_ms(s, x->at_ns));
		json_put(object, "session", x->session);
		json_put(object, "generation", x->generation);
		json_put(object, "pid", x->pid);
		json_put(object, "uid", x->uid);
		json_put_text(object, "model", x->model);
		json_put(object, "pages", x->pages);
		json_put_text(object, "text", x->text);
		json_array_append_new(array, object);
	}
	return array;
}

/* '.' of no class; else the letter of its class, capital where a page is live; '!' where one is in quarantine. */
static char character(const struct status_extent *x)
{
	if (x->page_class == STATUS_NO_CLASS)
		return '.';
	if (x->quarantined > 0)
		return '!';
	return (char)((x->live > 0 ? 'A' : 'a') + x->page_class % 26);
}

void map_write(FILE *out, const struct status_snapshot *s)
{
	fprintf(out,
		"\n%" PRIu32 " extents: . of no class, a b ... of class 0, 1, ..., capital with live pages, ! with "
		"pages in quarantine\n",
		s->pool_extents);
	for (uint32_t i = 0; i < s->n_extents; i++) {
		if (i % ROW == 0)
			fprintf(out, "%7" PRIu32 "  ", i);
		fputc(character(&s->extents[i]), out);
		if (i % ROW == ROW - 1 || i + 1 == s->n_extents)
			fputc('\n', out);
	}
	if (s->n_extents < s->pool_extents)
		fprintf(out, "  those from %" PRIu32 " on are not listed\n", s->n_extents);
}

void events_write(FILE *out, const struct sample *s)
{
	uint64_t ever = s->snapshot.events_ever, first = status_event_first(ever);
	char a[TEXT_SIZE];

	fprintf(out, "\n%" PRIu64 " events since the start, the last %" PRIu64 ":\n", ever, ever - first);
	for (uint64_t k = first; k < ever; k++) {
		const struct status_event *x = &s->snapshot.events[status_event_place(k)];

		fprintf(out, "%10s ago  %-12s", text_duration(a, sample_age_ms(s, x->at_ns)), text_event(x->kind));
		if (x->session)
			fprintf(out, "  session %u.%u (pid %d, %s)", x->session, x->generation, x->pid, x->model);
		else if (x->model[0])
			fprintf(out, "  model %s", x->model);
		if (x->pages)
			fprintf(out, ", %" PRId64 " pages", x->pages);
		fprintf(out, "%s%s\n", x->text[0] ? ": " : "", x->text);
	}
}
