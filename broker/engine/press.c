/* SPDX-License-Identifier: Apache-2.0 */
/*
 * press.c - see press.h
 *
 * All of it is computed anew each time: so a lack that many have is asked for
 * once, what was given meanwhile is not asked for again, and a want ends with its
 * cause. First those are asked that hold pages of the size that is lacking; only
 * what they do not have is asked, in bytes, of others, whose extents must come
 * empty for it. Of each, first what sessions say they could give.
 *
 * Sessions may be many, so others are served in between (slice.h), and some of
 * them leave meanwhile. What is decided in the end is looked at once more with
 * what is so then; the rest is put right the next time.
 */
#include "press.h"

#include "admission.h"
#include "emptying.h"
#include "floor_ceiling.h"
#include "internal.h"
#include "slice.h"

/* Begins and takes that wait, and that are looked at. */
#define WAITS_SEEN 64
/* Operations that a session with its groups comes to. */
#define SESSION_OPERATIONS 4

/* The next session of a walk; before it others may be served. NULL: that was the last. */
static struct session *press_step(struct engine *e)
{
	struct session *s;

	engine_spend(e, SESSION_OPERATIONS);
	s = e->press_next;
	if (s)
		e->press_next = LIST_NEXT(s, siblings);
	return s;
}

#define FOR_EACH_PRESSED(s, e) for ((e)->press_next = LIST_FIRST(&(e)->sessions); ((s) = press_step(e));)

void press_left(struct session *s)
{
	if (s->engine->press_next == s)
		s->engine->press_next = LIST_NEXT(s, siblings);
}

/* What is lacking of each class, in pages. */
struct lacks {
	int64_t wished[POOL_MAX_CLASSES];  /* whatever is there, */
	int64_t leaving[POOL_MAX_CLASSES]; /* on its way, */
	int64_t pages[POOL_MAX_CLASSES];   /* and above all that */
	struct pool_keep keep;
	bool any;
};

void press_refused(struct session *s, const int64_t *needs)
{
	FOR_EACH_GROUP (g, s)
		g->refused = needs[g->index];
	s->refused_until = s->engine->stamp + PRESS_REFUSED_MS * s->engine->stamps_a_ms;
	s->engine->pressed = true;
	if (!s->engine->press_due)
		s->engine->press_due = s->refused_until;
}

void press_given(struct session *s)
{
	s->refused_until = 0;
}

static bool was_refused(const struct session *s)
{
	return !s->ended && s->refused_until > s->engine->stamp;
}

static bool may_be_asked(const struct session *s)
{
	return !s->ended && s->n_waits == 0;
}

bool session_may_be_asked(const struct session *s)
{
	return may_be_asked(s) && !was_refused(s);
}

static bool below_ceiling(const struct session *s, const int64_t *needs)
{
	const struct quota *q = s->quota;

	return !q->ceiling || quota_used(q) + needs_bytes(s, needs) <= q->ceiling;
}

/* The session is in want of @needs. */
static void add_lack(struct lacks *l, const struct session *s, const int64_t *needs)
{
	if (!below_ceiling(s, needs)) /* no page of another would help */
		return;
	FOR_EACH_GROUP (g, s) {
		l->wished[g->class_index] += needs[g->index];
		l->any |= needs[g->index] > 0;
	}
}

/* What is there for those who lack pages of class @index, or is on its way. */
static int64_t pages_coming(struct engine *e, const struct lacks *l, uint32_t index)
{
	const struct page_class *c = e->pool.classes[index];
	uint64_t before = e->pool.looked;
	int64_t n = engine_available(e, index) + c->n_withheld + l->keep.claims[index] - l->keep.floors[index];

	slice_count(e, (e->pool.looked - before) / SLICE_LOOKS);
	return (n > 0 ? n : 0) + l->leaving[index];
}

/* @s is in want of @needs, the first of all perhaps: what is kept for others than its model counts for nothing. */
static void note_lack(struct lacks *l, const struct session *s, const int64_t *needs)
{
	bool before = l->any;

	add_lack(l, s, needs);
	if (l->any && !before)
		keep_for_others(&l->keep, s->engine, s->quota, true);
}

static void find_waits(struct engine *e, struct lacks *l)
{
	const struct wait *w;
	uint32_t seen = 0;

	TAILQ_FOREACH (w, &e->waits, in_engine) {
		if (seen++ == WAITS_SEEN)
			break;
		if (!w->refusal)
			note_lack(l, w->session, w->needs);
	}
	slice_count(e, seen);
}

