/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "message.h"

struct worker_request *worker_request_find(struct worker *w, const char *name)
{
	for (size_t i = 0; i < w->n_requests; i++)
		if (!strcmp(w->requests[i].name, name))
			return &w->requests[i];
	return NULL;
}

static swakv_request *request_of(struct worker *w, const json_t *command)
{
	const char *name = json_string_value(json_object_get(command, "request"));
	struct worker_request *r = name ? worker_request_find(w, name) : NULL;

	return r ? r->request : NULL;
}

static int64_t integer(const json_t *command, const char *name)
{
	return json_integer_value(json_object_get(command, name));
}

/* An int32 list, malloc'd. */
static int32_t *list(const json_t *command, const char *name, uint32_t *n)
{
	const json_t *array = json_object_get(command, name);
	int32_t *out;

	*n = (uint32_t)json_array_size(array);
	out = calloc((size_t)*n + 1, sizeof(*out));
	for (uint32_t i = 0; out && i < *n; i++)
		out[i] = (int32_t)json_integer_value(json_array_get(array, i));
	return out;
}

/* ---- attach and detach ---------------------------------------------------------- */

static struct swakv_group group_of(const json_t *command)
{
	return (struct swakv_group){
		.kind = json_is_true(json_object_get(command, "full")) ? SWAKV_FULL : SWAKV_SLIDING,
		.window = integer(command, "window"),
		.page_tokens = (uint32_t)integer(command, "page_tokens"),
		.layers = (uint32_t)integer(command, "layers"),
		.kv_heads = (uint32_t)integer(command, "kv_heads"),
		.head_dim = (uint32_t)integer(command, "head_dim"),
		.dtype = (enum swakv_dtype)integer(command, "dtype"),
	};
}

static int get_layouts(struct worker *w)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < w->n_groups; i++)
		r = swakv_session_get_layout(w->session, i, &w->layouts[i]);
	return r;
}

static int do_attach(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_group groups[SCRIPT_MAX_GROUPS];
	struct swakv_model model = { .name = json_string_value(json_object_get(command, "model")),
				     .groups = groups,
				     .max_batch = (uint32_t)integer(command, "max_batch"),
				     .max_seq = integer(command, "max_seq"),
				     .max_advance = integer(command, "max_advance"),
				     .in_flight = (uint32_t)integer(command, "in_flight"),
				     .max_rewind = (uint32_t)integer(command, "max_rewind"),
				     .chunk = (enum swakv_chunk)integer(command, "chunk") };
	struct swakv_attach_options options = { .socket = json_string_value(json_object_get(command, "socket")) };
	struct swakv_session_info info;
	char why[512] = "";
	json_t *group;
	size_t i;
	int r;

	json_array_foreach(json_object_get(command, "groups"), i, group) groups[i] = group_of(group);
	model.n_groups = w->n_groups = (uint32_t)i;
	r = swakv_session_attach(&options, &model, &w->session, why, sizeof(why));
	if (r) {
		json_object_set_new(answer, "error", json_string(why));
		return r;
	}
	r = device_init(&w->device, w->session, model.max_batch);
	if (w->device.why[0])
		json_object_set_new(answer, "error", json_string(w->device.why));
	if (r == 0)
		r = get_layouts(w);
	swakv_session_get_info(w->session, &info);
	w->pool = info.pool_device;
	json_object_set_new(answer, "session", json_integer(info.session_id));
	json_object_set_new(answer, "generation", json_integer(info.generation));
	return r;
}

static void forget_waiting(struct worker *w)
{
	struct worker_waiting *x;

	while ((x = w->waiting)) {
		w->waiting = x->next;
		free(x->name);
		free(x);
	}
}

static void detach(struct worker *w)
{
	swakv_session_close(w->session);
	forget_waiting(w);
	w->session = NULL;
	for (size_t i = 0; i < w->n_requests; i++)
		free((char *)w->requests[i].name);
	free(w->requests);
	w->requests = NULL;
	w->n_requests = 0;
	device_deinit(&w->device);
}

