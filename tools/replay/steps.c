/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - operations that prepare and complete a transition of a request */
#include <stdlib.h>

#include "command.h"
#include "operations.h"

/* A call of @r that may have delivered updates returned @code: counts and checks them. */
static int delivered(struct worker *w, const json_t *command, uint64_t before, int code, bool add)
{
	struct worker_request *r = worker_request_find(w, json_string_value(json_object_get(command, "request")));

	if (code || !r)
		return code;
	r->entries = (add ? r->entries : 0) + w->device.entries - before;
	inspect_delivered(w, r->request);
	return 0;
}

/* How a transition is completed. */
struct ending {
	int (*call)(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket); /* NULL: an extend */
	const int32_t *accepted;                                                       /* of the extend; NULL: all */
	uint32_t n;
};

static int end(const struct ending *e, swakv_request *r, struct swakv_fence fence)
{
	return e->call ? e->call(r, fence, NULL) : swakv_extend_complete(r, fence, e->accepted, e->n, NULL);
}

/* Completes with the fence that the command names. What a refused call did to the device is undone. */
static int complete_with(struct worker *w, const json_t *command, const struct ending *e)
{
	swakv_request *r = worker_request_of(w, command);
	struct swakv_fence fence = SWAKV_DONE;
	bool held = w->device.held;
	int code;

	switch (command_integer(command, "fence")) {
	case FENCE_DONE:
		return end(e, r, fence);
	case FENCE_FAIL:
		fence.kind = SWAKV_FENCE_FAILED;
		return end(e, r, fence);
	default:
		w->device.held = true;
		code = swakv_stream_mark(w->session, 0, &fence);
		if (code == 0)
			code = end(e, r, fence);
		if (code && !held)
			device_signal(&w->device);
		return code;
	}
}

static int complete(struct worker *w, const json_t *command,
		    int (*call)(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket))
{
	const struct ending e = { .call = call };

	return complete_with(w, command, &e);
}

typedef int list_prepare(swakv_request *r, const int32_t *list, uint32_t n, swakv_ticket *ticket);

/* A prepare with a number for each sequence, which the command calls @name. */
static int prepare_list(struct worker *w, const json_t *command, json_t *answer, const char *name,
			list_prepare *prepare)
{
	uint64_t before = w->device.entries;
	uint32_t n;
	int32_t *list = command_list(command, name, &n);
	int code = prepare(worker_request_of(w, command), list, n, NULL);

	free(list);
	return command_count(answer, delivered(w, command, before, code, false));
}

int do_prefill_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	return prepare_list(w, command, answer, "lens", swakv_prefill_prepare);
}

int do_prefill_complete(struct worker *w, const json_t *command, json_t *answer)
{
	return command_count(answer, complete(w, command, swakv_prefill_complete));
}

int do_prefill(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_prefill_prepare(w, command, answer);

	return code ? code : do_prefill_complete(w, command, answer);
}

int do_decode_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	int code = swakv_decode_prepare(worker_request_of(w, command), NULL);

	return command_count(answer, delivered(w, command, before, code, false));
}

int do_decode_complete(struct worker *w, const json_t *command, json_t *answer)
{
	return command_count(answer, complete(w, command, swakv_decode_complete));
}

int do_decode(struct worker *w, const json_t *command, json_t *answer)
{
	int64_t steps = command_integer(command, "steps");
	int code = 0;

	for (int64_t i = 0; i < steps && code == 0; i++) {
		code = do_decode_prepare(w, command, answer);
		if (code == 0)
			code = do_decode_complete(w, command, answer);
	}
	return code;
}

int do_extend_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	return prepare_list(w, command, answer, "tokens", swakv_extend_prepare);
}

int do_extend_complete(struct worker *w, const json_t *command, json_t *answer)
{
	struct ending e = { .call = NULL };
	int32_t *accepted = command_list(command, "accepted", &e.n);
	int code;

	e.accepted = e.n ? accepted : NULL;
	code = complete_with(w, command, &e);
	free(accepted);
	return command_count(answer, code);
}

int do_extend(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_extend_prepare(w, command, answer);

	return code ? code : do_extend_complete(w, command, answer);
}

int do_rewind(struct worker *w, const json_t *command, json_t *answer)
{
	uint32_t n;
	int32_t *tokens = command_list(command, "tokens", &n);
	int code = swakv_rewind(worker_request_of(w, command), tokens, n, NULL);

	free(tokens);
	return command_count(answer, code);
}

int do_compact_begin(struct worker *w, const json_t *command, json_t *answer)
{
	uint32_t flags = command_integer(command, "rows") == ROWS_MOVE ? SWAKV_COMPACT_MOVE_ROWS : 0;
	uint64_t before = w->device.entries;
	uint32_t n;
	int32_t *map = command_list(command, "map", &n);
	int code = swakv_compact_begin(worker_request_of(w, command), map, n, (int32_t)command_integer(command, "new"),
				       flags, 0, NULL);

	free(map);
	return command_count(answer, delivered(w, command, before, code, false));
}

int do_compact_complete(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	int code = complete(w, command, swakv_compact_complete);

	return command_count(answer, delivered(w, command, before, code, true));
}

int do_compact(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_compact_begin(w, command, answer);

	return code ? code : do_compact_complete(w, command, answer);
}
