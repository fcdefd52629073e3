/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the view for people */
#include <inttypes.h>
#include <string.h>

#include "lifecycle.h"
#include "show_map.h"
#include "show_moves.h"
#include "show_tallies.h"
#include "size.h"
#include "status_sums.h"
#include "text.h"
#include "view.h"

enum { BINDINGS_A_LINE = 10 };

static void write_broker(FILE *out, const struct sample *s)
{
	const struct status_head *h = &s->head;
	char a[TEXT_SIZE];

	fprintf(out, "broker   %s: %s\n", s->instance, verdict_name(s->verdict));
	if (s->reason[0])
		fprintf(out, "         %s\n", s->reason);
	if (!s->has_head || s->verdict == VERDICT_NOT_RUNNING)
		return;
	fprintf(out, "process  pid %d, uid %u, up %s, swakvd %s\n", h->pid, h->uid, text_duration(a, s->uptime_ms),
		h->version_text);
	fprintf(out, "device   %s backend, %s%s%s, export %s, pool %s\n", h->backend, h->device,
		h->device_uuid[0] ? ", " : "", h->device_uuid, h->export_kind, h->pool);
	fprintf(out, "socket   %s\n", h->socket_path);
	fprintf(out, "machine  %s; ring thread on %s\n", h->machine, h->ring_cpus);
	fprintf(out, "threads ");
	for (int i = 0; i < STATUS_N_THREADS; i++)
		fprintf(out, "%s %s %s%s", i ? "," : "", s->threads[i].name,
			text_duration(a, s->threads[i].heartbeat_age_ms), s->threads[i].stuck ? " STUCK" : "");
	fprintf(out, " since the last sign of life\n");
	if (s->has_snapshot)
		fprintf(out, "page     snapshot %" PRIu64 ", %s old%s\n", s->snapshot.number,
			text_duration(a, s->age_ms),
			s->snapshot.truncated ? "; not all requests, sequences and bindings fit" : "");
	if (s->has_snapshot && s->snapshot.device_lost_ns)
		fprintf(out, "LOST     the device, %s ago: no new sessions and requests; see the broker's log\n",
			text_duration(a, sample_age_ms(s, s->snapshot.device_lost_ns)));
	if (s->has_snapshot && s->snapshot.drained)
		fprintf(out, "draining no new sessions and requests of any model, until swakv-ctl drain --off\n");
}

static void write_pool(FILE *out, const struct status_snapshot *s)
{
	char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE], d[TEXT_SIZE], e[TEXT_SIZE], why[160];

	fprintf(out, "\npool     total %s = held %s + free %s + unusable %s; extents of %s\n",
		size_text(s->pool_total, a), size_text(s->pool_held, b), size_text(s->pool_free, c),
		size_text(s->pool_unusable, d), size_text(s->extent_bytes, e));
	fprintf(out, "tables   %s of %s used\n", size_text(s->table_area_used, a), size_text(s->table_area_bytes, b));
	if (status_sums_hold(s, why, sizeof(why)))
		fprintf(out, "sums     hold: of the pool's bytes, of the pages of each class, of what sessions have\n");
	else
		fprintf(out, "sums     DO NOT HOLD: %s\n", why);
}

static void write_class_row(FILE *out, const char *name, const char *bytes, const struct status_class *c)
{
	fprintf(out,
		"%-6s %-6s %10s %10" PRId64 " %10" PRId64 " %10" PRId64 " %12" PRId64 " %10" PRId64 " %8u %6u %9u\n",
		name, text_form(c->joined), bytes, c->pages, c->free, c->leased, c->quarantined, c->available,
		c->extents, c->empty, c->sessions);
}

static void write_classes(FILE *out, const struct status_snapshot *s)
{
	struct status_class sum = { 0 };
	char name[16], bytes[TEXT_SIZE];

	fprintf(out, "\n%-6s %-6s %10s %10s %10s %10s %12s %10s %8s %6s %9s\n", "CLASS", "FORM", "PAGE", "PAGES",
		"FREE", "LEASED", "QUARANTINED", "AVAILABLE", "EXTENTS", "EMPTY", "SESSIONS");
	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *c = &s->classes[i];

		snprintf(name, sizeof(name), "%" PRIu32, i);
		write_class_row(out, name, size_text(c->page_bytes, bytes), c);
		sum.pages += c->pages;
		sum.free += c->free;
		sum.leased += c->leased;
		sum.quarantined += c->quarantined;
	}
	fprintf(out, "%-6s %-6s %10s %10" PRId64 " %10" PRId64 " %10" PRId64 " %12" PRId64 "\n", "all", "", "",
		sum.pages, sum.free, sum.leased, sum.quarantined);
}