static int do_detach(struct worker *w, const json_t *command, json_t *answer)
{
	(void)command;
	(void)answer;
	detach(w);
	return 0;
}

/* ---- begin ------------------------------------------------------------------------ */

/* The name now means @request; a refused begin leaves a name that has a meaning alone. */
static int name_request(struct worker *w, const char *name, swakv_request *request)
{
	struct worker_request *r = worker_request_find(w, name);

	if (r && request) {
		swakv_request_free(r->request);
		r->request = request;
		r->entries = 0;
		return 0;
	}
	if (r)
		return 0;
	r = reallocarray(w->requests, w->n_requests + 1, sizeof(*r));
	if (!r)
		return SWAKV_ENOMEM;
	w->requests = r;
	r += w->n_requests;
	*r = (struct worker_request){ .name = strdup(name), .request = request };
	if (!r->name)
		return SWAKV_ENOMEM;
	w->n_requests++;
	return 0;
}

static int do_begin(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_begin_options options = { .max_tokens = integer(command, "max_tokens"),
					       .wait_ms = (uint32_t)integer(command, "wait") };
	int32_t *slots = list(command, "slots", &options.n_slots);
	swakv_request *request = NULL;
	int r, named;

	(void)answer;
	options.slots = slots;
	r = swakv_request_begin(w->session, &options, &request, NULL);
	free(slots);
	named = name_request(w, json_string_value(json_object_get(command, "request")), request);
	return r ? r : named;
}

