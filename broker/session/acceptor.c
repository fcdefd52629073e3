/* SPDX-License-Identifier: Apache-2.0 */
/* acceptor.c - see acceptor.h */
#include "acceptor.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "process/process.h"

enum { ACCEPTS_A_TURN = 16, PAUSE_MS = 500 };

void acceptor_keep_spare(const struct session_edge *e, int *spare)
{
	if (*spare < 0)
		*spare = e->spare(e->arg);
}

static void pause_accepting(struct acceptor *a)
{
	a->edge->unwatch(a->edge->arg, &a->source);
	a->accepting = false;
}

/* 0; -EAGAIN: none is waiting; other negative errno: none can be taken now. */
static int accept_one(struct acceptor *a, int (*take)(void *owner, int *fd, const struct peer *p))
{
	const struct session_edge *e = a->edge;
	int fd = e->accept(e->arg, a->listener->fd), r;
	struct peer peer;

	if (fd < 0)
		return fd == -ECONNABORTED || fd == -EINTR ? 0 : fd;
	r = e->peer(e->arg, &peer, fd);
	if (r == 0) {
		r = take(a->owner, &fd, &peer);
	} else {
		session_say(e, LOG_NOBODY, LOG_LEVEL_WARNING,
			    "%srefused a connection: the kernel does not say who owns it: %s", a->calls->who,
			    strerror(-r));
		if (a->calls->unknown)
			a->calls->unknown(a->owner);
		r = 0;
	}
	e->drop(e->arg, &fd);
	return r;
}

static void on_accept(void *owner, uint32_t events)
{
	struct acceptor *a = owner;
	const struct session_edge *e = a->edge;
	int r = 0;

	(void)events;
	for (int i = 0; r == 0 && i < ACCEPTS_A_TURN && !a->calls->full(a->owner); i++)
		r = accept_one(a, a->calls->take);
	if (r == -EMFILE && *a->spare >= 0) { /* the rest at the next turn */
		e->close(e->arg, a->spare);
		r = accept_one(a, a->calls->take_last);
		acceptor_keep_spare(e, a->spare);
	}
	if (r < 0 && r != -EAGAIN) {
		session_say(e, LOG_NOBODY, LOG_LEVEL_WARNING, "%scannot accept connections now: %s", a->calls->who,
			    process_error(-r));
		a->accept_at = e->now(e->arg) + PAUSE_MS * NS_PER_MS;
		pause_accepting(a);
	} else if (a->calls->full(a->owner)) { /* the others wait in the backlog */
		pause_accepting(a);
	}
}

static int accept_again(struct acceptor *a)
{
	int r;

	if (a->accepting || !a->listener || a->calls->full(a->owner))
		return 0;
	r = a->edge->watch(a->edge->arg, &a->source, a->listener->fd, EPOLLIN, on_accept, a);
	a->accepting = r == 0;
	return r;
}

void acceptor_init(struct acceptor *a, const struct acceptor_owner *calls, void *owner, const struct session_edge *edge,
		   int *spare)
{
	*a = (struct acceptor){ .calls = calls, .owner = owner, .edge = edge, .spare = spare, .source.fd = -1 };
}

int acceptor_serve(struct acceptor *a, struct listener *listener)
{
	a->listener = listener;
	return accept_again(a);
}

void acceptor_again(struct acceptor *a, uint64_t now)
{
	if (now >= a->accept_at && accept_again(a) < 0)
		a->accept_at = now + PAUSE_MS * NS_PER_MS;
}

uint64_t acceptor_next_deadline(const struct acceptor *a)
{
	return a->listener && !a->accepting && !a->calls->full(a->owner) ? a->accept_at : 0;
}

void acceptor_close(struct acceptor *a)
{
	if (a->accepting)
		pause_accepting(a);
	if (a->listener)
		a->edge->stop_listening(a->edge->arg, a->listener);
	a->listener = NULL;
}
