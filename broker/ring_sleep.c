/* SPDX-License-Identifier: Apache-2.0 */
/* ring_sleep.c - see ring_sleep.h */
#include "ring_sleep.h"

#include "clock.h"
#include "ring_end.h"
#include "ring_poll.h"
#include "ring_publish.h"

#define HEARTBEAT    (500 * NS_PER_MS)
#define RESCUE_LOOK  (200 * NS_PER_US)
#define TRIM_AFTER   (100 * NS_PER_MS)
#define TRIM_AT_ONCE 64 /* extents */

/* As the edge's sleep, of which it only matters how many have rung. */
static int wait_events(struct ring_thread *t, uint64_t ns)
{
	void *rung[RING_EDGE_EVENTS];

	return t->edge.sleep(t->edge.arg, ns, rung);
}

/* Announces sleep in every ring. False: there is work after all. */
static bool prepare_sleep(struct ring_thread *t)
{
	struct channel *c;
	bool sleep = true;

	TAILQ_FOREACH (c, &t->channels, link) {
		int r = channel_prepare_sleep(c);

		if (r < 0)
			ring_kick(t, c, -r);
		sleep &= r == 0;
	}
	return sleep;
}

static void awake(struct ring_thread *t)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		channel_awake(c);
}

static uint64_t sleep_ns(const struct ring_thread *t)
{
	uint64_t until = t->now + HEARTBEAT, due = engine_due(t->engine);

	if (ring_any_open(t) && t->next_poll < until)
		until = t->next_poll;
	if (t->changed && t->next_snapshot < until)
		until = t->next_snapshot;
	if (due && due < until)
		until = due;
	return until > t->now ? until - t->now : 0;
}

static bool any_command(struct ring_thread *t)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (c->state == CHANNEL_ATTACHED && !c->blocked_slots && ring_consumer_fill_spsc(&c->commands) > 0)
			return true;
	return false;
}

/*
 * The sleep ended by time-out and yet a command is there. If its doorbell does
 * not follow within a moment, a wake-up was lost; that must never happen.
 */
static void look_for_rescue(struct ring_thread *t)
{
	if (any_command(t) && wait_events(t, RESCUE_LOOK) == 0)
		t->counters.rescues++;
}

/* Nothing has happened for a while: extents that nobody uses go back to the pool. */
static void tidy(struct ring_thread *t)
{
	if (engine_trim(t->engine, TRIM_AT_ONCE) > 0)
		t->changed = true;
}

void ring_sleep(struct ring_thread *t)
{
	uint64_t ns;
	int n;

	if (prepare_sleep(t)) {
		if (t->changed && t->now >= t->next_snapshot)
			ring_publish(t);
		ns = sleep_ns(t);
		t->counters.sleeps++;
		n = ns ? wait_events(t, ns) : 1;
		t->now = t->edge.now(t->edge.arg);
		if (n == 0)
			look_for_rescue(t);
		if (n == 0 && ns >= TRIM_AFTER)
			tidy(t);
	}
	awake(t);
	t->last_work = 0; /* a wake-up for nothing does not start another spin */
}
