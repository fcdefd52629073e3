/* SPDX-License-Identifier: Apache-2.0 */
/* client_order.c - see client_order.h */
#include "client_order.h"

#include <stdio.h>
#include <string.h>

#include "client.h"
#include "members.h"

pid_t client_pid(const struct client *c)
{
	return c->peer.pid;
}

uint32_t client_generation(const struct client *c)
{
	return c->channel->generation;
}

int client_disconnect(struct client *c, char *why, size_t size)
{
	const struct channel *ch = c->channel;
	char *end = why + snprintf(why, size, "session %u.%u of %s ", ch->id, ch->generation, c->name);

	size -= (size_t)(end - why);
	if (c->session != SESSION_LIVE || c->connection != CONNECTION_OPEN) {
		snprintf(end, size, "%s",
			 c->session == SESSION_ATTACHING ? "is still attaching: try again"
							 : "has ended already; its pages wait for proof");
		return SWAKV_EGONE;
	}
	snprintf(
		end, size,
		"was disconnected; its pages return when all its streams are idle, or, if a step of it is under way or "
		"it manages pages itself, when its process has ended");
	c->cut = true;
	client_connection_ended(c, "was disconnected by an administrator");
	return 0;
}

int client_kill(struct client *c, char *why, size_t size)
{
	const struct session_edge *e = &c->control->edge;
	const struct channel *ch = c->channel;
	int r;

	if (c->process != PROCESS_ALIVE && c->n_members) {
		snprintf(why, size,
			 "session %u.%u: its first process (%s) has ended already, and %u of %u others were killed",
			 ch->id, ch->generation, c->name, members_kill(c), c->n_members);
		return 0;
	}
	if (c->process != PROCESS_ALIVE) {
		snprintf(why, size, "session %u.%u: its process (%s) has ended already", ch->id, ch->generation,
			 c->name);
		return SWAKV_EGONE;
	}
	if (!c->peer.pid) { /* signals do not go there */
		snprintf(why, size,
			 "session %u.%u: its process is in another pid namespace, from which the broker may not kill "
			 "it: disconnect the session instead",
			 ch->id, ch->generation);
		return SWAKV_EDENIED;
	}
	r = e->kill(e->arg, c->pidfd);
	if (r < 0) {
		snprintf(why, size, "session %u.%u: the broker may not kill its process %d: %s", ch->id, ch->generation,
			 c->peer.pid, strerror(-r));
		return SWAKV_EDENIED;
	}
	if (c->n_members)
		snprintf(
			why, size,
			"session %u.%u: its process %d and %u others were killed; its pages return when all have ended",
			ch->id, ch->generation, c->peer.pid, members_kill(c));
	else
		snprintf(why, size, "session %u.%u: its process %d was killed; its pages return when that has ended",
			 ch->id, ch->generation, c->peer.pid);
	return 0;
}
