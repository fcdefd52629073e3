/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json_put.h"
#include "message.h"
#include "operations.h"

struct worker_request *worker_request_find(struct worker *w, const char *name)
{
	for (size_t i = 0; i < w->n_requests; i++)
		if (!strcmp(w->requests[i].name, name))
			return &w->requests[i];
	return NULL;
}

swakv_request *worker_request_of(struct worker *w, const json_t *command)
{
	const char *name = json_string_value(json_object_get(command, "request"));
	struct worker_request *r = name ? worker_request_find(w, name) : NULL;

	return r ? r->request : NULL;
}

/* ---- attach and detach ---------------------------------------------------------- */

static struct swakv_group group_of(const json_t *command)
{
	return (struct swakv_group){
		.size = sizeof(struct swakv_group),
		.kind = json_is_true(json_object_get(command, "full")) ? SWAKV_FULL : SWAKV_SLIDING,
		.window = command_integer(command, "window"),
		.page_tokens = (uint32_t)command_integer(command, "page_tokens"),
		.layers = (uint32_t)command_integer(command, "layers"),
		.kv_heads = (uint32_t)command_integer(command, "kv_heads"),
		.head_dim = (uint32_t)command_integer(command, "head_dim"),
		.dtype = (enum swakv_dtype)command_integer(command, "dtype"),
		.k_bytes = (uint32_t)command_integer(command, "k_bytes"),
		.v_bytes = (uint32_t)command_integer(command, "v_bytes"),
		.extra_bytes = (uint32_t)command_integer(command, "extra_bytes"),
		.align = (uint32_t)command_integer(command, "align"),
		.form = (enum swakv_form)command_integer(command, "form"),
		.order = (enum swakv_order)command_integer(command, "order"),
	};
}

static int get_layouts(struct worker *w)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < w->n_groups; i++) {
		w->layouts[i].size = sizeof(w->layouts[i]);
		r = swakv_session_get_layout(w->session, i, &w->layouts[i]);
	}
	return r;
}

static int do_attach(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_group groups[SCRIPT_MAX_GROUPS];
	struct swakv_model model = { .size = sizeof(model),
				     .name = json_string_value(json_object_get(command, "model")),
				     .groups = groups,
				     .max_batch = (uint32_t)command_integer(command, "max_batch"),
				     .max_seq = command_integer(command, "max_seq"),
				     .max_advance = command_integer(command, "max_advance"),
				     .in_flight = (uint32_t)command_integer(command, "in_flight"),
				     .max_rewind = (uint32_t)command_integer(command, "max_rewind"),
				     .chunk = (enum swakv_chunk)command_integer(command, "chunk") };
	struct swakv_attach_options options = { .size = sizeof(options),
						.socket = json_string_value(json_object_get(command, "socket")) };
	struct swakv_session_info info = { .size = sizeof(info) };
	char why[512] = "";
	json_t *group;
	size_t i;
	int r;

	json_array_foreach(json_object_get(command, "groups"), i, group) groups[i] = group_of(group);
	model.n_groups = w->n_groups = (uint32_t)i;
	r = swakv_session_attach(&options, &model, &w->session, why, sizeof(why));
	if (r) {
		json_put_text(answer, "error", why);
		return r;
	}
	r = device_init(&w->device, w->session, model.max_batch);
	if (w->device.why[0])
		json_put_text(answer, "error", w->device.why);
	if (r == 0)
		r = get_layouts(w);
	swakv_session_get_info(w->session, &info);
	w->pool = info.pool_device;
	json_put(answer, "session", info.session_id);
	json_put(answer, "generation", info.generation);
	return r;
}

static void detach(struct worker *w)
{
	swakv_session_close(w->session);
	forget_waiting(w);
	forget_pages(w);
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

/* ---- the rest -------------------------------------------------------------------------- */

static int do_signal(struct worker *w, const json_t *command, json_t *answer)
{
	(void)command;
	(void)answer;
	device_signal(&w->device);
	/* Once this is answered the broker has seen the words. */
	return swakv_session_ping(w->session, NULL);
}

static int do_shutdown(struct worker *w, const json_t *command, json_t *answer)
{
	int code = swakv_session_shutdown(w->session);

	(void)command;
	device_excuse(&w->device, w->session);
	return command_count(answer, code);
}

static int do_private_pages(struct worker *w, const json_t *command, json_t *answer)
{
	(void)command;
	json_put(answer, "pages", swakv_session_private_pages(w->session));
	return 0;
}

static const struct {
	const char *name;
	operation *serve;
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
	{ "turn", do_turn },
	{ "take", do_take },
	{ "queue_take", do_queue_take },
	{ "taken", do_taken },
	{ "give", do_give },
	{ "offer", do_offer },
	{ "wanted", do_wanted },
	{ "takeable", do_takeable },
	{ "has", do_has },
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
	struct swakv_session_counters counters = { .size = sizeof(counters) };
	json_t *answer = json_object();
	int code = SWAKV_EINVALID;

	w->fault[0] = '\0';
	for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, op))
			code = ops[i].serve(w, command, answer);
	json_put(answer, "code", code);
	if (code && w->session)
		json_put_text(answer, "error", swakv_session_error(w->session));
	if (w->fault[0])
		json_put_text(answer, "fault", w->fault);
	if (!w->session)
		return answer;
	if (worker_request_of(w, command))
		json_put_bool(answer, "lost", !swakv_request_valid(worker_request_of(w, command)));
	swakv_session_get_counters(w->session, &counters);
	json_put(answer, "commands", counters.commands);
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
