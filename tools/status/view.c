/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <inttypes.h>
#include <string.h>

bool view_has_session(const struct view *v, const struct status_snapshot *s, uint32_t i)
{
	const struct status_session *session = &s->sessions[i];

	if (v->one_session && session->id != v->session)
		return false;
	return !v->quarantine || session->quarantined > 0;
}

bool view_has_request(const struct view *v, const struct status_snapshot *s, uint32_t i)
{
	const struct status_request *r = &s->requests[i];

	return view_has_session(v, s, r->session) && (!v->one_request || r->handle == v->handle);
}

bool view_found(const struct view *v, const struct status_snapshot *s)
{
	uint32_t sessions = 0, requests = 0;

	for (uint32_t i = 0; i < s->n_sessions; i++)
		sessions += s->sessions[i].id == v->session;
	for (uint32_t i = 0; i < s->n_requests; i++)
		requests += s->sessions[s->requests[i].session].id == v->session && s->requests[i].handle == v->handle;
	return (!v->one_session || sessions) && (!v->one_request || requests);
}

const char *view_quarantine_reason(const struct status_session *session, char *buf, size_t size)
{
	const int pid = session->pid;
	size_t n;

	switch (session->state) {
	case STATUS_ATTACHED:
		snprintf(buf, size,
			 "a completion failed, so device work may still touch the pages: they wait until the worker's "
			 "shutdown succeeds, or the session ends and its proof arrives");
		break;
	case STATUS_CLOSING:
		snprintf(buf, size,
			 "closed by its client with device work still open: the pages wait until every armed timeline "
			 "word "
			 "is reached, or process %d has exited",
			 pid);
		break;
	case STATUS_DEAD:
		snprintf(buf, size,
			 "the connection is lost, which does not prove that its device work has ended: the pages wait "
			 "until every armed timeline word is reached, or process %d has exited and the grace "
			 "period is over; "
			 "if the broker ended the connection amid a step, or of a worker that manages pages itself, "
			 "only the latter counts",
			 pid);
		break;
	case STATUS_ENDED:
		snprintf(buf, size,
			 "ended for a protocol violation, so its timeline words are not trusted: the pages wait until "
			 "process %d has exited and the grace period is over",
			 pid);
		break;
	default:
		snprintf(buf, size, "the session is in state %" PRIu32 ", which this tool does not know",
			 session->state);
	}
	n = strlen(buf);
	if (session->n_members)
		snprintf(buf + n, size - n, "; all %u processes that have joined it must have left or exited, too",
			 session->n_members);
	return buf;
}

void view_write(FILE *out, const struct view *v, const struct sample *s)
{
	switch (v->format) {
	case VIEW_TABLE:
		table_write(out, v, s);
		break;
	case VIEW_JSON:
		json_write(out, v, s);
		break;
	case VIEW_PROMETHEUS:
	case VIEW_OPENMETRICS:
		prometheus_write(out, v, s);
		break;
	}
}