static struct worker_waiting **waiting_find(struct worker *w, const char *name)
{
	struct worker_waiting **at = &w->waiting;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

/* Takes the answer @code of the begin at @at, and gives its name a meaning. */
static int collect(struct worker *w, struct worker_waiting **at, int code)
{
	struct worker_waiting *x = *at;
	int named = name_request(w, x->name, x->request);

	*at = x->next;
	free(x->name);
	free(x);
	return code ? code : named;
}

/* A begin that is not waited for; "at_once" when it has been answered all the same. */
static int do_queue(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_begin_options options = { .max_tokens = integer(command, "max_tokens"),
					       .wait_ms = (uint32_t)integer(command, "wait") };
	struct worker_waiting *x = calloc(1, sizeof(*x));
	int32_t *slots = list(command, "slots", &options.n_slots);
	int code = SWAKV_ENOMEM;

	options.slots = slots;
	if (x && (x->name = strdup(json_string_value(json_object_get(command, "request")))))
		code = swakv_request_begin(w->session, &options, &x->request, &x->ticket);
	free(slots);
	if (code) {
		if (x)
			free(x->name);
		free(x);
		return code;
	}
	x->next = w->waiting;
	w->waiting = x;
	code = swakv_session_ping(w->session, NULL); /* behind it: the broker has looked at both */
	if (code)
		return code;
	code = swakv_poll(w->session, x->ticket);
	if (code == SWAKV_EAGAIN)
		return 0;
	json_object_set_new(answer, "at_once", json_true());
	return collect(w, &w->waiting, code);
}

static int do_admitted(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_waiting **at = waiting_find(w, json_string_value(json_object_get(command, "request")));
	int code;

	(void)answer;
	if (!*at)
		return SWAKV_EINVALID;
	code = swakv_wait(w->session, (*at)->ticket);
	return code == SWAKV_ETIMEDOUT ? code : collect(w, at, code);
}

/* Its answer is still to be waited for. */
static int do_withdraw(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_waiting *x = *waiting_find(w, json_string_value(json_object_get(command, "request")));

	(void)answer;
	return x ? swakv_request_withdraw(w->session, x->ticket, NULL) : SWAKV_EINVALID;
}

/* ---- steps --------------------------------------------------------------------------- */

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

/* Counts a call that succeeded. */
static int count_call(json_t *answer, int code)
{
	if (code == 0)
		json_object_set_new(answer, "calls",
				    json_integer(json_integer_value(json_object_get(answer, "calls")) + 1));
	return code;
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
	swakv_request *r = request_of(w, command);
	struct swakv_fence fence = SWAKV_DONE;
	bool held = w->device.held;
	int code;

	switch (integer(command, "fence")) {
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

static int do_prefill_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	uint32_t n;
	int32_t *lens = list(command, "lens", &n);
	int code = swakv_prefill_prepare(request_of(w, command), lens, n, NULL);

	free(lens);
	return count_call(answer, delivered(w, command, before, code, false));
}

static int do_prefill_complete(struct worker *w, const json_t *command, json_t *answer)
{
	return count_call(answer, complete(w, command, swakv_prefill_complete));
}

static int do_prefill(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_prefill_prepare(w, command, answer);

	return code ? code : do_prefill_complete(w, command, answer);
}

static int do_decode_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	int code = swakv_decode_prepare(request_of(w, command), NULL);

	return count_call(answer, delivered(w, command, before, code, false));
}

static int do_decode_complete(struct worker *w, const json_t *command, json_t *answer)
{
	return count_call(answer, complete(w, command, swakv_decode_complete));
}

static int do_decode(struct worker *w, const json_t *command, json_t *answer)
{
	int64_t steps = integer(command, "steps");
	int code = 0;

	for (int64_t i = 0; i < steps && code == 0; i++) {
		code = do_decode_prepare(w, command, answer);
		if (code == 0)
			code = do_decode_complete(w, command, answer);
	}
	return code;
}

static int do_extend_prepare(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	uint32_t n;
	int32_t *tokens = list(command, "tokens", &n);
	int code = swakv_extend_prepare(request_of(w, command), tokens, n, NULL);

	free(tokens);
	return count_call(answer, delivered(w, command, before, code, false));
}

static int do_extend_complete(struct worker *w, const json_t *command, json_t *answer)
{
	struct ending e = { .call = NULL };
	int32_t *accepted = list(command, "accepted", &e.n);
	int code;

	e.accepted = e.n ? accepted : NULL;
	code = complete_with(w, command, &e);
	free(accepted);
	return count_call(answer, code);
}

static int do_extend(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_extend_prepare(w, command, answer);

	return code ? code : do_extend_complete(w, command, answer);
}

static int do_rewind(struct worker *w, const json_t *command, json_t *answer)
{
	uint32_t n;
	int32_t *tokens = list(command, "tokens", &n);
	int code = swakv_rewind(request_of(w, command), tokens, n, NULL);

	free(tokens);
	return count_call(answer, code);
}

static int do_reserve(struct worker *w, const json_t *command, json_t *answer)
{
	return count_call(answer, swakv_request_reserve(request_of(w, command), integer(command, "max_tokens"), NULL));
}

static int do_compact_begin(struct worker *w, const json_t *command, json_t *answer)
{
	uint32_t flags = integer(command, "rows") == ROWS_MOVE ? SWAKV_COMPACT_MOVE_ROWS : 0;
	uint64_t before = w->device.entries;
	uint32_t n;
	int32_t *map = list(command, "map", &n);
	int code =
		swakv_compact_begin(request_of(w, command), map, n, (int32_t)integer(command, "new"), flags, 0, NULL);

	free(map);
	return count_call(answer, delivered(w, command, before, code, false));
}

static int do_compact_complete(struct worker *w, const json_t *command, json_t *answer)
{
	uint64_t before = w->device.entries;
	int code = complete(w, command, swakv_compact_complete);

	return count_call(answer, delivered(w, command, before, code, true));
}

static int do_compact(struct worker *w, const json_t *command, json_t *answer)
{
	int code = do_compact_begin(w, command, answer);

	return code ? code : do_compact_complete(w, command, answer);
}

/* ---- the rest -------------------------------------------------------------------------- */

static int do_signal(struct worker *w, const json_t *command, json_t *answer)
{
	(void)command;
	(void)answer;
	device_signal(&w->device);
	/* Once this is answered the broker has seen the words. */
	return swakv_session_ping(w->session, NULL);
}

static int do_finish(struct worker *w, const json_t *command, json_t *answer)
{
	return count_call(answer, swakv_request_finish(request_of(w, command), NULL));
}

static int do_abandon(struct worker *w, const json_t *command, json_t *answer)
{
	return count_call(answer, swakv_request_abandon(request_of(w, command), NULL));
}

static int do_shutdown(struct worker *w, const json_t *command, json_t *answer)
{
	int code = swakv_session_shutdown(w->session);

	(void)command;
	device_excuse(&w->device, w->session);
	return count_call(answer, code);
}

static int do_private_pages(struct worker *w, const json_t *command, json_t *answer)
{
	(void)command;
	json_object_set_new(answer, "pages", json_integer(swakv_session_private_pages(w->session)));
	return 0;
}

static int do_last_updates(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_request *r = worker_request_find(w, json_string_value(json_object_get(command, "request")));

	json_object_set_new(answer, "entries", json_integer(r ? (json_int_t)r->entries : 0));
	return 0;
}

static const struct {
	const char *name;
	int (*serve)(struct worker *w, const json_t *command, json_t *answer);
} ops[] = {
	{ "attach", do_attach },
	{ "detach", do_detach },
	{ "begin", do_begin },
	{ "queue", do_queue },
	{ "admitted", do_admitted },
	{ "withdraw", do_withdraw },
	{ "prefill", do_prefill },
	{ "prefill_prepare", do_prefill_prepare },
	{ "prefill_complete", do_prefill_complete },
	{ "decode", do_decode },
	{ "decode_prepare", do_decode_prepare },
	{ "decode_complete", do_decode_complete },
	{ "extend", do_extend },
	{ "extend_prepare", do_extend_prepare },
	{ "extend_complete", do_extend_complete },
	{ "rewind", do_rewind },
	{ "reserve", do_reserve },
	{ "compact", do_compact },
	{ "compact_begin", do_compact_begin },
	{ "compact_complete", do_compact_complete },
	{ "signal", do_signal },
	{ "finish", do_finish },
	{ "abandon", do_abandon },
	{ "shutdown", do_shutdown },
	{ "private_pages", do_private_pages },
	{ "last_updates", do_last_updates },
	{ "row", inspect_row },
	{ "state", inspect_state },
	{ "request", inspect_request },
	{ "pages", inspect_pages },
	{ "dump", inspect_dump },
};

static json_t *serve(struct worker *w, const json_t *command)
{
	const char *op = json_string_value(json_object_get(command, "op"));
	struct swakv_session_counters counters;
	json_t *answer = json_object();
	int code = SWAKV_EINVALID;

	w->fault[0] = '\0';
	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, op))
			code = ops[i].serve(w, command, answer);
	json_object_set_new(answer, "code", json_integer(code));
	if (code && w->session)
		json_object_set_new(answer, "error", json_string(swakv_session_error(w->session)));
	if (w->fault[0])
		json_object_set_new(answer, "fault", json_string(w->fault));
	if (!w->session)
		return answer;
	if (request_of(w, command))
		json_object_set_new(answer, "lost", json_boolean(!swakv_request_valid(request_of(w, command))));
	swakv_session_get_counters(w->session, &counters);
	json_object_set_new(answer, "commands", json_integer((json_int_t)counters.commands));
	return answer;
}

int worker_main(int fd)
{
	struct worker w = { 0 };
	json_t *command;
	int r = 0;

	while (r == 0 && message_receive(fd, -1, &command) == 0) {
		json_t *answer = serve(&w, command);

		r = message_send(fd, answer);
		json_decref(answer);
		json_decref(command);
	}
	if (w.session)
		detach(&w);
	return 0;
}
