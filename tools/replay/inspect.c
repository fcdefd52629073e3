/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspect.c - what a worker sees: its device table, the broker's host table,
 * and the states it may ask for
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_put.h"
#include "lifecycle.h"
#include "worker.h"

static const int32_t *device_row(const struct worker *w, uint32_t group, int32_t slot)
{
	return w->device.tables[group].cells + slot * device_row_cells(&w->device.tables[group]);
}

static const int32_t *host_row(const struct worker *w, uint32_t group, int32_t slot)
{
	return w->layouts[group].host_table + slot * device_row_cells(&w->device.tables[group]);
}

/* The group that a command is about. */
static uint32_t group_of(const struct worker *w, const json_t *command)
{
	json_int_t group = json_integer_value(json_object_get(command, "group"));

	return group > 0 && group < w->n_groups ? (uint32_t)group : 0;
}

/* " of group 1", nothing when there is only one. */
static const char *of_group(const struct worker *w, uint32_t group, char buf[24])
{
	buf[0] = '\0';
	if (w->n_groups > 1)
		snprintf(buf, 24, " of group %" PRIu32, group);
	return buf;
}

/* ---- rows -------------------------------------------------------------------------- */

/* K and V of column @c agree: both empty, or V = K + num_pages; of joined pages one id is both. */
static bool column_whole(const struct device_table *t, const int32_t *row, int32_t c)
{
	int32_t k = row[c], v = row[c + device_v_column(t)];

	return k == -1 ? v == -1 : k >= 0 && k < t->num_pages && v == k + device_v_more(t);
}

static int row_fault(const struct worker *w, uint32_t group, int32_t slot, int32_t c, char *buf, size_t size)
{
	const int32_t *device = device_row(w, group, slot), *host = host_row(w, group, slot);
	const struct device_table *t = &w->device.tables[group];
	char which[24];

	snprintf(buf, size,
		 "slot %" PRId32 " column %" PRId32 "%s: the device table holds K %" PRId32 " V %" PRId32
		 ", the broker's host table K %" PRId32 " V %" PRId32 " (num_pages %" PRId32 ")",
		 slot, c, of_group(w, group, which), device[c], device[c + device_v_column(t)], host[c],
		 host[c + device_v_column(t)], t->num_pages);
	return -1;
}

/*
 * Holds the device row against the host row. With @cleared an entry that the
 * host has cleared may still stand on the device: it goes out with the next
 * prepare. 0, or -1 with the first difference in @buf.
 */
static int row_check(const struct worker *w, uint32_t group, int32_t slot, bool cleared, char *buf, size_t size)
{
	const int32_t *device = device_row(w, group, slot), *host = host_row(w, group, slot);
	const struct device_table *t = &w->device.tables[group];

	for (int32_t c = 0; c < t->width; c++) {
		bool waits = cleared && host[c] == -1 && device[c] >= 0;

		if (!column_whole(t, device, c) || !column_whole(t, host, c) || (device[c] != host[c] && !waits))
			return row_fault(w, group, slot, c, buf, size);
	}
	return 0;
}

static bool owns(const swakv_request *r, int32_t slot)
{
	if (!swakv_request_valid(r))
		return false;
	for (uint32_t i = 0; i < swakv_request_batch(r); i++)
		if (swakv_request_slot(r, i) == slot)
			return true;
	return false;
}

static bool owned_by_another(const struct worker *w, const swakv_request *r, int32_t slot)
{
	for (size_t i = 0; i < w->n_requests; i++)
		if (w->requests[i].request && w->requests[i].request != r && owns(w->requests[i].request, slot))
			return true;
	return false;
}

void inspect_delivered(struct worker *w, const swakv_request *r)
{
	char what[224];

	for (uint32_t g = 0; g < w->n_groups; g++)
		for (int32_t slot = 0; slot < w->device.max_batch && !w->fault[0]; slot++)
			if (!owned_by_another(w, r, slot) && row_check(w, g, slot, false, what, sizeof(what)))
				snprintf(w->fault, sizeof(w->fault), "after the delivery, %s", what);
}

int inspect_row(struct worker *w, const json_t *command, json_t *answer)
{
	int32_t slot = (int32_t)json_integer_value(json_object_get(command, "slot"));
	uint32_t group = group_of(w, command);
	const int32_t *host = host_row(w, group, slot);
	json_t *mapped = json_array();

	(void)row_check(w, group, slot, true, w->fault, sizeof(w->fault));
	for (int32_t c = 0; c < w->device.tables[group].width; c++) {
		json_t *entry;

		if (host[c] < 0)
			continue;
		entry = json_array();
		json_array_append_new(entry, json_integer(c));
		json_array_append_new(entry, json_integer(host[c]));
		json_array_append_new(mapped, entry);
	}
	json_object_set_new(answer, "mapped", mapped);
	return 0;
}

