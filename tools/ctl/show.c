/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "clock.h"
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

static void put(json_t *to, const char *key, int64_t value)
{
	json_object_set_new(to, key, json_integer(value));
}

static void put_text(json_t *to, const char *key, const char *text)
{
	json_object_set_new(to, key, json_string(text));
}

static json_t *session_json(const struct admin_session *s)
{
	json_t *o = json_object();

	put(o, "id", s->id);
	put(o, "generation", s->generation);
	put(o, "pid", s->pid);
	put(o, "uid", s->uid);
	put_text(o, "model", s->model);
	put_text(o, "state", text_session_state(s->state));
	put(o, "requests", s->n_requests);
	put(o, "sequences", s->n_sequences);
	put(o, "leased_pages", s->leased);
	put(o, "quarantined_pages", s->quarantined);
	put(o, "bytes", (int64_t)s->bytes);
	put(o, "waiting", s->n_waiting);
	put(o, "age_ms", (int64_t)(s->age_ns / NS_PER_MS));
	json_object_set_new(o, "drained", json_boolean(s->flags & ADMIN_SESSION_DRAINED));
	json_object_set_new(o, "poisoned", json_boolean(s->flags & ADMIN_SESSION_POISONED));
	return o;
}

static json_t *broker_json(const struct answer *a)
{
	json_t *o = json_object();

	put_text(o, "name", a->greeting.name);
	put(o, "pid", a->reply.pid);
	put_text(o, "version", a->reply.version_text);
	put(o, "uptime_ms", (int64_t)(a->reply.age_ns / NS_PER_MS));
	json_object_set_new(o, "drained", json_boolean(a->reply.drained));
	put(o, "drained_models", a->reply.n_drained);
	return o;
}

void show_json(const struct question *q, const struct answer *a, enum ctl_exit e)
{
	json_t *o = json_object(), *sessions, *names;

	json_object_set_new(o, "ok", json_boolean(e == CTL_DONE));
	put(o, "exit", e);
	put_text(o, "operation", op_name(q->request.op));
	put_text(o, "text", a->text);
	json_object_set_new(o, "broker", a->reply.magic ? broker_json(a) : json_null());
	if (a->reply.magic) {
		put_text(o, "code", swakv_error_name(a->reply.code));
		put(o, "affected", a->reply.n_affected);
	}
	if (a->reply.affected_pid)
		put(o, "pid", a->reply.affected_pid);
	if (e == CTL_DONE && (q->request.op == ADMIN_PING || q->request.op == ADMIN_LIST))
		put(o, "attached", a->reply.n_attached);
	if (e == CTL_DONE && q->request.op == ADMIN_LIMIT) {
		put(o, "floor_bytes", (int64_t)a->reply.floor);
		json_object_set_new(o, "ceiling_bytes",
				    a->reply.ceiling ? json_integer((int64_t)a->reply.ceiling) : json_null());
		put(o, "used_bytes", (int64_t)a->reply.used);
		put(o, "waiting", (int64_t)a->reply.n_waiting);
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
