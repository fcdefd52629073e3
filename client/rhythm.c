/* SPDX-License-Identifier: Apache-2.0 */
/* rhythm.c - see rhythm.h */
#include "rhythm.h"

#include "clock.h"
#include "session.h"
#include "wait.h"

/* Below that a doorbell costs less than what can be gained; beyond, nobody steps. */
#define SLACK_LEAST (500 * NS_PER_US)
#define EVERY_MOST  (250 * NS_PER_MS)

void rhythm_begin(struct swakv_session *s, bool later)
{
	s->rhythm.now = later && !s->events.wanted ? clock_ns() : 0;
	s->rhythm.urgent = false;
}

void rhythm_sent(struct swakv_session *s, const struct call *c)
{
	struct rhythm *r = &s->rhythm;

	if (!r->now || !c) {
		r->now = 0;
		return;
	}
	r->every = r->sent ? r->now - r->sent : UINT64_MAX;
	r->sent = r->now;
	r->ticket = c->ticket;
	r->now = 0;
	if (r->every <= EVERY_MOST && r->slack >= SLACK_LEAST)
		store_relaxed(&s->wait->ask, r->sent + r->every + (r->slack < r->every ? r->slack : r->every) / 2);
}

bool rhythm_is_quiet(struct swakv_session *s)
{
	struct rhythm *r = &s->rhythm;
	uint64_t look;

	/* The next command tells of this one, too. */
	r->unrung = false;
	if (!r->now || r->urgent || r->slack < SLACK_LEAST)
		return false;
	look = load_relaxed(&s->wait->look);
	r->unrung = look > r->now && look - r->now <= r->slack - r->slack / 4;
	return r->unrung;
}

void rhythm_ring(struct swakv_session *s)
{
	if (!s->rhythm.unrung)
		return;
	s->rhythm.unrung = false;
	session_wake_broker(s);
}

void rhythm_collected(struct swakv_session *s, const struct call *c)
{
	struct rhythm *r = &s->rhythm;

	if (!r->sent || c->ticket != r->ticket)
		return;
	r->unrung = false;
	r->slack = clock_ns() - r->sent;
}
