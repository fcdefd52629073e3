/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.c - the view for a metrics collector: text exposition format 0.0.4, or OpenMetrics 1.0.0
 *
 * The two have the same samples; in OpenMetrics a counter's family is named
 * without the _total of its samples, and a last line says that all is there.
 *
 * A family's samples stand together behind its HELP and TYPE lines. The label
 * of the broker's name is `broker`: Prometheus gives `instance` a meaning of
 * its own. The names are an interface: they are listed in swakv-status(1).
 */
#include "exposition.h"
#include "show_tallies.h"
#include "status_sums.h"
#include "text.h"
#include "view.h"

static void write_health(struct exposition *e, const struct sample *s)
{
	static const enum verdict states[] = { VERDICT_RUNNING, VERDICT_NOT_RUNNING, VERDICT_STALE, VERDICT_STUCK };

	single(e, "swakv_up", "gauge", "1 while the broker runs and is neither stale nor stuck.",
	       s->verdict == VERDICT_RUNNING);
	family(e, "swakv_status", "gauge", "1 for the state that the broker is in.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		sample_begin(e);
		label(e, "state", verdict_name(states[i]));
		value(e, s->verdict == states[i]);
	}
}

static void write_head(struct exposition *e, const struct sample *s)
{
	family(e, "swakv_info", "gauge", "What runs where; always 1.");
	sample_begin(e);
	label(e, "version", s->head.version_text);
	label(e, "pool", s->head.pool);
	label(e, "backend", s->head.backend);
	label(e, "device", s->head.device);
	label(e, "device_uuid", s->head.device_uuid);
	label(e, "export", s->head.export_kind);
	value(e, 1);
	single(e, "swakv_start_time_seconds", "gauge", "Start of the broker, in seconds since the epoch.",
	       (uint64_t)s->head.started_unix);
	family(e, "swakv_thread_heartbeat_age_seconds", "gauge", "Time since a thread's last sign of life.");
	for (int i = 0; i < STATUS_N_THREADS; i++) {
		sample_begin(e);
		label(e, "thread", s->threads[i].name);
		value_seconds(e, s->threads[i].heartbeat_age_ms);
	}
	family(e, "swakv_thread_stuck", "gauge", "1 for a thread that gives no sign of life.");
	for (int i = 0; i < STATUS_N_THREADS; i++) {
		sample_begin(e);
		label(e, "thread", s->threads[i].name);
		value(e, s->threads[i].stuck);
	}
}

static void write_pool(struct exposition *e, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	const struct {
		const char *state;
		uint64_t bytes;
	} parts[] = { { "held", snap->pool_held }, { "free", snap->pool_free }, { "unusable", snap->pool_unusable } };

	family(e, "swakv_snapshot_age_seconds", "gauge", "Age of the snapshot that all other numbers are from.");
	sample_begin(e);
	value_seconds(e, s->age_ms);
	single(e, "swakv_device_lost", "gauge", "1 once the broker has lost its device.", snap->device_lost_ns != 0);
	single(e, "swakv_pool_size_bytes", "gauge", "Size of the pool, both halves.", snap->pool_total);
	family(e, "swakv_pool_bytes", "gauge", "Bytes of the pool by state; they add up to its size.");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		sample_begin(e);
		label(e, "state", parts[i].state);
		value(e, (int64_t)parts[i].bytes);
	}
	single(e, "swakv_extent_bytes", "gauge", "Bytes of one extent, both halves.", snap->extent_bytes);
	single(e, "swakv_table_area_size_bytes", "gauge", "Size of the table area.", snap->table_area_bytes);
	single(e, "swakv_table_area_used_bytes", "gauge", "Used bytes of the table area.", snap->table_area_used);
}

static void write_sums(struct exposition *e, const struct status_snapshot *s)
{
	char why[160];

	single(e, "swakv_invariant_holds", "gauge", "1 while bytes, pages and what sessions hold add up.",
	       status_sums_hold(s, why, sizeof(why)));
}

/* A sample's labels that say which class. */
static void class_begin(struct exposition *e, const struct status_snapshot *s, uint32_t i)
{
	sample_begin(e);
	label_number(e, "class", i);
	label_number(e, "page_bytes", (int64_t)s->classes[i].page_bytes);
	label(e, "form", text_form(s->classes[i].joined));
}

static void write_class_states(struct exposition *e, const struct status_snapshot *s)
{
	family(e, "swakv_class_pages", "gauge", "Pages of a class by state; they add up to the pages of its extents.");
	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *c = &s->classes[i];
		const struct {
			const char *state;
			int64_t pages;
		} parts[] = { { "free", c->free }, { "leased", c->leased }, { "quarantined", c->quarantined } };

		for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
			class_begin(e, s, i);
			label(e, "state", parts[k].state);
			value(e, parts[k].pages);
		}
	}
}