static const char *limit_text(char buf[TEXT_SIZE], uint64_t bytes)
{
	return bytes ? size_text(bytes, buf) : "-";
}

/* "12 of class 0, 3 of class 1": what the model's sessions hold. */
static void write_model_pages(FILE *out, const struct status_snapshot *s, const struct status_model *m)
{
	struct status_managed managed;
	const char *before = "";

	for (uint32_t i = 0; i < s->n_classes; i++) {
		int64_t n = status_model_pages(s, m, i);

		if (n == 0)
			continue;
		fprintf(out, "%s%" PRId64 " of class %" PRIu32, before, n, i);
		before = ", ";
	}
	managed = status_model_managed(s, m);
	if (managed.managed)
		fprintf(out, "; %" PRId64 " managed, %" PRId64 " wanted", managed.managed, managed.wanted);
	fputs(*before ? "\n" : "-\n", out);
}

static void write_models(FILE *out, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE], d[TEXT_SIZE];

	if (snap->n_models == 0)
		return;
	fprintf(out, "\n%-20s %10s %10s %10s %9s %8s %10s %7s %8s  %s\n", "MODEL", "FLOOR", "CEILING", "USED",
		"SESSIONS", "WAITING", "LONGEST", "CLAIMS", "DRAINED", "PAGES");
	for (uint32_t i = 0; i < snap->n_models; i++) {
		const struct status_model *m = &snap->models[i];

		fprintf(out, "%-20s %10s %10s %10s %9u %8u %10s %7s %8s  ", m->name, limit_text(a, m->floor),
			limit_text(b, m->ceiling), size_text(m->used, c), m->sessions, m->waiting,
			m->oldest_wait_ns ? text_duration(d, sample_age_ms(s, m->oldest_wait_ns)) : "-",
			m->claims ? "yes" : "-", snap->drained || m->drained ? "yes" : "-");
		write_model_pages(out, snap, m);
	}
}

/* Age of a moment that may not have been: "-". */
static const char *age(const struct sample *s, uint64_t then_ns, char buf[TEXT_SIZE])
{
	return then_ns ? text_duration(buf, sample_age_ms(s, then_ns)) : "-";
}

static const char *last_result(const struct status_session *x)
{
	return x->last_op ? swakv_error_name(x->last_code) : "-";
}

static void write_session_rows(FILE *out, const struct view *v, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	char a[TEXT_SIZE], b[TEXT_SIZE];

	fprintf(out, "\n%-7s %8s %6s %-16s %-9s %5s %5s %8s %11s %9s %-16s %-9s %8s\n", "SESSION", "PID", "UID",
		"MODEL", "STATE", "REQ", "SEQ", "LEASED", "QUARANTINED", "OLDEST", "LAST COMMAND", "RESULT", "AGO");
	for (uint32_t i = 0; i < snap->n_sessions; i++) {
		const struct status_session *x = &snap->sessions[i];

		if (!view_has_session(v, snap, i))
			continue;
		fprintf(out, "%-7u %8d %6u %-16s %-9s %5u %5u %8" PRId64 " %11" PRId64 " %9s %-16s %-9s %8s\n", x->id,
			x->pid, x->uid, x->model, x->poisoned ? "poisoned" : text_session_state(x->state),
			x->n_requests, x->n_sequences, x->leased, x->quarantined, age(s, x->oldest_lease_ns, a),
			text_op(x->last_op), last_result(x), age(s, x->last_ns, b));
	}
}

/* Whoever is asked for pages that others lack, and since when: it has not given them. */
static void write_asked(FILE *out, const struct view *v, const struct sample *s)
{
	const char *before = "\n";
	char a[TEXT_SIZE];

	for (uint32_t i = 0; i < s->snapshot.n_sessions; i++) {
		const struct status_session *x = &s->snapshot.sessions[i];
		struct status_managed m = status_session_managed(x);

		if (!m.wanted || !view_has_session(v, &s->snapshot, i))
			continue;
		fprintf(out,
			"%sasked      session %u (%s) for %" PRId64 " of the %" PRId64
			" pages that it manages, for %s; it offers %" PRId64 "\n",
			before, x->id, x->model, m.wanted, m.managed, age(s, m.since_ns, a), m.offered);
		before = "";
	}
}

