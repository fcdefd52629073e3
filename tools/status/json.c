/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - the view for programs
 *
 * The keys are an interface: they are listed in swakv-status(1), and only ever
 * added to. What does not exist at the moment is null, not absent; times are in
 * milliseconds, memory in bytes.
 */
#include <inttypes.h>
#include <jansson.h>

#include "json_put.h"
#include "lifecycle.h"
#include "show_map.h"
#include "show_moves.h"
#include "show_tallies.h"
#include "status_sums.h"
#include "text.h"
#include "view.h"

static void put_unsigned(json_t *to, const char *key, uint64_t value)
{
	json_put(to, key, (int64_t)value);
}

/* Age of a moment, null when it has not been. */
static void put_age(json_t *to, const char *key, const struct sample *s, uint64_t then_ns)
{
	json_object_set_new(to, key, then_ns ? json_integer(sample_age_ms(s, then_ns)) : json_null());
}

static void put_hex(json_t *to, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_put_text(to, key, text);
}

static void put_head(json_t *to, const struct sample *s)
{
	const struct status_head *h = &s->head;

	json_put(to, "pid", h->pid);
	json_put(to, "uid", h->uid);
	json_put(to, "started_unix", h->started_unix);
	json_put(to, "uptime_ms", s->uptime_ms);
	json_put_text(to, "version", h->version_text);
	json_put_text(to, "backend", h->backend);
	json_put_text(to, "device", h->device);
	json_put_text(to, "device_uuid", h->device_uuid);
	json_put_text(to, "export", h->export_kind);
	json_put_text(to, "socket", h->socket_path);
	json_put_text(to, "ring_cpus", h->ring_cpus);
	json_put_text(to, "machine", h->machine);
}

static json_t *threads(const struct sample *s)
{
	json_t *array = json_array();

	for (int i = 0; i < STATUS_N_THREADS; i++) {
		json_t *t = json_object();

		json_put_text(t, "name", s->threads[i].name);
		json_put(t, "heartbeat_age_ms", s->threads[i].heartbeat_age_ms);
		json_put_bool(t, "stuck", s->threads[i].stuck);
		json_array_append_new(array, t);
	}
	return array;
}

static json_t *pool(const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	json_t *p = json_object(), *bytes = json_object();

	put_unsigned(bytes, "total", snap->pool_total);
	put_unsigned(bytes, "held", snap->pool_held);
	put_unsigned(bytes, "free", snap->pool_free);
	put_unsigned(bytes, "unusable", snap->pool_unusable);
	put_unsigned(bytes, "extent", snap->extent_bytes);
	put_unsigned(bytes, "table_area", snap->table_area_bytes);
	put_unsigned(bytes, "table_area_used", snap->table_area_used);
	json_put_text(p, "name", s->head.pool);
	json_object_set_new(p, "bytes", bytes);
	return p;
}

