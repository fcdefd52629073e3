/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_wake.c - see ring_wake.h
 *
 * A wake-up is a system call, and with more workers than CPUs nearly every
 * answer wants one. Made in the middle of a round, each would delay the answers
 * behind it. A session's one thread is woken once for all that it got meanwhile.
 */
#include "ring_wake.h"

void ring_wake_note(struct ring_thread *t, struct channel *c)
{
	if (c->waking != WAKING_NOT)
		return;
	c->waking = WAKING_NOTED;
	TAILQ_INSERT_TAIL(&t->noted, c, in_waking);
}

/* @c waits, in one way or both. */
static bool waits(struct channel *c)
{
	c->event_due = channel_wants_event(c);
	return channel_sleeps(c) || c->event_due;
}

/* All who were noted and sleep join those to be woken. */
static void find_sleepers(struct ring_thread *t)
{
	struct channel *c;

	fence_store_load(); /* pairs with the workers', between their flags and their last look at the rings */
	while ((c = TAILQ_FIRST(&t->noted))) {
		TAILQ_REMOVE(&t->noted, c, in_waking);
		c->waking = WAKING_NOT;
		if (!waits(c))
			continue;
		c->waking = WAKING_DUE;
		TAILQ_INSERT_TAIL(&t->to_wake, c, in_waking);
	}
}

static void wake(struct ring_thread *t, int most)
{
	struct channel *c;

	for (int i = 0; i < most && (c = TAILQ_FIRST(&t->to_wake)); i++) {
		TAILQ_REMOVE(&t->to_wake, c, in_waking);
		c->waking = WAKING_NOT;
		t->edge.wake(t->edge.arg, channel_wake_word(c));
		if (c->event_due)
			t->edge.notify(t->edge.arg, c->socket);
		t->counters.wakeups++;
	}
}

void ring_wake_round(struct ring_thread *t)
{
	if (!TAILQ_EMPTY(&t->noted))
		find_sleepers(t);
	wake(t, RING_WAKES_A_ROUND);
}

void ring_wake_glance(struct ring_thread *t, struct channel *c)
{
	ring_wake_note(t, c);
	if (c->waking == WAKING_NOTED && waits(c)) {
		TAILQ_REMOVE(&t->noted, c, in_waking);
		c->waking = WAKING_DUE;
		TAILQ_INSERT_TAIL(&t->to_wake, c, in_waking);
	}
	wake(t, 1);
}

bool ring_wake_due(const struct ring_thread *t)
{
	return !TAILQ_EMPTY(&t->to_wake);
}

void ring_wake_forget(struct ring_thread *t, struct channel *c)
{
	if (c->waking == WAKING_NOTED)
		TAILQ_REMOVE(&t->noted, c, in_waking);
	else if (c->waking == WAKING_DUE)
		TAILQ_REMOVE(&t->to_wake, c, in_waking);
	c->waking = WAKING_NOT;
}
