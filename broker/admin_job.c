/* SPDX-License-Identifier: Apache-2.0 */
#include "admin_job.h"

#include <string.h>

#include "ring_thread.h"
#include "status.h"

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
		.bytes = (uint64_t)(n.leased + n.quarantined) * 2 * c->geometry[0].page_bytes,
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

	TAILQ_FOREACH (c, &t->channels, link) {
		if (r->model[0] && strcmp(r->model, c->model_name) != 0)
			continue;
		c->drained = !(r->flags & ADMIN_OFF);
		job->reply.n_affected += c->state == CHANNEL_ATTACHED;
	}
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
}