static json_t *classes(const struct status_snapshot *snap)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < snap->n_classes; i++) {
		const struct status_class *c = &snap->classes[i];
		json_t *object = json_object(), *pages = json_object();

		json_put(pages, "total", c->pages);
		json_put(pages, "free", c->free);
		json_put(pages, "leased", c->leased);
		json_put(pages, "quarantined", c->quarantined);
		json_put(pages, "available", c->available);
		json_put(pages, "ids", c->num_pages);
		json_put(object, "index", i);
		put_unsigned(object, "page_bytes", c->page_bytes);
		json_put_text(object, "form", text_form(c->joined));
		json_put(object, "extents", c->extents);
		json_put(object, "empty_extents", c->empty);
		json_put(object, "emptying_extents", c->emptying);
		json_object_set_new(object, "staying_extents", stays_json(c->stays));
		put_unsigned(object, "moved", c->moved);
		json_put(object, "sessions", c->sessions);
		json_object_set_new(object, "pages", pages);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *model_classes(const struct status_snapshot *snap, const struct status_model *m)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < snap->n_classes; i++) {
		int64_t n = status_model_pages(snap, m, i);
		json_t *object;

		if (n == 0)
			continue;
		object = json_object();
		json_put(object, "class", i);
		json_put(object, "pages", n);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *model_bytes(const struct status_snapshot *snap, const struct status_model *m)
{
	const struct status_bytes b = status_model_bytes(snap, m);
	json_t *object = json_object();

	put_unsigned(object, "bound", b.bound);
	put_unsigned(object, "reserved", b.reserved);
	put_unsigned(object, "managed", b.managed);
	put_unsigned(object, "quarantined", b.quarantined);
	return object;
}

static json_t *models(const struct sample *s)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < s->snapshot.n_models; i++) {
		const struct status_model *m = &s->snapshot.models[i];
		struct status_managed managed = status_model_managed(&s->snapshot, m);
		json_t *object = json_object();

		json_put_text(object, "name", m->name);
		put_unsigned(object, "floor_bytes", m->floor);
		json_object_set_new(object, "ceiling_bytes",
				    m->ceiling ? json_integer((int64_t)m->ceiling) : json_null());
		put_unsigned(object, "used_bytes", m->used);
		put_unsigned(object, "floor_unused_bytes", m->floor > m->used ? m->floor - m->used : 0);
		json_put(object, "sessions", m->sessions);
		json_put(object, "waiting", m->waiting);
		put_age(object, "oldest_wait_ms", s, m->oldest_wait_ns);
		json_put_bool(object, "claims", m->claims != 0);
		json_put_bool(object, "drained", s->snapshot.drained || m->drained);
		json_object_set_new(object, "classes", model_classes(&s->snapshot, m));
		json_object_set_new(object, "bytes", model_bytes(&s->snapshot, m));
		json_put(object, "managed", managed.managed);
		json_put(object, "offered", managed.offered);
		json_put(object, "wanted", managed.wanted);
		put_age(object, "wanted_ms", s, managed.since_ns);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *invariant(const struct status_snapshot *snap)
{
	json_t *object = json_object();
	char why[160];

	json_put_bool(object, "holds", status_sums_hold(snap, why, sizeof(why)));
	json_put_text(object, "violation", why);
	return object;
}

static json_t *refusals(const struct status_snapshot *snap)
{
	json_t *object = json_object();
	char reason[TEXT_SIZE];

	for (uint32_t i = 0; i < STATUS_MAX_REASONS; i++)
		if (snap->refusals_by[i])
			put_unsigned(object, text_reason(reason, i), snap->refusals_by[i]);
	return object;
}

static int64_t private_pages(const struct status_session *x)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < x->n_groups; i++)
		n += x->groups[i].private_pages;
	return n;
}

/* [[first page, end], ...] */
static json_t *ranges(const struct status_group *g)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < g->n_ranges; i++)
		json_array_append_new(array, json_pack("[i, i]", g->ranges[i].first, g->ranges[i].end));
	return array;
}

static json_t *session_groups(const struct sample *s, const struct status_session *x)
{
	const struct status_snapshot *snap = &s->snapshot;
	json_t *array = json_array();

	for (uint32_t i = 0; i < x->n_groups; i++) {
		const struct status_group *g = &x->groups[i];
		json_t *object = json_object();

		json_put_text(object, "kind", text_group_kind(g->kind));
		json_put(object, "window", g->window);
		json_put(object, "page_tokens", g->page_tokens);
		put_unsigned(object, "page_bytes", snap->classes[g->class_index].page_bytes);
		json_put(object, "class", g->class_index);
		json_put(object, "private_per_sequence", g->private_pages);
		json_put(object, "held", g->held);
		json_put_text(object, "tag", g->tag);
		json_put(object, "managed", g->managed);
		json_put(object, "offered", g->offered);
		json_put(object, "wanted", g->wanted);
		put_age(object, "wanted_ms", s, g->wanted_ns);
		json_object_set_new(object, "wanted_ranges", ranges(g));
		json_put_bool(object, "movable", g->movable != 0);
		put_unsigned(object, "moved", g->moved);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *session_pages(const struct status_session *x)
{
	struct status_managed sum = status_session_managed(x);
	json_t *pages = json_object();

	json_put(pages, "leased", x->leased);
	json_put(pages, "quarantined", x->quarantined);
	json_put(pages, "unbound", x->unbound);
	json_put(pages, "behind_points", x->behind_points);
	json_put(pages, "private_per_sequence", private_pages(x));
	json_put(pages, "managed", sum.managed);
	json_put(pages, "offered", sum.offered);
	json_put(pages, "wanted", sum.wanted);
	json_put(pages, "to_move", x->to_move);
	return pages;
}

static json_t *session_model(const struct sample *s, const struct status_session *x)
{
	json_t *model = json_object();

	json_put_text(model, "name", x->model);
	json_object_set_new(model, "groups", session_groups(s, x));
	json_put(model, "max_batch", x->max_batch);
	json_put(model, "streams", x->n_streams);
	return model;
}

static json_t *session_last(const struct sample *s, const struct status_session *x)
{
	json_t *last;

	if (!x->last_op)
		return json_null();
	last = json_object();
	json_put_text(last, "command", text_op(x->last_op));
	json_put(last, "code", x->last_code);
	json_put_text(last, "result", swakv_error_name(x->last_code));
	put_age(last, "age_ms", s, x->last_ns);
	return last;
}

static json_t *session_members(const struct status_session *x)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < x->n_members; i++)
		json_array_append_new(array, json_integer(x->members[i]));
	return array;
}