static void write_counters(FILE *out, const struct status_snapshot *s)
{
	char reason[TEXT_SIZE];

	fprintf(out,
		"\nsessions   %" PRIu64 " attached, %" PRIu64 " detached, %" PRIu64 " died, %" PRIu64 " ended, %" PRIu64
		" refused; %" PRIu64 " pages reclaimed\n",
		s->attaches, s->detaches, s->deaths, s->kicked, s->refused_attaches, s->reclaimed_pages);
	fprintf(out,
		"commands   %" PRIu64 " executed, %" PRIu64 " refused; %" PRIu64 " rounds, %" PRIu64 " sleeps, %" PRIu64
		" wake-ups, %" PRIu64 " late, %" PRIu64 " rescues, %" PRIu64 " timer polls\n",
		s->commands, s->refusals, s->rounds, s->sleeps, s->wakeups, s->late, s->rescues, s->timer_polls);
	for (uint32_t i = 0; i < STATUS_MAX_REASONS; i++)
		if (s->refusals_by[i])
			fprintf(out, "refused    %" PRIu64 " for %s\n", s->refusals_by[i], text_reason(reason, i));
}

static void write_group(FILE *out, const struct sample *s, uint32_t index, const struct status_group *g)
{
	const struct status_class *c = &s->snapshot.classes[g->class_index];
	char a[TEXT_SIZE];

	fprintf(out, "  group %u     ", index);
	if (g->kind == WIRE_GROUP_FULL)
		fprintf(out, "full, ");
	else
		fprintf(out, "window %" PRId64 ", ", g->window);
	fprintf(out, "%u tokens a page of %s, class %u (%s); %d private pages a sequence, %" PRId64 " held%s%s\n",
		g->page_tokens, size_text(c->page_bytes, a), g->class_index, text_form(c->joined), g->private_pages,
		g->held, g->tag[0] ? "; tag " : "", g->tag);
	if (g->movable)
		fprintf(out, "              movable: %" PRIu64 " pages have moved\n", g->moved);
	for (uint32_t i = 0; i < g->n_ranges; i++)
		fprintf(out, "%s[%" PRId32 ", %" PRId32 ")%s",
			i ? ", " : "              wanted first: ", g->ranges[i].first, g->ranges[i].end,
			i + 1 == g->n_ranges ? "\n" : "");
}

/* Of the processes that have joined it. */
static void write_members(FILE *out, const struct status_session *x)
{
	for (uint32_t i = 0; i < x->n_members; i++)
		fprintf(out, "%s%d", i == 0 ? "  joined by   pid " : ", ", x->members[i]);
	if (x->n_members)
		fputc('\n', out);
}

static void write_session(FILE *out, const struct sample *s, const struct status_session *x)
{
	struct status_managed m = status_session_managed(x);
	char a[TEXT_SIZE];

	fprintf(out, "\nsession %u (generation %u): %s%s\n", x->id, x->generation, text_session_state(x->state),
		x->poisoned ? ", poisoned" : "");
	fprintf(out, "  process     pid %d, uid %u, attached %s ago\n", x->pid, x->uid, age(s, x->attached_ns, a));
	write_members(out, x);
	if (x->ended_ns)
		fprintf(out, "  ended       %s ago\n", age(s, x->ended_ns, a));
	fprintf(out, "  model       %s: %u layer groups, %u slots, %u streams\n", x->model, x->n_groups, x->max_batch,
		x->n_streams);
	for (uint32_t i = 0; i < x->n_groups; i++)
		write_group(out, s, i, &x->groups[i]);
	fprintf(out, "  requests    %u with %u sequences; oldest %s\n", x->n_requests, x->n_sequences,
		age(s, x->oldest_lease_ns, a));
	fprintf(out,
		"  pages       %" PRId64 " leased (%" PRId64 " reserved and not bound, %" PRId64
		" behind %u open completion points), %" PRId64 " quarantined\n",
		x->leased, x->unbound, x->behind_points, x->open_points, x->quarantined);
	if (m.managed || x->asked)
		fprintf(out,
			"  managed     %" PRId64 " pages, of which it offers %" PRId64 "; asked for %" PRId64
			" (for %s); %" PRIu64 " times asked, %" PRIu64 " without a page given\n",
			m.managed, m.offered, m.wanted, age(s, m.since_ns, a), x->asked, x->unanswered);
	session_moves_write(out, x);
	if (x->waiting)
		fprintf(out, "  waiting     %u requests and takes wait for pages\n", x->waiting);
	if (x->oldest_point_ns)
		fprintf(out, "  points      the oldest of %u has been open for %s\n", x->open_points,
			age(s, x->oldest_point_ns, a));
	fprintf(out,
		"  commands    %" PRIu64 ", %" PRIu64 " refused, %" PRIu64 " rounds blocked by a full reply ring\n",
		x->commands, x->refused, x->rounds_blocked);
	fprintf(out, "  last        %s: %s, %s ago\n", text_op(x->last_op), last_result(x), age(s, x->last_ns, a));
}

