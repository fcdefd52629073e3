/* SPDX-License-Identifier: Apache-2.0 */
#include "admin_job.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ring_thread.h"
#include "size.h"
#include "status/status.h"

/* What is likely a name mistyped is said, and no more: a model may attach later. */
#define NO_SESSION "; no session has that name now"

static void remark(struct admin_reply *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One more half-sentence behind what was done. */
static void remark(struct admin_reply *r, const char *format, ...)
{
	size_t at = strlen(r->text);
	va_list args;

	va_start(args, format);
	vsnprintf(r->text + at, sizeof(r->text) - at, format, args);
	va_end(args);
}

static void list_session(struct admin_session *out, const struct channel *c, uint64_t now)
{
	struct session_counts n;

	session_count(c->session, &n);
	*out = (struct admin_session){
		.id = c->id,
		.generation = c->generation,
		.pid = c->pid,
		.uid = c->uid,
		.state = status_session_state(c),
		.flags = (c->drained ? ADMIN_SESSION_DRAINED : 0) | (n.poisoned ? ADMIN_SESSION_POISONED : 0),
		.n_requests = n.requests,
		.n_sequences = n.sequences,
		.leased = n.leased,
		.quarantined = n.quarantined,
		.bytes = n.bytes,
		.n_waiting = c->n_waiting,
		.age_ns = now > c->attached_ns ? now - c->attached_ns : 0,
	};
	memcpy(out->model, c->model_name, sizeof(out->model));
}

static void list(struct admin_job *job, const struct ring_thread *t)
{
	const struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (c->state != CHANNEL_RECLAIMED && job->reply.n_sessions < ADMIN_MAX_SESSIONS)
			list_session(&job->sessions[job->reply.n_sessions++], c, t->now);
}

static void drain(struct admin_job *job, struct ring_thread *t)
{
	const struct admin_request *r = &job->request;
	struct channel *c;

	t->drained = job->drained;
	event_note_model(&t->events, t->now, r->flags & ADMIN_OFF ? STATUS_EVENT_DRAIN_ENDED : STATUS_EVENT_DRAINED,
			 r->model);
	ring_changed(t);
	TAILQ_FOREACH (c, &t->channels, link) {
		if (r->model[0] && strcmp(r->model, c->model_name) != 0)
			continue;
		c->drained = !(r->flags & ADMIN_OFF);
		if (c->drained && c->state == CHANNEL_ATTACHED)
			session_refuse_waiting(c->session, FAULT_DRAINED);
		job->reply.n_affected += c->state == CHANNEL_ATTACHED;
	}
	if (r->model[0] && job->reply.n_affected == 0)
		remark(&job->reply, NO_SESSION);
}

/* A ceiling that does not do at once what it says, or shuts the model out. */
static void remark_ceiling(struct admin_reply *r, const struct quota_counts *n)
{
	if (n->used > n->ceiling)
		remark(r,
		       "; applied: %" PRIu64 " bytes over, returning as they come free; nothing is taken away, and "
		       "begins are refused until then",
		       n->used - n->ceiling);
	if (n->ceiling < n->least)
		remark(r, "; its smallest request takes %" PRIu64 " bytes, so every begin will be refused", n->least);
	else if (n->ceiling < n->sequence)
		remark(r,
		       "; a sequence of max_seq takes %" PRIu64
		       " bytes, so begins without a lower max_tokens will be refused",
		       n->sequence);
}

/* What holds now; @lacks: of the floor. */
static void tell_limits(struct admin_reply *r, const struct quota_counts *n, uint64_t lacks)
{
	char ceiling[40] = "none";

	r->floor = n->floor;
	r->ceiling = n->ceiling;
	r->used = n->used;
	r->n_waiting = n->waiting;
	r->n_affected = n->sessions;
	if (n->ceiling)
		snprintf(ceiling, sizeof(ceiling), "%" PRIu64 " bytes", n->ceiling);
	snprintf(r->text, sizeof(r->text),
		 "model \"%s\": floor %" PRIu64 " bytes, ceiling %s; used %" PRIu64
		 " bytes, sessions %u, waiting requests %u",
		 n->name, n->floor, ceiling, n->used, n->sessions, n->waiting);
	if (n->sessions == 0)
		remark(r, NO_SESSION);
	if (lacks)
		remark(r,
		       "; nothing is taken away: %" PRIu64
		       " bytes of the floor at least are held by others now, and are there when these return them",
		       lacks);
	if (n->ceiling)
		remark_ceiling(r, n);
}

static void note_limits(struct ring_thread *t, const struct quota_counts *n)
{
	struct status_event *x = event_note_model(&t->events, t->now, STATUS_EVENT_LIMITED, n->name);
	char ceiling[24] = "none";

	if (n->ceiling)
		snprintf(ceiling, sizeof(ceiling), "%" PRIu64, n->ceiling);
	snprintf(x->text, sizeof(x->text), "floor %" PRIu64 ", ceiling %s", n->floor, ceiling);
}

static void limit(struct admin_job *job, struct ring_thread *t)
{
	const struct admin_request *r = &job->request;
	uint64_t pool = 2 * t->options.engine.half_bytes, floor = r->floor, ceiling = r->ceiling;
	struct quota_counts n = { 0 };
	struct fault f;

	if (r->flags & ADMIN_FLOOR_PERCENT)
		floor = size_share(pool, (uint32_t)floor);
	if (r->flags & ADMIN_CEILING_PERCENT)
		ceiling = size_share(pool, (uint32_t)ceiling);
	if (r->flags & (ADMIN_FLOOR | ADMIN_CEILING))
		job->reply.code = engine_limit(t->engine, r->model, r->flags & ADMIN_FLOOR ? &floor : NULL,
					       r->flags & ADMIN_CEILING ? &ceiling : NULL, &f);
	if (job->reply.code) {
		fault_format(&f, job->reply.text, sizeof(job->reply.text));
		return;
	}
	if (!engine_quota_of(t->engine, r->model, &n))
		memcpy(n.name, r->model, sizeof(n.name)); /* neither a session nor a limit */
	tell_limits(&job->reply, &n, engine_floor_lacks(t->engine, r->model));
	if (r->flags)
		note_limits(t, &n);
	ring_changed(t);
}

void admin_job_run(struct admin_job *job, struct ring_thread *t)
{
	const struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		job->reply.n_attached += c->state == CHANNEL_ATTACHED;
	if (job->request.op == ADMIN_LIST)
		list(job, t);
	else if (job->request.op == ADMIN_DRAIN)
		drain(job, t);
	else if (job->request.op == ADMIN_LIMIT)
		limit(job, t);
}
