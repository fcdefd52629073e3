/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h */
#include "events.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "call_answer.h"
#include "cleanup.h"
#include "clock.h"
#include "session.h"
#include "wait.h"

#define HELD_NS NS_PER_MS /* between two looks at the words that a begin waits for */

void events_init(struct events *e, bool wanted)
{
	*e = (struct events){ .wanted = wanted, .epoll = -1, .ready = -1, .timer = -1 };
}

void events_deinit(struct events *e)
{
	close_fd(&e->epoll);
	close_fd(&e->ready);
	close_fd(&e->timer);
}

/* The eventfd is readable as long as something can be collected. */
static void show(struct events *e, uint32_t before)
{
	uint64_t n = 1;
	ssize_t r = 0;

	if (!events_on(e) || (before == 0) == (e->n_ready == 0))
		return;
	if (e->n_ready)
		r = write(e->ready, &n, sizeof(n));
	else
		r = read(e->ready, &n, sizeof(n));
	(void)r; /* neither can fail: it holds 0 or 1 */
}

void events_rest(struct swakv_session *s)
{
	if (!events_on(&s->events))
		return;
	store_relaxed(&s->wait->event, 1);
	fence_store_load(); /* pairs with the broker's, between its reply, or its want, and its look at the word */
	calls_drain(s);
	if (wants_grew(s))
		show(&s->events, s->events.n_ready++);
}

void events_take(struct swakv_session *s)
{
	uint64_t n;

	if (!events_on(&s->events))
		return;
	if (read(s->events.timer, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	session_look(s, clock_ns(), true);
}

void events_answered(struct swakv_session *s, struct call *c)
{
	struct events *e = &s->events;

	if (!c->ticketed)
		return;
	if (c->held) {
		events_held(s);
		return;
	}
	c->ready = true;
	show(e, e->n_ready++);
}

void events_collected(struct swakv_session *s, struct call *c)
{
	struct events *e = &s->events;

	if (!c->ready)
		return;
	c->ready = false;
	show(e, e->n_ready--);
}

void events_told(struct swakv_session *s)
{
	show(&s->events, s->events.n_ready--);
}

void events_held(struct swakv_session *s)
{
	const struct itimerspec soon = { .it_value.tv_nsec = HELD_NS };

	if (events_on(&s->events))
		(void)timerfd_settime(s->events.timer, 0, &soon, NULL);
}

/* ---- the descriptor ------------------------------------------------------------- */

static int add(int epoll, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
}

static bool events_make(struct events *e, int sock)
{
	e->ready = eventfd(e->n_ready ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	return e->ready >= 0 && e->timer >= 0 && e->epoll >= 0 && add(e->epoll, sock) == 0 &&
	       add(e->epoll, e->ready) == 0 && add(e->epoll, e->timer) == 0;
}

int swakv_session_fd(swakv_session *s)
{
	int r = session_enter(s);

	if (r < 0)
		return r;
	if (!s->events.wanted)
		return session_error(s, SWAKV_EINVALID,
				     "the session was attached without SWAKV_ATTACH_EVENTS: it has no descriptor");
	if (events_on(&s->events))
		return s->events.epoll;
	if (!events_make(&s->events, s->sock)) {
		r = errno;
		events_deinit(&s->events);
		return session_error(s, SWAKV_ESYSTEM, "the descriptor could not be made: %s", strerror(r));
	}
	for (uint32_t i = 0; i < s->calls.n; i++)
		if (s->calls.calls[i]->held)
			events_held(s);
	events_rest(s);
	return s->events.epoll;
}

int swakv_session_take(swakv_session *s)
{
	int r = session_enter(s);

	if (r < 0)
		return r;
	events_take(s);
	session_look(s, clock_ns(), s->joined);
	calls_drain(s);
	return s->gone ? session_error(s, SWAKV_EGONE, "%s", s->gone_why) : 0;
}
