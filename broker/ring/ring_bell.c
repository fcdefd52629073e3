/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_bell.c - see ring_bell.h
 *
 * While a session is expected to ring its flags stay set: cleared, they would
 * tell a worker that is only late that it need not ring any more.
 */
#include "ring_bell.h"

#include "clock.h"

#define LATE_AFTER   (200 * NS_PER_US) /* sooner, it was about to ring when the sleep ended */
#define RESCUE_AFTER (100 * NS_PER_MS)

static bool has_work(struct channel *c)
{
	if (c->state != CHANNEL_ATTACHED)
		return false;
	if (c->blocked_slots)
		return ring_producer_space_spsc(&c->replies, c->blocked_slots) > 0;
	return ring_consumer_fill_spsc(&c->commands) > 0;
}

void ring_bell_expect(struct ring_thread *t)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link) {
		if (c->silent_since || c->looks || !has_work(c))
			continue;
		c->silent_since = t->now;
		t->n_silent++;
	}
}

static void expect_no_more(struct ring_thread *t, struct channel *c)
{
	t->n_silent--;
	channel_rang(c);
}

void ring_bell_rang(struct ring_thread *t, void *const rung[], int n)
{
	for (int i = 0; t->n_silent > 0 && i < n; i++) {
		struct channel *c = rung[i]; /* NULL: the mailbox */

		if (!c || !c->silent_since)
			continue;
		t->counters.late += t->now - c->silent_since > LATE_AFTER;
		expect_no_more(t, c);
	}
}

void ring_bell_look(struct ring_thread *t)
{
	void *rung[RING_EDGE_EVENTS];
	struct channel *c;

	if (t->n_silent == 0)
		return;
	ring_bell_rang(t, rung, t->edge.sleep(t->edge.arg, 0, rung));
	TAILQ_FOREACH (c, &t->channels, link) {
		if (!c->silent_since || (c->state == CHANNEL_ATTACHED && t->now - c->silent_since < RESCUE_AFTER))
			continue;
		t->counters.rescues += c->state == CHANNEL_ATTACHED;
		expect_no_more(t, c);
	}
}

uint64_t ring_bell_deadline(const struct ring_thread *t)
{
	const struct channel *c;
	uint64_t first = UINT64_MAX;

	if (t->n_silent == 0)
		return UINT64_MAX;
	TAILQ_FOREACH (c, &t->channels, link)
		if (c->silent_since && c->silent_since + RESCUE_AFTER < first)
			first = c->silent_since + RESCUE_AFTER;
	return first;
}
