/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_poll.c - see ring_poll.h
 *
 * Completion points are closed by timeline words, which nobody announces. They
 * are read before each command of their session, and by timer while any is
 * open: every 50 us, backing off to 1 ms, while somebody waits for pages or was
 * refused for want of them a moment ago; every 10 ms otherwise; not at all when
 * none is open.
 */
#include "ring_poll.h"

#include "clock.h"
#include "ring_end.h"

#define POLL_LONGEST (1 * NS_PER_MS)
#define POLL_RELAXED (10 * NS_PER_MS)
#define STARVED_FOR  (100 * NS_PER_MS) /* how long a refusal counts as somebody waiting */
#define WATCH_EVERY  (250 * NS_PER_MS)

static bool needs_polling(const struct channel *c)
{
	switch (c->state) {
	case CHANNEL_ATTACHED:
		return session_has_open(c->session, -1);
	case CHANNEL_CLOSING:
	case CHANNEL_DEAD:
		return true;
	default:
		return false;
	}
}

bool ring_poll(struct ring_thread *t)
{
	struct channel *c;
	bool progress = false;

	TAILQ_FOREACH (c, &t->channels, link)
		if (needs_polling(c))
			ring_refresh(t, c, &progress);
	if (progress)
		ring_changed(t);
	return progress;
}

bool ring_any_open(const struct ring_thread *t)
{
	const struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (needs_polling(c))
			return true;
	return false;
}

void ring_poll_by_timer(struct ring_thread *t)
{
	bool starved = t->now < t->starved_until || engine_waiting(t->engine) > 0;

	if (t->now < t->next_poll)
		return;
	t->counters.timer_polls += ring_any_open(t);
	if (ring_poll(t))
		t->poll_interval = RING_POLL_SHORTEST;
	else if (t->poll_interval < POLL_LONGEST)
		t->poll_interval *= 2;
	if (t->poll_interval > POLL_LONGEST)
		t->poll_interval = POLL_LONGEST;
	t->next_poll = t->now + (starved ? t->poll_interval : POLL_RELAXED);
}

void ring_watch_points(struct ring_thread *t)
{
	struct channel *c;
	uint64_t since;
	uint32_t line;

	if (t->now < t->next_watch || !t->options.watchdog_ns)
		return;
	t->next_watch = t->now + WATCH_EVERY;
	TAILQ_FOREACH (c, &t->channels, link) {
		bool late = c->state == CHANNEL_ATTACHED && session_oldest_point(c->session, &since, &line) &&
			    t->now - since > t->options.watchdog_ns;

		store_relaxed(&c->overdue, late ? 1 + line : 0);
	}
}

void ring_note_starved(struct ring_thread *t)
{
	if (t->now >= t->starved_until || t->next_poll > t->now + t->poll_interval) {
		t->poll_interval = RING_POLL_SHORTEST;
		t->next_poll = t->now + RING_POLL_SHORTEST;
	}
	t->starved_until = t->now + STARVED_FOR;
}