/* ---- states ------------------------------------------------------------------------ */

static swakv_request *find(struct worker *w, const json_t *command)
{
	struct worker_request *r = worker_request_find(w, json_string_value(json_object_get(command, "request")));

	return r ? r->request : NULL;
}

int inspect_state(struct worker *w, const json_t *command, json_t *answer)
{
	int64_t seq = json_integer_value(json_object_get(command, "seq"));
	struct swakv_sequence_state state = { .size = sizeof(state) };
	int code = swakv_sequence_get_group_state(find(w, command), (uint32_t)seq, group_of(w, command), &state);

	if (code)
		return code;
	json_put(answer, "endpoint", state.endpoint);
	json_put(answer, "begin", state.retained_begin);
	json_put(answer, "end", state.retained_end);
	json_put(answer, "bound", state.n_bindings);
	json_put(answer, "reserved", state.n_reserved);
	json_put(answer, "staged", state.n_retiring + state.n_staged);
	json_put(answer, "pending", state.pending_endpoint);
	json_put(answer, "slot", state.slot);
	swakv_sequence_state_clear(&state);
	return 0;
}

int inspect_request(struct worker *w, const json_t *command, json_t *answer)
{
	swakv_request *r = find(w, command);
	struct swakv_request_state state = { .size = sizeof(state) };
	int code = 0;

	json_put_bool(answer, "valid", swakv_request_valid(r));
	if (swakv_request_valid(r))
		code = swakv_request_get_state(r, &state);
	/* An ended request has no state any more: that is its state. */
	json_put(answer, "phase", state.phase);
	json_put_bool(answer, "pending", state.transition != SWAKV_NO_TRANSITION);
	json_put(answer, "open", state.open_points);
	return code;
}

/* ---- pages ------------------------------------------------------------------------- */

static void add_pages(json_t *list, const struct swakv_sequence_state *state)
{
	for (uint32_t i = 0; i < state->n_bindings; i++)
		json_array_append_new(list, json_integer(state->bindings[i].page));
	for (uint32_t i = 0; i < state->n_reserved; i++)
		json_array_append_new(list, json_integer(state->reserved[i]));
	for (uint32_t i = 0; i < state->n_retiring; i++)
		json_array_append_new(list, json_integer(state->retiring[i].page));
	for (uint32_t i = 0; i < state->n_staged; i++)
		json_array_append_new(list, json_integer(state->staged[i]));
}

static int sequence_pages(const struct worker_request *r, uint32_t seq, uint32_t group, json_t *sequences)
{
	struct swakv_sequence_state state = { .size = sizeof(state) };
	int code = swakv_sequence_get_group_state(r->request, seq, group, &state);
	json_t *pages;

	if (code)
		return code;
	pages = json_array();
	add_pages(pages, &state);
	json_array_append_new(sequences, json_pack("{s:s, s:i, s:i, s:o}", "request", r->name, "seq", (int)seq,
						   "staged", (int)state.n_staged, "pages", pages));
	swakv_sequence_state_clear(&state);
	return 0;
}

/* Those that the worker manages itself stand beside its sequences. */
static void add_taken(const struct worker *w, uint32_t group, json_t *sequences)
{
	for (const struct worker_pages *p = w->pages; p; p = p->next) {
		json_t *pages = json_array();

		for (uint32_t i = p->n_given; i < p->n && p->group == group; i++)
			json_array_append_new(pages, json_integer(p->ids[i]));
		json_array_append_new(sequences, json_pack("{s:s, s:i, s:i, s:o}", "request", p->name, "seq", 0,
							   "staged", 0, "pages", pages));
	}
}

static int group_pages(struct worker *w, uint32_t group, json_t *object)
{
	const struct swakv_layout *l = &w->layouts[group];
	json_t *sequences = json_array();
	int code = 0;

	for (size_t i = 0; i < w->n_requests && code == 0; i++)
		if (swakv_request_valid(w->requests[i].request))
			for (uint32_t q = 0; q < swakv_request_batch(w->requests[i].request) && code == 0; q++)
				code = sequence_pages(&w->requests[i], q, group, sequences);
	add_taken(w, group, sequences);
	json_object_set_new(object, "sequences", sequences);
	json_put(object, "first", (l->first_page - w->pool));
	json_put(object, "v_base", (l->v_base - w->pool));
	json_put_bool(object, "joined", l->form == SWAKV_JOINED);
	json_put(object, "stride", l->page_stride);
	json_put(object, "num_pages", l->num_pages);
	return code;
}

