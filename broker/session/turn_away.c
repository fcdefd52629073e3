/* SPDX-License-Identifier: Apache-2.0 */
/* turn_away.c - see turn_away.h */
#include "turn_away.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "process/process.h"

int refusal_because(struct refusal *r, enum fault_reason reason, int64_t got, int error)
{
	int code = refusal_set(r, error == EMFILE ? FAULT_BROKER_FILES : reason, got, 0);
	size_t n = strlen(r->text);

	if (error != EMFILE)
		snprintf(r->text + n, sizeof(r->text) - n, ": %s", process_error(error));
	return code;
}

void turn_away(struct control *control, int socket, const struct peer *p, const struct refusal *r)
{
	const struct session_edge *e = &control->edge;
	struct wire_welcome w;
	char name[PEER_NAME];

	welcome_refuse(&w, r, control->boot_id);
	e->send_last(e->arg, socket, &w, sizeof(w));
	session_say(e, p->uid, LOG_LEVEL_WARNING, "refused %s uid %u: %s", peer_name(p, name), p->uid, r->text);
	add_relaxed(&control->ring->refused_attaches, 1);
	add_relaxed(&control->ring->refused_attaches_by[r->fault.reason], 1);
}
