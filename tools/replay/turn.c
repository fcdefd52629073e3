/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - the operation that ends steps of many requests and begins their next ones in one message */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json_put.h"
#include "operations.h"

/* The message while it is put together: an entry for each request, of a name each. */
struct list {
	uint32_t n;
	struct swakv_turn *turns;
	const char **names;
	int32_t *numbers; /* what entries list, one list behind the other */
	struct swakv_begin_options begin;
};

static struct swakv_turn *entry_of(struct list *l, const char *name, swakv_request *r)
{
	uint32_t i = 0;

	while (i < l->n && strcmp(l->names[i], name) != 0)
		i++;
	if (i == l->n) {
		l->names[l->n++] = name;
		l->turns[i] = (struct swakv_turn){ .size = sizeof(l->turns[i]), .request = r };
	}
	return &l->turns[i];
}

/* As many times as @r has sequences what the @i-th number of @list is; NULL: there is none. */
static const int32_t *numbers_of(struct list *l, const json_t *list, size_t i, const swakv_request *r)
{
	uint32_t n = swakv_request_batch(r);
	int32_t *own = l->numbers;

	if (!json_array_get(list, i) || n == 0)
		return NULL;
	for (uint32_t k = 0; k < n; k++)
		own[k] = (int32_t)json_integer_value(json_array_get(list, i));
	l->numbers += n;
	return own;
}

static void add_entries(struct worker *w, struct list *l, const json_t *command, struct swakv_fence fence)
{
	const json_t *accepted = json_object_get(command, "accepted"), *tokens = json_object_get(command, "tokens");
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(command, "complete"), i, name)
	{
		struct worker_request *r = worker_request_find(w, json_string_value(name));
		struct swakv_turn *t = entry_of(l, json_string_value(name), r ? r->request : NULL);

		t->what |= SWAKV_TURN_COMPLETE;
		t->fence = fence;
		t->accepted = numbers_of(l, accepted, i, t->request);
	}
	json_array_foreach(json_object_get(command, "finish"), i, name)
	{
		struct worker_request *r = worker_request_find(w, json_string_value(name));

		entry_of(l, json_string_value(name), r ? r->request : NULL)->what |= SWAKV_TURN_FINISH;
	}
	json_array_foreach(json_object_get(command, "prepare"), i, name)
	{
		struct worker_request *r = worker_request_find(w, json_string_value(name));
		struct swakv_turn *t = entry_of(l, json_string_value(name), r ? r->request : NULL);

		t->what |= SWAKV_TURN_PREPARE;
		t->tokens = numbers_of(l, tokens, i, t->request);
	}
	json_array_foreach(json_object_get(command, "begin"), i, name)
	{
		struct swakv_turn *t = entry_of(l, json_string_value(name), NULL);

		t->what = SWAKV_TURN_BEGIN;
		t->begin = &l->begin;
	}
}

/* What was refused, by name, to @answer. The code of all of it, if nothing was done; else 0. */
static int tell_refused(const struct list *l, int code, bool fails, json_t *answer)
{
	json_t *refused = json_object();
	bool any = false;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct swakv_turn *t = &l->turns[i];

		any |= t->what & SWAKV_TURN_COMPLETE && t->completed == 0;
		any |= t->what != SWAKV_TURN_COMPLETE && t->result == 0;
		if (t->completed || t->result)
			json_object_set_new(refused, l->names[i],
					    json_integer(t->completed ? t->completed : t->result));
	}
	if (code && !any && !fails) {
		json_decref(refused);
		return code;
	}
	json_object_set_new(answer, "refused", refused);
	return 0;
}

/* Those that have begun get their names, and then of those that were prepared the tables are checked. */
static int take(struct worker *w, const struct list *l, uint64_t entries)
{
	int code = 0;

	for (uint32_t i = 0; i < l->n && code == 0; i++)
		if (l->turns[i].what == SWAKV_TURN_BEGIN)
			code = name_request(w, l->names[i], l->turns[i].request);
	for (uint32_t i = 0; i < l->n; i++) {
		const struct swakv_turn *t = &l->turns[i];
		struct worker_request *r = worker_request_find(w, l->names[i]);

		if (!(t->what & SWAKV_TURN_PREPARE) || t->result != 0 || !r)
			continue;
		r->entries = entries;
		inspect_delivered(w, r->request);
	}
	return code;
}

static int turn_with(struct worker *w, struct list *l, const json_t *command, json_t *answer)
{
	int64_t how = command_integer(command, "fence");
	struct swakv_fence fence = SWAKV_DONE;
	uint64_t before = w->device.entries;
	bool held = w->device.held;
	int code = 0, named;

	if (how == FENCE_FAIL)
		fence.kind = SWAKV_FENCE_FAILED;
	if (how == FENCE_PENDING) {
		w->device.held = true;
		code = swakv_stream_mark(w->session, 0, &fence);
	}
	add_entries(w, l, command, fence);
	if (code == 0)
		code = tell_refused(l, swakv_step_turn(w->session, l->turns, l->n, NULL), how == FENCE_FAIL, answer);
	if (code && how == FENCE_PENDING && !held)
		device_signal(&w->device);
	named = take(w, l, w->device.entries - before);
	return code ? code : named;
}

static size_t names_in(const json_t *command)
{
	return json_array_size(json_object_get(command, "complete")) +
	       json_array_size(json_object_get(command, "finish")) +
	       json_array_size(json_object_get(command, "prepare")) +
	       json_array_size(json_object_get(command, "begin"));
}

int do_turn(struct worker *w, const json_t *command, json_t *answer)
{
	size_t n = names_in(command) + 1;
	uint32_t n_slots;
	int32_t *slots = command_list(command, "slots", &n_slots);
	int32_t *numbers = calloc(n * (size_t)(w->device.max_batch + 1), sizeof(*numbers));
	struct list l = { .numbers = numbers,
			  .begin = { .size = sizeof(l.begin),
				     .slots = slots,
				     .n_slots = n_slots,
				     .max_tokens = command_integer(command, "max_tokens") } };
	int code = SWAKV_ENOMEM;

	l.turns = calloc(n, sizeof(*l.turns));
	l.names = calloc(n, sizeof(*l.names));
	if (slots && numbers && l.turns && l.names)
		code = command_count(answer, turn_with(w, &l, command, answer));
	free(l.names);
	free(l.turns);
	free(numbers);
	free(slots);
	return code;
}