int inspect_pages(struct worker *w, const json_t *command, json_t *answer)
{
	json_t *groups = json_array();
	int code = 0;

	(void)command;
	for (uint32_t g = 0; g < w->n_groups && code == 0; g++) {
		json_t *object = json_object();

		code = group_pages(w, g, object);
		json_array_append_new(groups, object);
	}
	json_object_set_new(answer, "groups", groups);
	return code;
}

/* ---- dump -------------------------------------------------------------------------- */

static void add_line(json_t *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_line(json_t *lines, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	json_array_append_new(lines, json_vsprintf(format, args));
	va_end(args);
}

static void dump_table(const struct worker *w, uint32_t group, const char *name, const int32_t *table, json_t *lines)
{
	const struct device_table *t = &w->device.tables[group];
	int32_t width = t->width, v = device_v_column(t);
	char which[24];

	for (int32_t slot = 0; slot < w->device.max_batch; slot++)
		for (int32_t c = 0; c < width; c++) {
			const int32_t *k = table + slot * device_row_cells(t) + c;

			if (k[0] != -1 || k[v] != -1)
				add_line(lines,
					 "%s table%s slot %" PRId32 " column %" PRId32 ": K %" PRId32 " V %" PRId32,
					 name, of_group(w, group, which), slot, c, k[0], k[v]);
		}
}

static void dump_bindings(json_t *lines, const char *where, const char *what, const struct swakv_binding *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		add_line(lines, "%s: %s %" PRId32 "=%" PRId32, where, what, b[i].logical_page, b[i].page);
}

static int dump_sequence(const struct worker *w, const struct worker_request *r, uint32_t seq, uint32_t group,
			 json_t *lines)
{
	struct swakv_sequence_state s = { .size = sizeof(s) };
	int code = swakv_sequence_get_group_state(r->request, seq, group, &s);
	char where[104], which[24];

	if (code)
		return code;
	snprintf(where, sizeof(where), "request %s sequence %" PRIu32 "%s", r->name, seq, of_group(w, group, which));
	add_line(lines,
		 "%s: slot %" PRId32 " generation %" PRIu32 " endpoint %" PRId64 " pending %" PRId64 " begin %" PRId32
		 " end %" PRId32 " length %" PRId32 " map %" PRId32,
		 where, s.slot, s.generation, s.endpoint, s.pending_endpoint, s.retained_begin, s.retained_end,
		 s.input_length, s.pending_map);
	dump_bindings(lines, where, "bound", s.bindings, s.n_bindings);
	dump_bindings(lines, where, "new", s.new_bindings, s.n_new);
	dump_bindings(lines, where, "retiring", s.retiring, s.n_retiring);
	for (uint32_t i = 0; i < s.n_reserved; i++)
		add_line(lines, "%s: reserved %" PRId32, where, s.reserved[i]);
	for (uint32_t i = 0; i < s.n_staged; i++)
		add_line(lines, "%s: staged %" PRId32, where, s.staged[i]);
	swakv_sequence_state_clear(&s);
	return 0;
}

static int dump_request(const struct worker *w, const struct worker_request *r, json_t *lines)
{
	struct swakv_request_state s = { .size = sizeof(s) };
	int code;

	add_line(lines, "request %s: %s", r->name, swakv_request_valid(r->request) ? "valid" : "not valid");
	if (!swakv_request_valid(r->request))
		return 0;
	code = swakv_request_get_state(r->request, &s);
	if (code)
		return code;
	add_line(lines, "request %s: phase %s", r->name, phase_name((int)s.phase));
	add_line(lines, "request %s: transition %d batch %" PRIu32 " open points %" PRIu32 " pending batch %" PRId32,
		 r->name, (int)s.transition, s.batch, s.open_points, s.pending_batch);
	for (uint32_t i = 0; i < s.batch * w->n_groups && code == 0; i++)
		code = dump_sequence(w, r, i / w->n_groups, i % w->n_groups, lines);
	return code;
}

int inspect_dump(struct worker *w, const json_t *command, json_t *answer)
{
	json_t *lines = json_array();
	int code = 0;

	(void)command;
	for (size_t i = 0; i < w->n_requests && code == 0; i++)
		if (w->requests[i].request) /* else its begin was refused: it never was */
			code = dump_request(w, &w->requests[i], lines);
	for (const struct worker_pages *p = w->pages; p; p = p->next)
		add_line(lines, "pages %s: %" PRIu32 " of %" PRIu32 " given", p->name, p->n_given, p->n);
	for (uint32_t g = 0; g < w->n_groups; g++) {
		dump_table(w, g, "host", w->layouts[g].host_table, lines);
		dump_table(w, g, "device", w->device.tables[g].cells, lines);
	}
	json_object_set_new(answer, "lines", lines);
	return code;
}