#define CLASS_GAUGE(name, help, field)                                                                                 \
	family(e, name, "gauge", help);                                                                                \
	for (uint32_t i = 0; i < s->n_classes; i++) {                                                                  \
		class_begin(e, s, i);                                                                                  \
		value(e, (int64_t)s->classes[i].field);                                                                \
	}

static void write_stays(struct exposition *e, const struct status_snapshot *s)
{
	family(e, "swakv_class_staying_extents", "gauge",
	       "Extents that others lack and that do not come empty, by reason; absent where there are none.");
	for (uint32_t i = 0; i < s->n_classes; i++) {
		for (uint32_t k = 0; k < STAY_COUNT; k++) {
			if (!s->classes[i].stays[k])
				continue;
			class_begin(e, s, i);
			label(e, "reason", text_stay(k));
			value(e, s->classes[i].stays[k]);
		}
	}
}

static void write_classes(struct exposition *e, const struct status_snapshot *s)
{
	write_class_states(e, s);
	CLASS_GAUGE("swakv_class_size_pages", "Pages of a class's extents.", pages)
	CLASS_GAUGE("swakv_class_available_pages", "Free pages and those that unassigned extents would give.",
		    available)
	CLASS_GAUGE("swakv_class_extents", "Extents that a class holds.", extents)
	CLASS_GAUGE("swakv_class_empty_extents", "Extents of a class that no live page touches.", empty)
	CLASS_GAUGE("swakv_class_sessions", "Sessions whose pages are of a class.", sessions)
	CLASS_GAUGE("swakv_class_emptying_extents", "Extents of a class that are to come empty for others.", emptying)
	write_stays(e, s);
}

#define MODEL_GAUGE(metric, help, field)                                                                               \
	family(e, metric, "gauge", help);                                                                              \
	for (uint32_t i = 0; i < s->n_models; i++) {                                                                   \
		sample_begin(e);                                                                                       \
		label(e, "model", s->models[i].name);                                                                  \
		value(e, (int64_t)s->models[i].field);                                                                 \
	}

static void write_model_pages(struct exposition *e, const struct status_snapshot *s)
{
	family(e, "swakv_model_pages", "gauge", "Pages that a model's sessions hold, by class.");
	for (uint32_t i = 0; i < s->n_models; i++) {
		for (uint32_t c = 0; c < s->n_classes; c++) {
			int64_t n = status_model_pages(s, &s->models[i], c);

			if (n == 0)
				continue;
			class_begin(e, s, c);
			label(e, "model", s->models[i].name);
			value(e, n);
		}
	}
}

static void write_model_bytes(struct exposition *e, const struct status_snapshot *s)
{
	family(e, "swakv_model_bytes", "gauge", "Bytes that a model's sessions hold, K and V, by what they are.");
	for (uint32_t i = 0; i < s->n_models; i++) {
		const struct status_bytes b = status_model_bytes(s, &s->models[i]);
		const struct {
			const char *state;
			uint64_t bytes;
		} parts[] = { { "bound", b.bound },
			      { "reserved", b.reserved },
			      { "managed", b.managed },
			      { "quarantined", b.quarantined } };

		for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
			sample_begin(e);
			label(e, "model", s->models[i].name);
			label(e, "state", parts[k].state);
			value(e, (int64_t)parts[k].bytes);
		}
	}
}

/* A model without one has no sample: 0 would be the smallest ceiling of all. */
static void write_ceilings(struct exposition *e, const struct status_snapshot *s)
{
	family(e, "swakv_model_ceiling_bytes", "gauge", "A model's ceiling, K and V; absent where it has none.");
	for (uint32_t i = 0; i < s->n_models; i++) {
		if (!s->models[i].ceiling)
			continue;
		sample_begin(e);
		label(e, "model", s->models[i].name);
		value(e, (int64_t)s->models[i].ceiling);
	}
}