static void find_lacks(struct engine *e, struct lacks *l)
{
	struct session *s;

	*l = (struct lacks){ 0 };
	find_waits(e, l);
	FOR_EACH_PRESSED(s, e)
	{
		int64_t needs[WIRE_MAX_GROUPS];

		FOR_EACH_GROUP (g, s) {
			needs[g->index] = g->refused;
			l->leaving[g->class_index] += s->ended ? 0 : g->n_leaving;
			g->asked = 0;
			g->given_asked = g->n_given;
		}
		if (was_refused(s) && s->n_waits == 0)
			note_lack(l, s, needs);
	}
	if (!l->any)
		return;
	l->any = false;
	for (int i = 0; i < e->pool.n_classes; i++) {
		if (l->wished[i] == 0)
			continue;
		l->pages[i] = l->wished[i] - pages_coming(e, l, (uint32_t)i);
		l->pages[i] = l->pages[i] > 0 ? l->pages[i] : 0;
		l->any |= l->pages[i] > 0;
	}
}

/* ---- who is asked ------------------------------------------------------------------ */

/* Of whom, and how far. */
struct asking {
	int32_t class;   /* those of this class, */
	bool others;     /* or of all others */
	bool spare_only; /* no more than what they say they could give */
	int64_t wished; /* pages that are lacking, with those that are there: whoever was refused some lacks its part */
};

/* Bytes that the session holds above its model's floor and manages in @g: in that proportion it is asked. */
static uint64_t weight_of(const struct session *s, const struct group *g)
{
	uint64_t managed = (uint64_t)g->n_managed * page_class_whole(g->class);

	return managed < s->quota->above ? managed : s->quota->above;
}

/*
 * Pages that it may be asked for beyond those that it is, since others lack them. Who waits is asked for none. Who was
 * refused some is in need of what it uses, but it may try again and again to have more for its cache: what it offers
 * it would not miss.
 */
static uint64_t for_others(const struct session *s, const struct asking *a)
{
	int64_t pages = a->wished;

	if (!may_be_asked(s))
		return 0;
	if (!was_refused(s))
		return UINT64_MAX;
	if (!a->spare_only || a->others)
		return 0;
	FOR_EACH_GROUP (g, s)
		pages -= (int32_t)g->class_index == a->class ? g->refused + g->asked : 0;
	return pages > 0 ? (uint64_t)pages : 0;
}

/* Bytes that it can be asked for beyond those that it is. */
static uint64_t room_of(const struct session *s, const struct group *g, const struct asking *a)
{
	uint64_t each = page_class_whole(g->class), most = (uint64_t)g->n_managed, others;

	if (((int32_t)g->class_index == a->class) == a->others)
		return 0;
	if (a->spare_only && g->offered < most)
		most = g->offered;
	if (most <= (uint64_t)g->asked)
		return 0;
	others = for_others(s, a);
	most = (most - (uint64_t)g->asked < others ? most - (uint64_t)g->asked : others) * each;
	return most < s->quota->above_left ? most : s->quota->above_left / each * each;
}

static uint64_t ask(struct session *s, struct group *g, uint64_t bytes, uint64_t room)
{
	uint64_t each = page_class_whole(g->class), pages = (bytes + each - 1) / each;

	pages = pages * each <= room ? pages : room / each;
	g->asked += (int64_t)pages;
	s->quota->above_left -= pages * each;
	return pages * each;
}

/* @bytes are asked of them, in proportion to their weights, as far as they have them; what is left. */
static uint64_t ask_all(struct engine *e, const struct asking *a, uint64_t bytes)
{
	unsigned __int128 total = 0;
	uint64_t left = bytes;
	struct session *s;

	FOR_EACH_PRESSED(s, e)
	FOR_EACH_GROUP (g, s)
		total += room_of(s, g, a) ? weight_of(s, g) : 0;
	for (int whole = 0; whole < 2 && total > 0; whole++) {
		FOR_EACH_PRESSED(s, e)
		{
			FOR_EACH_GROUP (g, s) {
				uint64_t room = room_of(s, g, a), share = left, asked;

				if (!whole) /* then whoever still has some */
					share = (uint64_t)(bytes * (unsigned __int128)weight_of(s, g) / total);
				asked = room ? ask(s, g, share < left ? share : left, room) : 0;
				left -= asked < left ? asked : left;
			}
		}
	}
	return left;
}

