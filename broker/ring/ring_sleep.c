/* SPDX-License-Identifier: Apache-2.0 */
/* ring_sleep.c - see ring_sleep.h */
#include "ring_sleep.h"

#include "clock.h"
#include "ring_bell.h"
#include "ring_boards.h"
#include "ring_end.h"
#include "ring_poll.h"
#include "ring_publish.h"

#define HEARTBEAT    (500 * NS_PER_MS)
#define TRIM_AFTER   (100 * NS_PER_MS)
#define TRIM_AT_ONCE 64 /* extents */
/* Looks that workers ask for: sooner, a bell costs no more; later, nobody steps. */
#define LOOK_LEAST (250 * NS_PER_US)
#define LOOK_MOST  (1 * NS_PER_S)

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

	TAILQ_FOREACH (c, &t->channels, link) {
		channel_looks(c);
		if (!c->silent_since)
			channel_awake(c);
	}
}

/* Workers are promised the looks that they ask for; when the first is due. */
static uint64_t promise_looks(struct ring_thread *t)
{
	uint64_t first = UINT64_MAX;
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link) {
		uint64_t look = channel_promise_look(c, t->now, LOOK_LEAST, LOOK_MOST);

		first = look < first ? look : first;
	}
	return first;
}

static uint64_t sleep_ns(const struct ring_thread *t, uint64_t look)
{
	uint64_t until = t->now + HEARTBEAT, due = engine_due(t->engine), bell = ring_bell_deadline(t);
	uint64_t boards = ring_boards_deadline(t);

	if (ring_any_open(t) && t->next_poll < until)
		until = t->next_poll;
	if (t->snapshot_due && t->next_snapshot < until)
		until = t->next_snapshot;
	if (due && due < until)
		until = due;
	if (boards < until)
		until = boards;
	if (bell < until)
		until = bell;
	if (look < until)
		until = look;
	return until > t->now ? until - t->now : 0;
}

/* Nothing has happened for a while: extents that nobody uses go back to the pool. */
static void tidy(struct ring_thread *t)
{
	if (engine_trim(t->engine, TRIM_AT_ONCE) > 0)
		ring_changed(t);
}

/* Until somebody rings or something is due. True: for long, and nothing happened. */
static bool sleep_until_due(struct ring_thread *t)
{
	void *rung[RING_EDGE_EVENTS];
	uint64_t ns = sleep_ns(t, promise_looks(t));
	int n;

	t->counters.sleeps++;
	if (ns == 0)
		return false;
	n = t->edge.sleep(t->edge.arg, ns, rung);
	t->now = t->edge.now(t->edge.arg);
	engine_stamp(t->engine, t->now); /* whoever begins to wait now does so from now on */
	if (n == 0)
		ring_bell_expect(t);
	ring_bell_rang(t, rung, n);
	return n == 0 && ns >= TRIM_AFTER;
}

void ring_sleep(struct ring_thread *t)
{
	if (prepare_sleep(t)) {
		if (t->snapshot_due && t->now >= t->next_snapshot)
			ring_publish(t);
		if (sleep_until_due(t))
			tidy(t);
	}
	awake(t);
	t->last_work = 0; /* a wake-up for nothing does not start another spin */
}