static void write_models(struct exposition *e, const struct sample *sample)
{
	const struct status_snapshot *s = &sample->snapshot;

	MODEL_GAUGE("swakv_model_floor_bytes", "A model's floor, K and V.", floor)
	write_ceilings(e, s);
	MODEL_GAUGE("swakv_model_used_bytes", "What a model's sessions hold, quarantine included.", used)
	MODEL_GAUGE("swakv_model_sessions", "Sessions of a model.", sessions)
	MODEL_GAUGE("swakv_model_waiting", "Requests and takes of a model that wait for pages.", waiting)
	MODEL_GAUGE("swakv_model_drained", "1 while an administrator drains a model.", drained || s->drained)
	family(e, "swakv_model_oldest_wait_seconds", "gauge",
	       "How long a model's first waiting request has waited; 0 if none waits.");
	for (uint32_t i = 0; i < s->n_models; i++) {
		sample_begin(e);
		label(e, "model", s->models[i].name);
		value_seconds(e, s->models[i].oldest_wait_ns ? sample_age_ms(sample, s->models[i].oldest_wait_ns) : 0);
	}
	write_model_pages(e, s);
	write_model_bytes(e, s);
}

static void write_reasons(struct exposition *e, const struct status_snapshot *s)
{
	char reason[TEXT_SIZE];

	family(e, "swakv_refusals_by_reason_total", "counter", "Refused commands, entries of steps and attaches.");
	for (uint32_t i = 0; i < STATUS_MAX_REASONS; i++) {
		if (!s->refusals_by[i])
			continue;
		sample_begin(e);
		label(e, "reason", text_reason(reason, i));
		value(e, (int64_t)s->refusals_by[i]);
	}
}

/* A sample's labels that say which session; its process is told by swakv_session_info alone. */
static void session_begin(struct exposition *e, const struct status_session *x)
{
	sample_begin(e);
	label_number(e, "session", x->id);
	label_number(e, "generation", x->generation);
	label(e, "model", x->model);
}

static void write_session_pages(struct exposition *e, const struct view *v, const struct status_snapshot *s)
{
	family(e, "swakv_session_pages", "gauge", "Pages of a session by state.");
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		const struct status_session *x = &s->sessions[i];

		if (!view_has_session(v, s, i))
			continue;
		session_begin(e, x);
		label(e, "state", "leased");
		value(e, x->leased);
		session_begin(e, x);
		label(e, "state", "quarantined");
		value(e, x->quarantined);
	}
}

static void write_session_states(struct exposition *e, const struct view *v, const struct status_snapshot *s)
{
	family(e, "swakv_session_info", "gauge", "A session's state; always 1.");
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		if (!view_has_session(v, s, i))
			continue;
		session_begin(e, &s->sessions[i]);
		label_number(e, "pid", s->sessions[i].pid);
		label_number(e, "uid", s->sessions[i].uid);
		label(e, "state", text_session_state(s->sessions[i].state));
		value(e, 1);
	}
}

static void write_session_oldest(struct exposition *e, const struct view *v, const struct sample *s)
{
	family(e, "swakv_session_oldest_lease_seconds", "gauge", "Age of a session's oldest live request.");
	for (uint32_t i = 0; i < s->snapshot.n_sessions; i++) {
		const struct status_session *x = &s->snapshot.sessions[i];

		if (!view_has_session(v, &s->snapshot, i) || !x->oldest_lease_ns)
			continue;
		session_begin(e, x);
		value_seconds(e, sample_age_ms(s, x->oldest_lease_ns));
	}
}

#define MANAGED_FAMILY(name, help, field)                                                                              \
	family(e, name, "gauge", help);                                                                                \
	for (uint32_t i = 0; i < snap->n_sessions; i++) {                                                              \
		if (!view_has_session(v, snap, i))                                                                     \
			continue;                                                                                      \
		session_begin(e, &snap->sessions[i]);                                                                  \
		value(e, status_session_managed(&snap->sessions[i]).field);                                            \
	}

static void write_session_managed(struct exposition *e, const struct view *v, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;

	MANAGED_FAMILY("swakv_session_managed_pages", "Pages that a session manages itself.", managed)
	MANAGED_FAMILY("swakv_session_offered_pages", "Pages of these that the session offers to give.", offered)
	MANAGED_FAMILY("swakv_session_wanted_pages", "Pages that the session is asked to give.", wanted)
	family(e, "swakv_session_wanted_seconds", "gauge",
	       "How long the session has been asked; absent where it is not.");
	for (uint32_t i = 0; i < snap->n_sessions; i++) {
		struct status_managed m = status_session_managed(&snap->sessions[i]);

		if (!view_has_session(v, snap, i) || !m.since_ns)
			continue;
		session_begin(e, &snap->sessions[i]);
		value_seconds(e, sample_age_ms(s, m.since_ns));
	}
}

#define SESSION_FAMILY(name, type, help, field)                                                                        \
	family(e, name, type, help);                                                                                   \
	for (uint32_t i = 0; i < snap->n_sessions; i++) {                                                              \
		if (!view_has_session(v, snap, i))                                                                     \
			continue;                                                                                      \
		session_begin(e, &snap->sessions[i]);                                                                  \
		value(e, (int64_t)snap->sessions[i].field);                                                            \
	}

