/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "clock.h"
#include "json_put.h"
#include "names.h"
#include "size.h"
#include "text.h"

static const char *op_name(uint32_t op)
{
	NAMES(names, ADMIN_OP_COUNT, ADMIN_OP_NAMES);

	return NAME_OF(names, op);
}

/* ---- text ------------------------------------------------------------------------- */

static void show_drained(const struct answer *a)
{
	const struct admin_reply *r = &a->reply;

	if (r->drained)
		puts("draining: no new sessions and requests of any model");
	else if (r->n_drained && !r->n_names)
		printf("draining: %" PRIu32 " model%s\n", r->n_drained, r->n_drained == 1 ? "" : "s");
	for (uint32_t i = 0; i < r->n_names; i++)
		printf("draining: model \"%s\"\n", a->drained[i]);
}

static void show_pong(const struct answer *a)
{
	const struct admin_reply *r = &a->reply;
	char age[TEXT_SIZE];

	printf("broker %s: pid %" PRId32 ", version %s, up %s, %" PRIu32 " session%s\n", a->greeting.name, r->pid,
	       r->version_text, text_duration(age, (int64_t)(r->age_ns / NS_PER_MS)), r->n_attached,
	       r->n_attached == 1 ? "" : "s");
	show_drained(a);
}

static void show_session(const struct admin_session *s)
{
	char id[TEXT_SIZE], age[TEXT_SIZE], bytes[TEXT_SIZE];

	snprintf(id, sizeof(id), "%" PRIu32 ".%" PRIu32, s->id, s->generation);
	printf("%-9s %8" PRId32 " %6" PRIu32 "  %-20s %-8s %8" PRIu32 " %8" PRIu32 " %8" PRId64 " %11" PRId64
	       " %10s %8s%s%s\n",
	       id, s->pid, s->uid, s->model, text_session_state(s->state), s->n_requests, s->n_waiting, s->leased,
	       s->quarantined, size_text(s->bytes, bytes), text_duration(age, (int64_t)(s->age_ns / NS_PER_MS)),
	       s->flags & ADMIN_SESSION_DRAINED ? " drained" : "",
	       s->flags & ADMIN_SESSION_POISONED ? " poisoned" : "");
}

static void show_list(const struct answer *a)
{
	printf("%-9s %8s %6s  %-20s %-8s %8s %8s %8s %11s %10s %8s\n", "SESSION", "PID", "UID", "MODEL", "STATE",
	       "REQUESTS", "WAITING", "LEASED", "QUARANTINED", "BYTES", "AGE");
	for (uint32_t i = 0; i < a->reply.n_sessions; i++)
		show_session(&a->sessions[i]);
	show_drained(a);
}

void show_text(const struct question *q, const struct answer *a, enum ctl_exit e)
{
	if (e != CTL_DONE)
		fprintf(stderr, "swakv-ctl: %s\n", a->text);
	else if (q->request.op == ADMIN_PING)
		show_pong(a);
	else if (q->request.op == ADMIN_LIST)
		show_list(a);
	else
		printf("%s\n", a->text);
}

/* ---- JSON ------------------------------------------------------------------------- */

static json_t *session_json(const struct admin_session *s)
{
	json_t *o = json_object();

	json_put(o, "id", s->id);
	json_put(o, "generation", s->generation);
	json_put(o, "pid", s->pid);
	json_put(o, "uid", s->uid);
	json_put_text(o, "model", s->model);
	json_put_text(o, "state", text_session_state(s->state));
	json_put(o, "requests", s->n_requests);
	json_put(o, "sequences", s->n_sequences);
	json_put(o, "leased_pages", s->leased);
	json_put(o, "quarantined_pages", s->quarantined);
	json_put(o, "bytes", (int64_t)s->bytes);
	json_put(o, "waiting", s->n_waiting);
	json_put(o, "age_ms", (int64_t)(s->age_ns / NS_PER_MS));
	json_put_bool(o, "drained", s->flags & ADMIN_SESSION_DRAINED);
	json_put_bool(o, "poisoned", s->flags & ADMIN_SESSION_POISONED);
	return o;
}

static json_t *broker_json(const struct answer *a)
{
	json_t *o = json_object();

	json_put_text(o, "name", a->greeting.name);
	json_put(o, "pid", a->reply.pid);
	json_put_text(o, "version", a->reply.version_text);
	json_put(o, "uptime_ms", (int64_t)(a->reply.age_ns / NS_PER_MS));
	json_put_bool(o, "drained", a->reply.drained);
	json_put(o, "drained_models", a->reply.n_drained);
	return o;
}

void show_json(const struct question *q, const struct answer *a, enum ctl_exit e)
{
	json_t *o = json_object(), *sessions, *names;

	json_put_bool(o, "ok", e == CTL_DONE);
	json_put(o, "exit", e);
	json_put_text(o, "operation", op_name(q->request.op));
	json_put_text(o, "text", a->text);
	json_object_set_new(o, "broker", a->reply.magic ? broker_json(a) : json_null());
	if (a->reply.magic) {
		json_put_text(o, "code", swakv_error_name(a->reply.code));
		json_put(o, "affected", a->reply.n_affected);
	}
	if (a->reply.affected_pid)
		json_put(o, "pid", a->reply.affected_pid);
	if (e == CTL_DONE && (q->request.op == ADMIN_PING || q->request.op == ADMIN_LIST))
		json_put(o, "attached", a->reply.n_attached);
	if (e == CTL_DONE && q->request.op == ADMIN_LIMIT) {
		json_put(o, "floor_bytes", (int64_t)a->reply.floor);
		json_object_set_new(o, "ceiling_bytes",
				    a->reply.ceiling ? json_integer((int64_t)a->reply.ceiling) : json_null());
		json_put(o, "used_bytes", (int64_t)a->reply.used);
		json_put(o, "waiting", (int64_t)a->reply.n_waiting);
	}
	if (e == CTL_DONE && q->request.op == ADMIN_LIST) {
		sessions = json_array();
		for (uint32_t i = 0; i < a->reply.n_sessions; i++)
			json_array_append_new(sessions, session_json(&a->sessions[i]));
		json_object_set_new(o, "sessions", sessions);
		names = json_array();
		for (uint32_t i = 0; i < a->reply.n_names; i++)
			json_array_append_new(names, json_string(a->drained[i]));
		json_object_set_new(o, "drained", names);
	}
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(o);
}