static void write_bindings(FILE *out, const struct status_snapshot *s, const struct status_sequence *q)
{
	uint32_t n = q->n_bound + q->n_retiring;

	if (q->first_binding == STATUS_NOT_LISTED) {
		fprintf(out, "      bindings not listed: the snapshot is full\n");
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct wire_binding *b = &s->bindings[q->first_binding + i];

		fprintf(out, "%s %" PRId32 "=%" PRId32 "%s", i % BINDINGS_A_LINE ? "" : "      bindings", b->logical,
			b->page, i + 1 == n || i % BINDINGS_A_LINE == BINDINGS_A_LINE - 1 ? "\n" : "");
	}
}

static void write_request(FILE *out, const struct sample *s, const struct status_request *r)
{
	const struct status_snapshot *snap = &s->snapshot;
	uint32_t n_groups = snap->sessions[r->session].n_groups;
	char a[TEXT_SIZE];

	fprintf(out, "\nrequest %u:0x%" PRIx64 ": %s, pending %s, stream %u, %u open completion points, begun %s ago\n",
		snap->sessions[r->session].id, r->handle, phase_name((int)r->phase),
		transition_name((int)r->transition), r->stream, r->open_points, age(s, r->begun_ns, a));
	if (r->first_sequence == STATUS_NOT_LISTED) {
		fprintf(out, "  %u sequences not listed: the snapshot is full\n", r->n_sequences);
		return;
	}
	for (uint32_t i = 0; i < r->n_sequences * n_groups; i++) {
		const struct status_sequence *q = &snap->sequences[r->first_sequence + i];

		fprintf(out, "  sequence %" PRIu32, i / n_groups);
		if (n_groups > 1)
			fprintf(out, " group %" PRIu32, q->group);
		fprintf(out, ": slot %" PRId32 " (generation %u), endpoint %" PRId64, q->slot, q->generation,
			q->endpoint);
		if (q->pending_endpoint >= 0)
			fprintf(out, " -> %" PRId64, q->pending_endpoint);
		fprintf(out, ", retains [%" PRId32 ", %" PRId32 "), %u bound, %u reserved, %u retiring, %u staged\n",
			q->retained_begin, q->retained_end, q->n_bound, q->n_reserved, q->n_retiring, q->n_staged);
		write_bindings(out, snap, q);
	}
}

static void write_requests(FILE *out, const struct view *v, const struct sample *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->snapshot.n_requests; i++) {
		if (!view_has_request(v, &s->snapshot, i))
			continue;
		write_request(out, s, &s->snapshot.requests[i]);
		n++;
	}
	if (n == 0)
		fprintf(out, "\nno requests\n");
}

static void write_quarantine(FILE *out, const struct view *v, const struct sample *s)
{
	const struct status_snapshot *snap = &s->snapshot;
	char a[TEXT_SIZE], reason[400];
	uint32_t n = 0;

	for (uint32_t i = 0; i < snap->n_sessions; i++) {
		const struct status_session *x = &snap->sessions[i];

		if (!view_has_session(v, snap, i))
			continue;
		fprintf(out, "\nsession %u (pid %d, %s, %s): %" PRId64 " pages quarantined", x->id, x->pid, x->model,
			text_session_state(x->state), x->quarantined);
		if (x->ended_ns)
			fprintf(out, ", ended %s ago", age(s, x->ended_ns, a));
		fprintf(out, "\n  %s\n", view_quarantine_reason(x, reason, sizeof(reason)));
		write_members(out, x);
		n++;
	}
	if (n == 0)
		fprintf(out, "\nno pages are quarantined\n");
}

void table_write(FILE *out, const struct view *v, const struct sample *s)
{
	write_broker(out, s);
	if (!s->has_snapshot)
		return;
	if (v->quarantine) {
		write_quarantine(out, v, s);
		return;
	}
	if (v->sessions)
		for (uint32_t i = 0; i < s->snapshot.n_sessions; i++)
			if (view_has_session(v, &s->snapshot, i))
				write_session(out, s, &s->snapshot.sessions[i]);
	if (v->requests)
		write_requests(out, v, s);
	if (v->map)
		map_write(out, &s->snapshot);
	if (v->events)
		events_write(out, s);
	if (v->sessions || v->requests || v->map || v->events)
		return;
	write_pool(out, &s->snapshot);
	write_classes(out, &s->snapshot);
	write_models(out, s);
	tallies_write(out, &s->snapshot);
	write_session_rows(out, v, s);
	write_asked(out, v, s);
	moves_write(out, v, &s->snapshot);
	write_counters(out, &s->snapshot);
}
