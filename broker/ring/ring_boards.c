/* SPDX-License-Identifier: Apache-2.0 */
/* ring_boards.c - see ring_boards.h */
#include "ring_boards.h"

#include "clock.h"
#include "ring_wake.h"

#define BOARDS_EVERY     (2 * NS_PER_MS)
#define GROUP_OPERATIONS 16  /* a look at what can be taken, beside all floors */
#define BOARDS_SHARE     100 /* of their cost: not more than 1 % of the time */

static bool has_board(const struct channel *c)
{
	return c->state == CHANNEL_ATTACHED && session_enlisted(c->session);
}

static void read_offers(struct channel *c)
{
	for (uint32_t g = 0; g < c->memory.layout.n_groups; g++)
		session_set_spare(c->session, g, load_relaxed(&c->boards[g].offered));
}

/* A store takes the line from a worker that reads it: only what is new is stored. True: it was. */
static bool put(shm_u64 *at, uint64_t value)
{
	if (load_relaxed(at) == value)
		return false;
	store_release(at, value);
	return true;
}

/* Which pages help most, as long as it is asked for any. */
static void put_ranges(const struct channel *c, uint32_t group, bool wanted)
{
	struct page_range list[WIRE_RANGES];
	uint32_t n = wanted ? session_give_ranges(c->session, group, list) : 0;

	for (uint32_t i = 0; i < WIRE_RANGES; i++)
		put(&c->ranges[group].of[i], i < n ? wire_range(list[i]) : 0);
}

/* True: it is asked for more than it knows. Between two groups others are served, and its session may end. */
static bool write_boards(struct ring_thread *t, struct channel *c)
{
	bool more = false;

	for (uint32_t g = 0; g < c->memory.layout.n_groups && has_board(c); g++) {
		struct wire_board *b = &c->boards[g];
		uint64_t since;
		int64_t wanted = session_wanted_pages(c->session, g, &since), floor, ceiling;

		session_limit_pages(c->session, g, &floor, &ceiling);
		put(&b->floor, (uint64_t)floor);
		put(&b->ceiling, (uint64_t)ceiling + 1);
		put(&b->takeable, (uint64_t)session_takeable_pages(c->session, g));
		put(&b->since, since);
		put_ranges(c, g, wanted > 0); /* before it is told */
		put(&b->wanted, (uint64_t)wanted);
		put(&b->given, session_given_pages(c->session, g)); /* after it: nothing is asked for twice */
		more |= put(&b->rises, session_want_rises(c->session, g));
		engine_spend(t->engine, GROUP_OPERATIONS);
	}
	return more;
}

/* Whoever waits in a loop of its own, for its socket, would not look. */
static void tell(struct ring_thread *t, struct channel *c)
{
	if (!c->events)
		return;
	ring_wake_note(t, c);
	t->worked = true; /* it is woken after the next round: no sleep before */
}

uint64_t ring_boards_deadline(const struct ring_thread *t)
{
	uint64_t due = engine_press_due(t->engine);

	if (t->boards_due)
		return t->next_boards;
	if (!due)
		return UINT64_MAX;
	return due > t->next_boards ? due : t->next_boards;
}

void ring_boards(struct ring_thread *t)
{
	uint64_t before, share;
	struct channel *c;

	if (t->now < t->next_boards || !(t->boards_due || engine_presses(t->engine)))
		return;
	before = t->edge.computed(t->edge.arg);
	t->boards_due = false; /* now: what others do in the middle of it may be missing */
	if (engine_presses(t->engine)) {
		TAILQ_FOREACH (c, &t->channels, link)
			if (has_board(c))
				read_offers(c);
		engine_press(t->engine);
		ring_look_for_shifts(t);
	}
	TAILQ_FOREACH (c, &t->channels, link)
		if (write_boards(t, c))
			tell(t, c);
	share = (t->edge.computed(t->edge.arg) - before) * BOARDS_SHARE;
	t->next_boards = t->now + (share > BOARDS_EVERY ? share : BOARDS_EVERY);
}
