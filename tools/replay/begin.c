/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - operations by which a request comes, waits for pages, and goes */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "json_put.h"
#include "operations.h"

void forget_waiting(struct worker *w)
{
	struct worker_waiting *x;

	while ((x = w->waiting)) {
		w->waiting = x->next;
		free(x->name);
		free(x);
	}
}

int name_request(struct worker *w, const char *name, swakv_request *request)
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

int do_begin(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_begin_options options = { .size = sizeof(options),
					       .max_tokens = command_integer(command, "max_tokens"),
					       .wait_ms = (uint32_t)command_integer(command, "wait") };
	int32_t *slots = command_list(command, "slots", &options.n_slots);
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

bool decided_at_once(struct worker *w, struct worker_call *call, json_t *answer, int *code)
{
	*code = swakv_session_ping(w->session, NULL); /* behind it: the broker has looked at both */
	if (*code)
		return false;
	*code = swakv_poll(w->session, call->ticket);
	if (*code == SWAKV_ENOPAGES || *code == SWAKV_EPENDING) { /* on a slow machine its time is up by now */
		call->code = *code;
		*code = SWAKV_EAGAIN;
	}
	if (*code == SWAKV_EAGAIN) {
		*code = 0;
		return false;
	}
	json_object_set_new(answer, "at_once", json_true());
	return true;
}

int call_result(struct worker *w, const struct worker_call *call)
{
	return call->code ? call->code : swakv_wait(w->session, call->ticket);
}

/* A begin that is not waited for; "at_once" when it has been answered all the same. */
int do_queue(struct worker *w, const json_t *command, json_t *answer)
{
	struct swakv_begin_options options = { .size = sizeof(options),
					       .max_tokens = command_integer(command, "max_tokens"),
					       .wait_ms = (uint32_t)command_integer(command, "wait") };
	struct worker_waiting *x = calloc(1, sizeof(*x));
	int32_t *slots = command_list(command, "slots", &options.n_slots);
	int code = SWAKV_ENOMEM;

	options.slots = slots;
	if (x && (x->name = strdup(json_string_value(json_object_get(command, "request")))))
		code = swakv_request_begin(w->session, &options, &x->request, &x->call.ticket);
	free(slots);
	if (code) {
		if (x)
			free(x->name);
		free(x);
		return code;
	}
	x->next = w->waiting;
	w->waiting = x;
	return decided_at_once(w, &x->call, answer, &code) ? collect(w, &w->waiting, code) : code;
}

int do_admitted(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_waiting **at = waiting_find(w, json_string_value(json_object_get(command, "request")));
	int code;

	(void)answer;
	if (!*at)
		return SWAKV_EINVALID;
	code = call_result(w, &(*at)->call);
	return code == SWAKV_ETIMEDOUT ? code : collect(w, at, code);
}

/* Its answer is still to be waited for. */
int do_withdraw(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_waiting *x = *waiting_find(w, json_string_value(json_object_get(command, "request")));

	(void)answer;
	return x ? swakv_request_withdraw(w->session, x->call.ticket, NULL) : SWAKV_EINVALID;
}

int do_reserve(struct worker *w, const json_t *command, json_t *answer)
{
	return command_count(answer, swakv_request_reserve(worker_request_of(w, command),
							   command_integer(command, "max_tokens"), NULL));
}

int do_finish(struct worker *w, const json_t *command, json_t *answer)
{
	return command_count(answer, swakv_request_finish(worker_request_of(w, command), NULL));
}

int do_abandon(struct worker *w, const json_t *command, json_t *answer)
{
	return command_count(answer, swakv_request_abandon(worker_request_of(w, command), NULL));
}

int do_last_updates(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_request *r = worker_request_find(w, json_string_value(json_object_get(command, "request")));

	json_put(answer, "entries", r ? (json_int_t)r->entries : 0);
	return 0;
}