static json_t *session(const struct sample *s, const struct status_session *x)
{
	json_t *object = json_object();

	json_put(object, "id", x->id);
	json_put(object, "generation", x->generation);
	json_put(object, "pid", x->pid);
	json_put(object, "uid", x->uid);
	json_object_set_new(object, "members", session_members(x));
	json_put_text(object, "state", text_session_state(x->state));
	json_put_bool(object, "poisoned", x->poisoned != 0);
	json_object_set_new(object, "model", session_model(s, x));
	json_put(object, "requests", x->n_requests);
	json_put(object, "sequences", x->n_sequences);
	json_put(object, "waiting", x->waiting);
	json_put(object, "open_points", x->open_points);
	json_object_set_new(object, "pages", session_pages(x));
	json_object_set_new(object, "last", session_last(s, x));
	put_age(object, "attached_ms", s, x->attached_ns);
	put_age(object, "ended_ms", s, x->ended_ns);
	put_age(object, "oldest_lease_ms", s, x->oldest_lease_ns);
	put_age(object, "oldest_point_ms", s, x->oldest_point_ns);
	put_unsigned(object, "commands", x->commands);
	put_unsigned(object, "refused", x->refused);
	put_unsigned(object, "rounds_blocked", x->rounds_blocked);
	put_unsigned(object, "asked", x->asked);
	put_unsigned(object, "unanswered", x->unanswered);
	put_unsigned(object, "longest_wait", x->longest_wait);
	json_object_set_new(object, "staying_extents", stays_json(x->stays));
	json_object_set_new(object, "totals", totals_json(&x->totals));
	return object;
}

static json_t *sessions(const struct view *v, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	json_t *array = json_array();
	char reason[400];

	for (uint32_t i = 0; i < snap->n_sessions; i++) {
		const struct status_session *x = &snap->sessions[i];
		json_t *object;

		if (!view_has_session(v, snap, i))
			continue;
		object = session(s, x);
		if (x->quarantined > 0)
			json_put_text(object, "quarantine_reason", view_quarantine_reason(x, reason, sizeof(reason)));
		json_array_append_new(array, object);
	}
	return array;
}

/* [[logical page, page], ...] of a sequence, null when the snapshot has no room for them. */
static json_t *bindings(const struct status_snapshot *snap, const struct status_sequence *q)
{
	json_t *array;

	if (q->first_binding == STATUS_NOT_LISTED)
		return json_null();
	array = json_array();
	for (uint32_t i = 0; i < q->n_bound + q->n_retiring; i++) {
		const struct wire_binding *b = &snap->bindings[q->first_binding + i];

		json_array_append_new(array, json_pack("[i, i]", b->logical, b->page));
	}
	return array;
}

static json_t *sequence(const struct status_snapshot *snap, const struct status_sequence *q)
{
	json_t *object = json_object();

	json_put(object, "group", q->group);
	json_put(object, "slot", q->slot);
	json_put(object, "generation", q->generation);
	json_put(object, "endpoint", q->endpoint);
	json_object_set_new(object, "pending_endpoint",
			    q->pending_endpoint >= 0 ? json_integer(q->pending_endpoint) : json_null());
	json_put(object, "retained_begin", q->retained_begin);
	json_put(object, "retained_end", q->retained_end);
	json_put(object, "bound", q->n_bound);
	json_put(object, "reserved", q->n_reserved);
	json_put(object, "retiring", q->n_retiring);
	json_put(object, "staged", q->n_staged);
	json_object_set_new(object, "bindings", bindings(snap, q));
	return object;
}