static void write_sessions(struct exposition *e, const struct view *v, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;

	write_session_states(e, v, snap);
	write_session_pages(e, v, snap);
	write_session_oldest(e, v, s);
	write_session_managed(e, v, s);
	SESSION_FAMILY("swakv_session_poisoned", "gauge", "1 after a failed completion.", poisoned)
	SESSION_FAMILY("swakv_session_unbound_pages", "gauge", "Leased pages that are in no row.", unbound)
	SESSION_FAMILY("swakv_session_waiting", "gauge", "Requests and takes of a session that wait for pages.",
		       waiting)
	SESSION_FAMILY("swakv_session_pages_to_move", "gauge",
		       "Pages of a session that are to move with its next steps.", to_move)
	SESSION_FAMILY("swakv_session_requests", "gauge", "Live requests of a session.", n_requests)
	SESSION_FAMILY("swakv_session_sequences", "gauge", "Live sequences of a session.", n_sequences)
	SESSION_FAMILY("swakv_session_open_points", "gauge", "Open completion points of a session.", open_points)
	SESSION_FAMILY("swakv_session_commands_total", "counter", "Commands of a session.", commands)
	SESSION_FAMILY("swakv_session_refusals_total", "counter", "Refused commands of a session.", refused)
	SESSION_FAMILY("swakv_session_asked_total", "counter",
		       "Times a session was asked for pages that others lacked.", asked)
	SESSION_FAMILY("swakv_session_unanswered_total", "counter",
		       "Times this was over before the session had given a page.", unanswered)
	SESSION_FAMILY("swakv_session_rounds_blocked_total", "counter", "Rounds a session's reply ring was full.",
		       rounds_blocked)
}

static void write_counters(struct exposition *e, const struct status_snapshot *s)
{
	single(e, "swakv_attaches_total", "counter", "Sessions attached.", s->attaches);
	single(e, "swakv_detaches_total", "counter", "Sessions closed by their clients.", s->detaches);
	single(e, "swakv_deaths_total", "counter", "Sessions whose process died or whose connection was lost.",
	       s->deaths);
	single(e, "swakv_kicked_total", "counter", "Sessions ended for a protocol violation.", s->kicked);
	single(e, "swakv_refused_attaches_total", "counter", "Attaches refused.", s->refused_attaches);
	single(e, "swakv_reclaimed_pages_total", "counter", "Pages reclaimed from ended sessions.", s->reclaimed_pages);
	single(e, "swakv_moved_pages_total", "counter", "Pages moved out of extents that others waited for.",
	       s->moved_pages);
	single(e, "swakv_moved_bytes_total", "counter", "Bytes of these, K and V.", s->moved_bytes);
	single(e, "swakv_moves_unplaced_total", "counter", "Times that there was no place for a page to move to.",
	       s->unplaced);
	single(e, "swakv_commands_total", "counter", "Commands executed.", s->commands);
	single(e, "swakv_refusals_total", "counter", "Commands refused.", s->refusals);
	single(e, "swakv_rounds_total", "counter", "Rounds of the ring thread.", s->rounds);
	single(e, "swakv_sleeps_total", "counter", "Times the ring thread slept.", s->sleeps);
	single(e, "swakv_wakeups_total", "counter", "Times the ring thread woke a client.", s->wakeups);
	single(e, "swakv_late_total", "counter", "Doorbells that came late: a worker was put aside.", s->late);
	single(e, "swakv_rescues_total", "counter", "Doorbells that never came; must stay 0.", s->rescues);
	single(e, "swakv_timer_polls_total", "counter", "Polls of open completion points by timer.", s->timer_polls);
}

static void write_snapshot(struct exposition *e, const struct view *v, const struct sample *s)
{
	write_pool(e, s);
	write_sums(e, &s->snapshot);
	write_classes(e, &s->snapshot);
	write_models(e, s);
	tallies_expose(e, &s->snapshot);
	write_sessions(e, v, s);
	write_counters(e, &s->snapshot);
	write_reasons(e, &s->snapshot);
}

void prometheus_write(FILE *out, const struct view *v, const struct sample *s)
{
	struct exposition e = { .out = out, .broker = s->instance, .openmetrics = v->format == VIEW_OPENMETRICS };

	write_health(&e, s);
	if (s->has_head && s->verdict != VERDICT_NOT_RUNNING)
		write_head(&e, s);
	if (s->has_snapshot)
		write_snapshot(&e, v, s);
	if (e.openmetrics)
		fputs("# EOF\n", out);
}
