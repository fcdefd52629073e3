/* SPDX-License-Identifier: Apache-2.0 */
/* ring_end.c - see ring_end.h */
#include "ring_end.h"

#include <string.h>

static void reclaim(struct ring_thread *t, struct channel *c)
{
	int64_t pages = session_reclaim(c->session);

	c->violated = VIOLATION_NONE; /* too late for that */
	tally_leave(&t->tallies, c);
	channel_leave(c); /* the control thread frees what was large */
	c->state = CHANNEL_RECLAIMED;
	t->counters.reclaimed_pages += (uint64_t)pages;
	event_note(&t->events, t->now, STATUS_EVENT_RECLAIMED, c)->pages = pages;
	ring_changed(t);
	mailbox_post_spsc(t->outbox, MAIL_RECLAIMED, c, pages);
}

/* What became of @c, with the pages that nothing is proven of yet. */
static void note_end(struct ring_thread *t, const struct channel *c, enum channel_state state)
{
	enum status_event_kind kind = state == CHANNEL_CLOSING ? STATUS_EVENT_CLOSED
				      : state == CHANNEL_DEAD  ? STATUS_EVENT_DEATH
							       : STATUS_EVENT_ENDED;
	struct status_event *x = event_note(&t->events, t->now, kind, c);
	struct session_counts n;

	session_count(c->session, &n);
	x->pages = n.quarantined;
	if (kind == STATUS_EVENT_ENDED)
		strlcpy(x->text, violation_name(c->violated), sizeof(x->text));
}

void ring_end_session(struct ring_thread *t, struct channel *c, enum channel_state state)
{
	if (c->state == CHANNEL_ATTACHED) {
		store_release(&c->ended, 1);
		fence_store_load(); /* members_join() has the other half: it sees the end, or is seen here */
		session_end(c->session);
		c->n_waiting = 0;
		c->waiting_slots = 0;
		c->ended_ns = t->now;
		note_end(t, c, state);
		ring_changed(t);
	}
	c->state = state;
}

void ring_kick(struct ring_thread *t, struct channel *c, int violation)
{
	if (load_relaxed(&c->memory.lost)) /* whatever else that looks like */
		violation = VIOLATION_MEMORY_LOST;
	if (t->in_pause) { /* its end may take long */
		c->violated = violation;
		return;
	}
	c->violated = violation; /* for what is noted */
	ring_end_session(t, c, CHANNEL_KICKED);
	c->violated = VIOLATION_NONE; /* said once */
	t->counters.kicked++;
	mailbox_post_spsc(t->outbox, MAIL_KICKED, c, violation);
}

/* Work that no line is armed for: its worker does not know that it is over, or another process of it may run. */
static bool work_may_begin(const struct channel *c)
{
	return c->may_begin || load_acquire(&c->members) > 0;
}

bool ring_refresh(struct ring_thread *t, struct channel *c, bool *progress)
{
	enum violation v = channel_refresh(c, progress);

	if (v != VIOLATION_NONE) {
		ring_kick(t, c, v);
		return false;
	}
	if ((c->state == CHANNEL_CLOSING || c->state == CHANNEL_DEAD) && !work_may_begin(c) && channel_idle(c)) {
		reclaim(t, c);
		*progress = true;
		return false;
	}
	return true;
}

void ring_socket_ended(struct ring_thread *t, struct channel *c, bool cut)
{
	bool progress;

	if (c->state == CHANNEL_ATTACHED) {
		c->may_begin = cut && (session_at_work(c->session) || !channel_all_taken(c));
		ring_end_session(t, c, CHANNEL_DEAD);
		t->counters.deaths++;
		ring_refresh(t, c, &progress);
	}
}

void ring_memory_lost(struct ring_thread *t, struct channel *c)
{
	if (c->state == CHANNEL_ATTACHED)
		ring_kick(t, c, VIOLATION_MEMORY_LOST);
}

void ring_process_gone(struct ring_thread *t, struct channel *c)
{
	if (c->state == CHANNEL_RECLAIMED)
		return;
	if (c->state == CHANNEL_ATTACHED)
		t->counters.deaths++;
	ring_end_session(t, c, c->state == CHANNEL_ATTACHED ? CHANNEL_DEAD : c->state);
	reclaim(t, c);
}
