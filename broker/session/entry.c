/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - see entry.h */
#include "entry.h"

#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "clock.h"
#include "turn_away.h"

/* Who may connect, before it takes any place. 0, or a code with *@r filled. */
static int let_in(struct control *control, int socket, const struct peer *p, struct charge *half_open,
		  struct refusal *r)
{
	if (!control->edge.allowed(control->edge.arg, p, socket, control->config))
		return refusal_set(r, FAULT_CREDENTIALS, p->uid, 0);
	return places_half_open(&control->places, p->uid, half_open, r);
}

/* On success the socket and the charge are the client's. */
static int take_client(struct control *control, int *fd, const struct peer *p, struct charge *half_open)
{
	const struct session_edge *e = &control->edge;
	struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct client){ .control = control,
			      .peer = *p,
			      .socket = *fd,
			      .pidfd = -1,
			      .socket_source.fd = -1,
			      .pidfd_source.fd = -1,
			      .half_open = *half_open,
			      .deadline = e->now(e->arg) + control->config->hello_timeout_ms * NS_PER_MS };
	TAILQ_INIT(&c->members);
	peer_name(p, c->name);
	r = e->watch(e->arg, &c->socket_source, *fd, EPOLLIN | EPOLLRDHUP, client_on_socket, c);
	if (r < 0) {
		free(c);
		return r;
	}
	*fd = -1;
	*half_open = (struct charge){ 0 };
	registry_add(&control->registry, c);
	return 0;
}

static int entry_take(void *owner, int *fd, const struct peer *p)
{
	struct control *control = owner;
	struct charge half_open = { 0 };
	struct refusal refusal;
	int r;

	if (let_in(control, *fd, p, &half_open, &refusal) != 0) {
		turn_away(control, *fd, p, &refusal);
		return 0;
	}
	r = take_client(control, fd, p, &half_open);
	charge_release(&half_open);
	if (r < 0) {
		refusal_because(&refusal, FAULT_BROKER_MEMORY, sizeof(struct client), -r);
		turn_away(control, *fd, p, &refusal);
	}
	return 0;
}

/* No descriptor would be left for a session: it is told so. */
static int entry_take_last(void *owner, int *fd, const struct peer *p)
{
	struct refusal r;

	refusal_set(&r, FAULT_BROKER_FILES, 0, 0);
	turn_away(owner, *fd, p, &r);
	return 0;
}

static void entry_unknown(void *owner)
{
	struct control *control = owner;

	add_relaxed(&control->ring->refused_attaches, 1);
}

static bool entry_full(const void *owner)
{
	const struct control *control = owner;

	return places_crowded(&control->places);
}

const struct acceptor_owner entry_calls = {
	.who = "",
	.take = entry_take,
	.take_last = entry_take_last,
	.unknown = entry_unknown,
	.full = entry_full,
};