static json_t *request(const struct sample *s, const struct status_request *r)
{
	const struct status_snapshot *snap = &s->snapshot;
	json_t *object = json_object(), *array;

	json_put(object, "session", snap->sessions[r->session].id);
	put_hex(object, "handle", r->handle);
	json_put_text(object, "phase", phase_name((int)r->phase));
	json_put_text(object, "pending", transition_name((int)r->transition));
	json_put(object, "stream", r->stream);
	json_put(object, "open_points", r->open_points);
	put_age(object, "age_ms", s, r->begun_ns);
	json_put(object, "n_sequences", r->n_sequences);
	if (r->first_sequence == STATUS_NOT_LISTED) {
		json_object_set_new(object, "sequences", json_null());
		return object;
	}
	array = json_array();
	for (uint32_t i = 0; i < r->n_sequences * snap->sessions[r->session].n_groups; i++)
		json_array_append_new(array, sequence(snap, &snap->sequences[r->first_sequence + i]));
	json_object_set_new(object, "sequences", array);
	return object;
}

static json_t *requests(const struct view *v, const struct sample *s)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < s->snapshot.n_requests; i++)
		if (view_has_request(v, &s->snapshot, i))
			json_array_append_new(array, request(s, &s->snapshot.requests[i]));
	return array;
}

static json_t *counters(const struct status_snapshot *s)
{
	json_t *c = json_object();

	put_unsigned(c, "attaches", s->attaches);
	put_unsigned(c, "detaches", s->detaches);
	put_unsigned(c, "deaths", s->deaths);
	put_unsigned(c, "kicked", s->kicked);
	put_unsigned(c, "refused_attaches", s->refused_attaches);
	put_unsigned(c, "reclaimed_pages", s->reclaimed_pages);
	put_unsigned(c, "commands", s->commands);
	put_unsigned(c, "refusals", s->refusals);
	put_unsigned(c, "rounds", s->rounds);
	put_unsigned(c, "sleeps", s->sleeps);
	put_unsigned(c, "wakeups", s->wakeups);
	put_unsigned(c, "late", s->late);
	put_unsigned(c, "rescues", s->rescues);
	put_unsigned(c, "timer_polls", s->timer_polls);
	return c;
}

static void put_snapshot(json_t *to, const struct view *v, const struct sample *s)
{
	json_put(to, "age_ms", s->age_ms);
	put_unsigned(to, "snapshot", s->snapshot.number);
	json_put_bool(to, "truncated", s->snapshot.truncated != 0);
	put_age(to, "device_lost_ms", s, s->snapshot.device_lost_ns);
	json_object_set_new(to, "pool", pool(s));
	json_object_set_new(to, "invariant", invariant(&s->snapshot));
	json_object_set_new(to, "classes", classes(&s->snapshot));
	json_object_set_new(to, "moves", moves_json(&s->snapshot));
	json_object_set_new(to, "models", models(s));
	json_object_set_new(to, "tallies", tallies_json(&s->snapshot));
	json_object_set_new(to, "sessions", sessions(v, s));
	if (v->requests)
		json_object_set_new(to, "requests", requests(v, s));
	if (v->map)
		json_object_set_new(to, "map", map_json(&s->snapshot));
	if (v->events)
		json_object_set_new(to, "events", events_json(s));
	json_object_set_new(to, "counters", counters(&s->snapshot));
	json_object_set_new(to, "refusals_by_reason", refusals(&s->snapshot));
}

void json_write(FILE *out, const struct view *v, const struct sample *s)
{
	json_t *root = json_object();

	json_put_text(root, "status", verdict_name(s->verdict));
	json_put_text(root, "reason", s->reason);
	json_put_text(root, "hint", s->hint);
	json_put_text(root, "instance", s->instance);
	if (s->has_head && s->verdict != VERDICT_NOT_RUNNING) {
		put_head(root, s);
		json_object_set_new(root, "threads", threads(s));
	}
	if (s->has_snapshot)
		put_snapshot(root, v, s);
	json_dumpf(root, out, v->compact ? JSON_COMPACT : JSON_INDENT(2));
	fputc('\n', out);
	json_decref(root);
}