static void ask_for(struct engine *e, uint32_t index, const struct lacks *l)
{
	uint64_t left = (uint64_t)l->pages[index] * page_class_whole(e->pool.classes[index]);

	for (int i = 0; i < 4 && left > 0; i++) {
		const struct asking a = {
			.class = (int32_t)index, .others = i >= 2, .spare_only = i % 2 == 0, .wished = l->wished[index]
		};

		left = ask_all(e, &a, left);
	}
}

/* It is asked from now on, or no longer. */
static void note_turn(struct group *g, uint64_t stamp)
{
	g->wanted_since = stamp;
	if (g->asked > 0) {
		g->n_asked++;
		g->given_before = g->n_given;
	} else {
		g->n_unanswered += g->n_given == g->given_before;
	}
}

/* It is asked for more than it was, less what it has given since. */
static bool is_more(const struct group *g)
{
	uint64_t given = g->given_asked - g->given_seen, before = (uint64_t)g->wanted;

	return (uint64_t)g->asked > (given < before ? before - given : 0);
}

/* What each model holds above its floor. */
static void find_above(struct engine *e)
{
	struct quota *q;
	uint64_t n = 0;

	TAILQ_FOREACH (q, &e->quotas, link) {
		uint64_t used = quota_used(q);

		q->above = q->above_left = used > q->floor ? used - q->floor : 0;
		n++;
	}
	slice_count(e, n);
}

/* What was decided of @g, as far as it is right of what is so now. */
static int64_t still_asked(const struct session *s, const struct group *g)
{
	uint64_t most = s->quota->above_left / page_class_whole(g->class), asked = (uint64_t)g->asked;

	if (!may_be_asked(s))
		return 0;
	if (most > (uint64_t)g->n_managed)
		most = (uint64_t)g->n_managed;
	if (was_refused(s) && most > g->offered)
		most = g->offered;
	return (int64_t)(asked < most ? asked : most);
}

static void decide(struct session *s, struct group *g)
{
	g->asked = still_asked(s, g);
	s->quota->above_left -= (uint64_t)g->asked * page_class_whole(g->class);
	if ((g->wanted > 0) != (g->asked > 0))
		note_turn(g, s->engine->stamp);
	g->n_rises += is_more(g) || (g->ranges_new && g->asked > 0);
	g->ranges_new = false;
	s->engine->shifts += g->wanted != g->asked;
	g->wanted = g->asked;
	g->given_seen = g->given_asked;
	s->engine->pressed |= g->wanted > 0;
}

void engine_press(struct engine *e)
{
	struct session *s;
	struct lacks l;

	find_lacks(e, &l);
	emptying_review(e, l.any ? l.pages : NULL);
	find_above(e);
	for (int i = 0; i < e->pool.n_classes && l.any; i++)
		if (l.pages[i] > 0)
			ask_for(e, (uint32_t)i, &l);
	find_above(e);
	e->pressed = false;
	e->press_due = 0;
	FOR_EACH_PRESSED(s, e)
	{
		e->pressed |= was_refused(s);
		if (was_refused(s) && (!e->press_due || s->refused_until < e->press_due))
			e->press_due = s->refused_until;
		FOR_EACH_GROUP (g, s)
			decide(s, g);
	}
}

bool engine_presses(const struct engine *e)
{
	return e->pressed || e->n_waiting > 0;
}

uint64_t engine_press_due(const struct engine *e)
{
	return e->press_due;
}

void session_set_spare(struct session *s, uint32_t group, uint64_t pages)
{
	s->groups[group].offered = pages;
}

int64_t session_wanted_pages(const struct session *s, uint32_t group, uint64_t *since)
{
	const struct group *g = &s->groups[group];

	*since = g->wanted > 0 ? g->wanted_since : 0;
	return g->wanted;
}

uint64_t session_given_pages(const struct session *s, uint32_t group)
{
	return s->groups[group].given_seen;
}

uint64_t session_want_rises(const struct session *s, uint32_t group)
{
	return s->groups[group].n_rises;
}

void session_count_asks(const struct session *s, struct ask_counts *out)
{
	*out = (struct ask_counts){ 0 };
	FOR_EACH_GROUP (g, s) {
		out->asked += g->n_asked;
		out->unanswered += g->n_unanswered;
	}
}
