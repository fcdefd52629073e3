/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands. Most are right, and steps are by far the most frequent, so that
 * sequences live long enough to cross many page boundaries; prefills and extends
 * end near the edges of pages and windows.
 */
#include "generate.h"

#include <string.h>

#include "wire_turn.h"

/* ---- parts of commands --------------------------------------------------------------- */

static uint32_t draw_fence(struct rng *r, const struct mood *mood, bool ending)
{
	if (rng_one_in(r, 8 * mood->wrong))
		return (uint32_t)rng_between(r, FENCE_POINT, FENCE_COUNT - 1);
	if (rng_one_in(r, mood->fail))
		return FENCE_FAILED;
	if (ending && rng_one_in(r, 2))
		return FENCE_POINT;
	if (!mood->late || rng_one_in(r, 8))
		return FENCE_DONE;
	return rng_one_in(r, 3) ? (rng_one_in(r, 2) ? FENCE_ARMED : FENCE_OLD) : FENCE_NEW;
}

/* The same of a step of @q: one with which pages have moved fails when a copy does. */
static uint32_t draw_step_fence(struct rng *r, const struct mood *mood, const struct ref_request *q)
{
	return q->n_moved > 0 && rng_one_in(r, 4 * mood->stop) ? FENCE_FAILED : draw_fence(r, mood, false);
}

static int32_t label_of(const struct world *w, uint32_t session, const struct ref_request *q)
{
	for (int32_t i = 0; i < WORLD_COMMANDS; i++)
		if (w->labels[i].handle && w->labels[i].handle == q->handle && w->labels[i].session == session)
			return i;
	return -1;
}

/* A live request, ended one, foreign one, or none at all. */
static int32_t draw_label(struct rng *r, const struct world *w, int32_t label)
{
	int32_t drawn = (int32_t)rng_between(r, -3, -1);

	for (int i = 0; i < 20 && !rng_one_in(r, 12); i++) {
		drawn = (int32_t)rng_between(r, 0, label);
		if (w->labels[drawn].handle)
			break;
	}
	return drawn;
}

/* A number of tokens up to @most, near the edges of pages and windows of one of the groups. */
static int32_t draw_length(struct rng *r, const struct ref_session *s, int64_t most)
{
	const struct ref_group *o = &s->groups[rng_between(r, 0, s->n_groups - 1)];
	int64_t p = o->page_tokens, n;

	switch (rng_between(r, 0, 5)) {
	case 0:
		n = p * rng_between(r, 1, o->width) + rng_between(r, -2, 1);
		break;
	case 1:
		n = o->window + p * rng_between(r, 0, o->width) + rng_between(r, -2, 1);
		break;
	case 2:
		n = most - rng_between(r, 0, 3);
		break;
	case 3:
		n = rng_between(r, 1, p + 1);
		break;
	default:
		n = rng_between(r, 1, most);
	}
	return (int32_t)(n < 1 || n > most ? rng_between(r, 1, most) : n);
}

/* Lengths of all sequences. Where that many pages can be had, as many as just fit into a reply, or do not. */
static void draw_lengths(struct rng *r, const struct ref_session *s, const struct ref_request *q, int32_t *out)
{
	const struct ref_group *o = &s->groups[0];
	int64_t pages = WIRE_MAX_INLINE_UPDATES + rng_between(r, -1, 1), p = o->page_tokens;
	bool edge = s->n_groups == 1 && q->n_seqs * (o->window / p) > pages && q->max_tokens == s->max_seq &&
		    !rng_one_in(r, 4);

	for (int32_t i = 0; i < q->n_seqs; i++) {
		int64_t share = pages / (q->n_seqs - i);

		out[i] = edge ? (int32_t)(share * p - rng_between(r, 0, p - 1)) : draw_length(r, s, q->max_tokens);
		pages -= share;
	}
}

static uint32_t draw_map(struct rng *r, int32_t *map, int32_t n)
{
	int32_t keep = (int32_t)(rng_one_in(r, 12) ? 0 : rng_one_in(r, 3) ? n : rng_between(r, 0, n));

	for (int32_t i = 0; i < n; i++)
		map[i] = i < keep ? i : -1;
	for (int32_t i = n - 1; i > 0; i--) {
		int32_t j = (int32_t)rng_between(r, 0, i), swap = map[i];

		map[i] = map[j];
		map[j] = swap;
	}
	return (uint32_t)keep;
}

/* Sequences that could be admitted, as far as each class for itself can tell. */
static int64_t how_many(const struct ref_session *s)
{
	int64_t least = INT32_MAX;

	for (uint32_t g = 0; g < s->n_groups; g++) {
		int64_t one = 0;

		for (uint32_t i = 0; i < s->n_groups; i++)
			if (s->groups[i].class == s->groups[g].class)
				one += ref_reservation(s, i, s->max_seq, false);
		if (ref_tally(s->pool, s->groups[g].class_index)->available / one < least)
			least = s->groups[g].class->available / one;
	}
	return least;
}

static void draw_begin(struct rng *r, const struct mood *mood, const struct ref_session *s, struct command *c)
{
	/* mostly no more than the pool has pages for */
	int64_t fit = how_many(s) + rng_one_in(r, 8);
	bool all = rng_one_in(r, s->max_batch == REF_BATCH ? 2 : 4), brief = rng_one_in(r, mood->brief);
	int32_t n = 0;

	c->op = OP_BEGIN;
	c->new_batch = rng_one_in(r, mood->wait) ? (int32_t)rng_between(r, 1, 400) : 0;
	c->stream = (uint32_t)rng_between(r, 0, s->n_streams - 1);
	c->flags = rng_one_in(r, mood->scene ? 40 : 8);
	c->value = rng_one_in(r, 4) ? rng_between(r, 1, s->max_seq) : 0;
	if (brief) { /* short sequences: what stays of an extent is little */
		c->value = rng_between(r, 12, s->max_seq < 32 ? s->max_seq : 32);
		all = rng_one_in(r, 2);
		fit = all ? REF_BATCH : 0;
	}
	c->flags |= mood->moves && rng_one_in(r, mood->scene ? 40 : 8) ? 2 : 0;
	for (int32_t i = 0; i < s->max_batch; i++)
		if (s->slots[i].owner < 0 && !s->slots[i].waiting && (n == 0 || (n < fit && (all || rng_one_in(r, 2)))))
			c->list[n++] = i;
	if (n > 1 && rng_one_in(r, 2)) {
		int32_t first = c->list[0];

		c->list[0] = c->list[n - 1];
		c->list[n - 1] = first;
	}
	if (rng_one_in(r, 60))
		c->list[0] = (int32_t)rng_between(r, 0, s->max_batch - 1);
	c->n = (uint8_t)n;
}

/* What an entry lists, when there is room for it: one count a sequence. */
static int32_t *list_counts(struct command *c, const struct ref_request *q, int32_t *value)
{
	int32_t *out = c->counts + c->n_counts;

	if (c->n_counts + q->n_seqs > STEP_COUNTS)
		return NULL;
	*value = -q->n_seqs;
	c->n_counts = (uint8_t)(c->n_counts + q->n_seqs);
	return out;
}

/* Tokens of one sequence: few, as of speculation, or a chunk; seldom more than fit. */
static int32_t draw_tokens(struct rng *r, const struct ref_session *s, const struct ref_request *o,
			   const struct ref_seq *q)
{
	int64_t room = o->max_tokens - q->endpoint, most = rng_one_in(r, 3) ? 4 : 2 * s->groups[0].page_tokens;

	if (s->max_advance && rng_one_in(r, 3))
		most = s->max_advance;
	else if (rng_one_in(r, 6))
		return room < 1 ? 1 : draw_length(r, s, room);
	if (most > room && !rng_one_in(r, 10))
		most = room;
	return (int32_t)rng_between(r, 1, most);
}

static int32_t draw_extend(struct rng *r, const struct ref_session *s, const struct ref_request *o, struct command *c)
{
	int32_t value = draw_tokens(r, s, o, &o->seqs[0]);
	int32_t *list = rng_one_in(r, 4) ? NULL : list_counts(c, o, &value);

	for (int32_t i = 0; i < o->n_seqs && list; i++)
		list[i] = draw_tokens(r, s, o, &o->seqs[i]);
	return value;
}

/* How much of a pending step stays: mostly all of it, and less only where a model may. */
static int32_t draw_accepted(struct rng *r, const struct ref_session *s, const struct ref_request *o, struct command *c)
{
	int64_t tokens = o->seqs[0].pending_endpoint - o->seqs[0].endpoint;
	int32_t value = 0, *list;

	if (o->transition == TRANSITION_STEP && !rng_one_in(r, 8))
		return (int32_t)rng_between(r, 0, 1);
	if (rng_one_in(r, s->chunk_mapped ? 4 : 2))
		return 0;
	if (rng_one_in(r, 6))
		return (int32_t)(s->chunk_mapped ? rng_between(r, 1, tokens) : tokens);
	list = list_counts(c, o, &value);
	for (int32_t i = 0; i < o->n_seqs && list; i++) {
		tokens = o->seqs[i].pending_endpoint - o->seqs[i].endpoint;
		list[i] = (int32_t)(s->chunk_mapped || rng_one_in(r, 100) ? rng_between(r, 0, tokens) : tokens);
	}
	return value;
}

/* Steps all requests that can, or one of them. */
static void draw_step(struct rng *r, const struct mood *mood, struct world *w, const struct ref_request *q,
		      bool prepare, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	bool all = rng_one_in(r, 2);

	c->op = prepare ? OP_STEP_PREPARE : OP_STEP_COMPLETE;
	for (int i = 0; i < REF_REQUESTS && c->n < STEP_ENTRIES; i++) {
		const struct ref_request *o = &s->requests[i];

		bool can = prepare ? o->phase == PHASE_EXECUTING && o->transition == TRANSITION_NONE
				   : o->transition == TRANSITION_STEP || o->transition == TRANSITION_EXTEND;

		if (!o->live || (o != q && !(all && can)))
			continue;
		c->entries[c->n].request = label_of(w, c->session, o);
		c->entries[c->n].tokens = 1;
		if (prepare && o->n_seqs > 0 && rng_one_in(r, mood->extend))
			c->entries[c->n].tokens = draw_extend(r, s, o, c);
		c->entries[c->n].accepted = prepare ? 0 : draw_accepted(r, s, o, c);
		c->entries[c->n].fence = prepare ? 0 : draw_step_fence(r, mood, o);
		c->n++;
	}
}

/* What a turn does with @o, that may be done; 0: nothing. */
static uint32_t draw_what(struct rng *r, const struct mood *mood, const struct ref_request *o)
{
	bool ends = o->transition == TRANSITION_STEP || o->transition == TRANSITION_EXTEND;
	bool ready = o->phase == PHASE_EXECUTING && (ends || o->transition == TRANSITION_NONE);

	if (!ends && !ready && !(o->phase == PHASE_FINISHING && o->transition == TRANSITION_NONE))
		return rng_one_in(r, 20) ? (uint32_t)rng_between(r, 1, 5) : 0;
	if (rng_one_in(r, o->phase == PHASE_FINISHING ? 2 : mood->ending))
		return (ends ? WIRE_TURN_COMPLETE : 0) | WIRE_TURN_FINISH;
	if (!ends)
		return ready ? WIRE_TURN_PREPARE : 0;
	return WIRE_TURN_COMPLETE | (ready && !rng_one_in(r, 6) ? WIRE_TURN_PREPARE : 0);
}

/* One request begins, in slots that are free or in those of @leaving. */
static void draw_begin_in(struct rng *r, const struct mood *mood, const struct ref_session *s,
			  const struct ref_request *leaving, struct command *c)
{
	struct command b = { .session = c->session };

	draw_begin(r, mood, s, &b);
	if (b.n == 0 && leaving)
		for (int32_t i = 0; i < leaving->n_seqs; i++)
			b.list[b.n++] = leaving->seqs[i].slot;
	if (b.n == 0)
		return;
	memcpy(c->list, b.list, sizeof c->list);
	c->new_batch = b.n;
	c->stream = leaving && b.n == leaving->n_seqs ? leaving->stream : b.stream;
	c->flags = b.flags;
	c->value = b.value;
	c->entries[c->n].what = WIRE_TURN_BEGIN;
	c->entries[c->n++].request = -1;
}

/* Ends and beginnings of steps of all requests. */
static void draw_turn(struct rng *r, const struct mood *mood, const struct world *w, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	const struct ref_request *leaving = NULL;
	bool together = rng_one_in(r, 2);
	uint32_t fence = draw_fence(r, mood, false);
	int where = (int)rng_between(r, 0, REF_REQUESTS);

	c->op = OP_TURN;
	for (int i = 0; i < REF_REQUESTS && c->n < STEP_ENTRIES - 1; i++) {
		const struct ref_request *o = &s->requests[i];
		uint32_t what = o->live && !rng_one_in(r, 10) ? draw_what(r, mood, o) : 0;

		if (i == where && mood->begin && rng_one_in(r, 6))
			draw_begin_in(r, mood, s, leaving, c);
		if (!what)
			continue;
		c->entries[c->n].request = label_of(w, c->session, o);
		c->entries[c->n].tokens = 1;
		c->entries[c->n].what = what | (rng_one_in(r, 8) && !(what & WIRE_TURN_FINISH) ? WIRE_TURN_DETAIL : 0);
		if (what & WIRE_TURN_COMPLETE && o->transition >= TRANSITION_STEP && o->n_seqs > 0)
			c->entries[c->n].accepted = draw_accepted(r, s, o, c);
		if (what & WIRE_TURN_PREPARE && o->n_seqs > 0 && rng_one_in(r, mood->extend))
			c->entries[c->n].tokens = draw_extend(r, s, o, c);
		c->entries[c->n].fence = together ? fence : draw_step_fence(r, mood, o);
		if (together && fence == FENCE_NEW && c->n > 0) /* they have one mark */
			c->entries[c->n].fence = FENCE_ARMED;
		c->n++;
		leaving = what & WIRE_TURN_FINISH ? o : leaving;
	}
	if (mood->begin && (c->n == 0 || (leaving && rng_one_in(r, 2))))
		draw_begin_in(r, mood, s, leaving, c);
}

static void draw_rewind(struct rng *r, const struct ref_session *s, const struct ref_request *o, struct command *c)
{
	bool beyond = rng_one_in(r, 20);

	c->op = OP_REWIND;
	c->n = (uint8_t)o->n_seqs;
	for (int32_t i = 0; i < o->n_seqs; i++) {
		const struct ref_seq *q = &o->seqs[i];
		int64_t most = q->endpoint - (q->highest - s->max_rewind);

		if (most > q->endpoint)
			most = q->endpoint;
		if (beyond && rng_one_in(r, 2))
			most += rng_between(r, 1, 2);
		c->list[i] = (int32_t)(rng_one_in(r, 3) ? most - rng_between(r, 0, most > 0) : rng_between(r, 0, most));
	}
}

/* ---- wrong commands ---------------------------------------------------------------------- */

static bool has_entries(const struct command *c)
{
	return c->op == OP_STEP_PREPARE || c->op == OP_STEP_COMPLETE || c->op == OP_TURN;
}

/* The step brings as many counts as its entries list. */
static void count_listed(struct command *c)
{
	int64_t n = 0;

	for (int i = 0; i < c->n && has_entries(c); i++) {
		int64_t tokens = c->entries[i].tokens, accepted = c->entries[i].accepted;
		uint32_t what = c->op == OP_STEP_PREPARE    ? WIRE_TURN_PREPARE
				: c->op == OP_STEP_COMPLETE ? WIRE_TURN_COMPLETE
							    : c->entries[i].what;

		n += what & WIRE_TURN_PREPARE && tokens < 0 ? -tokens : 0;
		n += what & WIRE_TURN_COMPLETE && accepted < 0 ? -accepted : 0;
	}
	c->n_counts = (uint8_t)(n > STEP_COUNTS ? STEP_COUNTS : n);
}

/* Takes a right command and makes something about it wrong. It may still be right. */
static void spoil(struct rng *r, const struct world *w, int32_t label, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	int32_t i = (int32_t)rng_between(r, 0, c->n > 0 ? c->n - 1 : 0);

	switch (rng_between(r, 0, 8)) {
	case 0:
		if (c->op != OP_BEGIN && c->op != OP_TURN)
			c->request = draw_label(r, w, label);
		c->entries[i % STEP_ENTRIES].request = draw_label(r, w, label);
		break;
	case 1:
		c->n = (uint8_t)rng_between(r, 0, has_entries(c) ? c->n : REF_BATCH);
		break;
	case 2:
		c->list[i] = rng_one_in(r, 3) ? (int32_t)rng_between(r, -2, s->max_batch + 1)
					      : (int32_t)rng_between(r, 0, s->max_batch - 1);
		c->entries[i % STEP_ENTRIES].tokens = (int32_t)rng_between(r, -1, 3);
		break;
	case 3:
		c->list[i] = c->op == OP_PREFILL_PREPARE ? (int32_t)(s->max_seq + rng_between(r, 0, 1)) : c->list[0];
		c->entries[i % STEP_ENTRIES].accepted = (int32_t)rng_between(r, -1, 3);
		break;
	case 4:
		c->list[i] = rng_one_in(r, 2) ? INT32_MIN : INT32_MAX;
		c->new_batch = (int32_t)rng_between(r, c->op == OP_TURN ? 0 : -1, s->max_batch + 1);
		break;
	case 5:
		c->stream = (uint32_t)rng_between(r, 0, s->n_streams);
		c->flags = (uint32_t)(c->op == OP_TURN ? 1 << rng_between(r, 0, 3) : rng_between(r, 0, 3));
		c->value = rng_one_in(r, 3) ? -1 : rng_between(r, s->max_seq - 1, s->max_seq + 1);
		break;
	case 6:
		c->n_counts = (uint8_t)rng_between(r, 0, STEP_COUNTS);
		c->counts[rng_between(r, 0, STEP_COUNTS - 1)] = (int32_t)rng_between(r, -1, 3);
		break;
	case 7:
		c->entries[i % STEP_ENTRIES] = c->entries[0];
		if (c->op == OP_TURN)
			c->entries[0].what = (uint32_t)rng_between(r, 0, WIRE_TURN_MASK);
		c->list[i] = c->list[c->n > 1 ? 1 : 0];
		break;
	default:
		/* the right arguments for the wrong call */
		c->op = (uint8_t)rng_between(r, OP_PREFILL_PREPARE, OP_ABANDON);
		c->n = c->n > STEP_ENTRIES ? STEP_ENTRIES : c->n;
	}
	if (!rng_one_in(r, 4))
		count_listed(c);
}

/* ---- the next command ------------------------------------------------------------------------ */

static void draw_shutdown(struct rng *r, const struct mood *mood, const struct ref_session *s, struct command *c)
{
	c->op = OP_SHUTDOWN;
	c->n = (uint8_t)(rng_one_in(r, 12) ? rng_between(r, 0, s->n_streams + 1) : s->n_streams);
	for (uint32_t i = 0; i < c->n; i++)
		c->list[i] = rng_one_in(r, 10)  ? (int32_t)rng_between(r, 0, FENCE_COUNT - 1)
			     : rng_one_in(r, 8) ? FENCE_FAILED
			     : rng_one_in(r, 3) ? FENCE_ARMED
						: FENCE_DONE;
}

static const struct ref_request *draw_live(struct rng *r, const struct ref_session *s)
{
	int32_t n = ref_live(s), k = (int32_t)rng_between(r, 0, n - 1);

	for (int i = 0; i < REF_REQUESTS; i++)
		if (s->requests[i].live && k-- == 0)
			return &s->requests[i];
	return NULL;
}

static void draw_pending(struct rng *r, const struct mood *mood, struct world *w, const struct ref_request *q,
			 struct command *c)
{
	c->fence = (uint8_t)draw_fence(r, mood, false);
	if (q->transition == TRANSITION_PREFILL)
		c->op = OP_PREFILL_COMPLETE;
	else if (q->transition == TRANSITION_COMPACT)
		c->op = OP_COMPACT_COMPLETE;
	else
		draw_step(r, mood, w, q, false, c);
}

static void draw_request(struct rng *r, const struct mood *mood, struct world *w, const struct ref_request *q,
			 struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];

	c->request = label_of(w, c->session, q);
	if (rng_one_in(r, mood->ending) || (q->n_moved > 0 && rng_one_in(r, mood->stop)) ||
	    (q->phase == PHASE_FINISHING && q->transition == TRANSITION_NONE && !rng_one_in(r, 4))) {
		c->op = rng_one_in(r, 3) || q->transition != TRANSITION_NONE ? OP_ABANDON : OP_FINISH;
		c->fence = (uint8_t)draw_fence(r, mood, true);
	} else if (q->transition != TRANSITION_NONE) {
		draw_pending(r, mood, w, q, c);
	} else if (q->phase == PHASE_ADMITTED) {
		c->op = OP_PREFILL_PREPARE;
		c->n = (uint8_t)q->n_seqs;
		draw_lengths(r, s, q, c->list);
	} else if (rng_one_in(r, mood->rewind)) {
		draw_rewind(r, s, q, c);
	} else if (rng_one_in(r, 3 * mood->compact)) {
		c->op = OP_RESERVE;
		c->value = rng_between(r, q->max_tokens - rng_one_in(r, 8), s->max_seq);
	} else if (rng_one_in(r, mood->compact)) {
		c->op = OP_COMPACT_BEGIN;
		c->n = (uint8_t)q->n_seqs;
		c->new_batch = (int32_t)draw_map(r, c->list, q->n_seqs);
		c->flags = rng_one_in(r, 2) ? WIRE_COMPACT_MOVE_ROWS : 0;
	} else {
		draw_step(r, mood, w, q, true, c);
	}
}

/* A step of the session, in place of the command @c that has been drawn for it. */
static bool is_turned(struct rng *r, const struct mood *mood, const struct command *c)
{
	return mood->turn && (c->op == OP_STEP_PREPARE || c->op == OP_STEP_COMPLETE || c->op == OP_FINISH) &&
	       rng_one_in(r, mood->turn);
}

/* A stream with values that are armed but not written, and how many of them stay so. */
static bool draw_reach(struct rng *r, const struct mood *mood, const struct world *w, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	uint32_t stream = (uint32_t)rng_between(r, 0, s->n_streams - 1);
	uint64_t behind;

	/* never more open points than the model has room for */
	for (uint32_t i = 0; i < s->n_streams; i++)
		if (w->sides[c->session].armed[i] - s->word[i] > mood->most)
			stream = i;
	behind = w->sides[c->session].armed[stream] - s->word[stream];
	if (behind == 0 || (behind <= mood->most && !rng_one_in(r, mood->late)))
		return false;
	c->op = OP_REACH;
	c->stream = stream;
	c->value = rng_one_in(r, 3) ? 0 : rng_one_in(r, 3) ? 1 : rng_between(r, 0, (int64_t)behind / 2);
	return true;
}

static void draw_command(struct rng *r, const struct mood *mood, struct world *w, int32_t label, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	bool room = false, pages = how_many(s) > 0;

	for (int32_t i = 0; i < s->max_batch; i++)
		room |= s->slots[i].owner < 0 && !s->slots[i].waiting;
	if (draw_reach(r, mood, w, c))
		return;
	if (!mood->begin && ref_live(s) == 0 && !s->poisoned) /* nothing, in this act */
		c->op = OP_PASS;
	else if (rng_one_in(r, s->poisoned ? 12 : 500))
		draw_shutdown(r, mood, s, c);
	else if (rng_one_in(r, 100) && mood->late) {
		c->op = OP_ARM;
		c->stream = (uint32_t)rng_between(r, 0, s->n_streams - 1);
	} else if (room && (pages || mood->scene || rng_one_in(r, 20)) &&
		   (ref_live(s) == 0 || rng_one_in(r, mood->begin)))
		draw_begin(r, mood, s, c);
	else if (ref_live(s) > 0) {
		draw_request(r, mood, w, draw_live(r, s), c);
		if (is_turned(r, mood, c)) {
			*c = (struct command){ .session = c->session, .request = label };
			draw_turn(r, mood, w, c);
		}
	} else if (room)
		draw_begin(r, mood, s, c);
	else { /* all that it has waits */
		c->op = OP_PASS;
		c->value = rng_between(r, 1, 100);
	}
}

/* ---- pages that the session manages itself --------------------------------------------- */

static int64_t count_taken(const struct ref_session *s, uint32_t g)
{
	const struct ref_class *c = s->groups[g].class;
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += c->page[id] == REF_LEASED && c->user[id] == s && c->taken[id] == g + 1;
	return n;
}

static void draw_take(struct rng *r, const struct mood *mood, const struct ref_session *s, struct command *c)
{
	int64_t free = ref_tally(s->pool, s->groups[c->value].class_index)->available;
	int64_t most = rng_one_in(r, 3) ? free + rng_one_in(r, 2) : rng_between(r, 1, 8);

	c->op = OP_TAKE;
	c->flags = rng_one_in(r, 2) ? WIRE_TAKE_OVERWRITES : 0;
	c->list[1] = (int32_t)rng_between(r, 1, most);
	c->list[0] = rng_one_in(r, 2) ? c->list[1] : (int32_t)rng_between(r, 1, c->list[1]);
	c->new_batch = rng_one_in(r, mood->wait) ? (int32_t)rng_between(r, 1, 400) : 0;
	if (!rng_one_in(r, mood->wrong))
		return;
	switch (rng_between(r, 0, 4)) {
	case 0:
		c->value = s->n_groups;
		break;
	case 1:
		c->list[0] = rng_one_in(r, 2) ? 0 : c->list[1] + 1;
		break;
	case 2:
		c->list[1] = WIRE_MAX_PAGES + (int32_t)rng_between(r, 0, 1);
		break;
	case 3:
		c->list[0] = c->list[1] = s->groups[c->value].class->num_pages + (int32_t)rng_between(r, 0, 1);
		break;
	default:
		c->flags = (uint32_t)rng_between(r, 2, 3);
	}
}

static void draw_give(struct rng *r, const struct mood *mood, const struct ref_session *s, int64_t taken,
		      struct command *c)
{
	c->op = OP_GIVE;
	c->list[0] = (int32_t)(rng_one_in(r, 4) ? taken : rng_between(r, 1, taken));
	c->list[1] = (int32_t)rng_between(r, 0, REF_PAGES);
	c->n = (uint8_t)(rng_one_in(r, 3) ? 0 : rng_between(r, 1, s->n_streams));
	for (uint32_t i = 0; i < c->n; i++) {
		c->entries[i].request = (int32_t)(rng_one_in(r, 10) ? rng_between(r, 0, s->n_streams - 1) : i);
		/* work on several streams fails together, often */
		c->entries[i].fence = i > 0 && c->entries[0].fence == FENCE_FAILED && rng_one_in(r, 2)
					      ? FENCE_FAILED
					      : draw_fence(r, mood, false);
	}
	if (rng_one_in(r, mood->wrong))
		c->flags = (uint32_t)rng_between(r, WRONG_TWICE, WRONG_RANGE);
	if (rng_one_in(r, 4 * mood->wrong))
		c->value = rng_between(r, 0, s->n_groups);
	if (rng_one_in(r, 8 * mood->wrong))
		c->n = (uint8_t)(s->n_streams + 1);
}

static void draw_managed(struct rng *r, const struct mood *mood, struct world *w, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];
	int64_t taken;

	c->value = rng_between(r, 0, s->n_groups - 1);
	taken = count_taken(s, (uint32_t)c->value);
	if (rng_one_in(r, 8)) {
		c->op = rng_one_in(r, 2) ? OP_PRESS : OP_OFFER;
		c->list[0] = (int32_t)rng_between(r, 0, taken + rng_one_in(r, 4));
	} else if (taken > 0 && rng_one_in(r, 2)) {
		draw_give(r, mood, s, taken, c);
	} else if (rng_one_in(r, 4 * mood->wrong)) { /* it has none */
		draw_give(r, mood, s, 1, c);
	} else {
		draw_take(r, mood, s, c);
	}
}

/* What is lacking is looked at, at once or after a while; or a request is pinned, or no longer. */
static void draw_moving(struct rng *r, struct world *w, int32_t label, struct command *c)
{
	const struct ref_session *s = &w->sessions[c->session];

	c->op = OP_PRESS;
	if (rng_one_in(r, 8)) {
		c->op = OP_PIN;
		c->request = rng_one_in(r, 8) || !ref_live(s) ? draw_label(r, w, label)
							      : label_of(w, c->session, draw_live(r, s));
		c->flags = rng_one_in(r, 2);
	} else if (rng_one_in(r, 3)) {
		c->op = OP_PASS;
		c->value = rng_between(r, 0, 40);
	}
}

/* A floor, a ceiling, or both, or none any more; sometimes more than there is. */
static void draw_limit(struct rng *r, const struct world *w, struct command *c)
{
	int64_t total = (int64_t)(2 * w->pool.half);

	c->op = OP_LIMIT;
	c->value = rng_between(r, 0, rng_one_in(r, 8) ? REF_QUOTAS - 1 : w->setup.n_models - 1);
	c->list[0] = (int32_t)(rng_one_in(r, 3) ? 0 : rng_between(r, -total / 8, total / 2));
	c->list[1] = (int32_t)(rng_one_in(r, 2) ? 0 : rng_between(r, -total / 8, total));
}

/* A session that can do nothing because others hold the pages. */
static bool starved(const struct ref_session *s)
{
	return s->attached && !s->ended && ref_live(s) == 0 && how_many(s) == 0;
}

/*
 * A scene in which pages move, act by act: many take small pages; most of these end, so that few are left in each
 * extent; large ones are wanted; those that are left step; at last the large ones end. 0: none in this act.
 */
struct act {
	int32_t commands;
	bool large;              /* sessions with large pages are on */
	uint32_t ending, begin;  /* see struct mood; of the sessions that are on */
	uint32_t compact, brief; /* see struct mood */
	uint32_t moves;
};
static const struct act acts[] = {
	{ .commands = 60, .ending = 400, .begin = 2, .compact = 60, .brief = 1, .moves = 60 },
	{ .commands = 40, .ending = 30, .compact = 1, .moves = 60 },
	{ .commands = 20, .large = true, .ending = 400, .begin = 1, .compact = 60, .brief = 4, .moves = 3 },
	{ .commands = 60, .compact = 60, .moves = 5 },
	{ .commands = 30, .large = true, .ending = 1, .moves = 10 },
};
enum { ACTS = sizeof acts / sizeof *acts };

static const struct act *act_of(int32_t label)
{
	int32_t all = 0;
	const struct act *a = acts;

	for (int i = 0; i < ACTS; i++)
		all += acts[i].commands;
	for (label %= all; label >= a->commands; a++)
		label -= a->commands;
	return a;
}

/* Whose command is next, and in what mood: *@m. The first sessions have the models of large pages, but for 0. */
static uint8_t draw_act(struct rng *r, const struct world *w, int32_t label, struct mood *m)
{
	const struct act *a = act_of(label);
	bool large = a->large ? !rng_one_in(r, 4) : rng_one_in(r, 40);
	int64_t session = 0;

	m->ending = large == a->large ? a->ending : 0;
	m->begin = large == a->large ? a->begin : 0;
	m->compact = a->compact;
	m->brief = a->brief;
	m->moves = a->moves;
	m->wait = large ? m->wait : 0;
	/* mostly such as can do something */
	for (int i = 0; i < 5 && (i == 0 || (!m->begin && ref_live(&w->sessions[session]) == 0)); i++) {
		session = rng_one_in(r, 2) ? 0 : rng_between(r, w->setup.n_models, REF_SESSIONS - 1);
		if (large)
			session = rng_between(r, 1, w->setup.n_models - 1);
	}
	return (uint8_t)session;
}

/* One of the sessions; mostly one that can do something. */
static uint8_t draw_session(struct rng *r, const struct world *w)
{
	uint8_t session;

	do
		session = (uint8_t)rng_between(r, 0, rng_one_in(r, 8) ? REF_SESSIONS - 1 : 1);
	while (starved(&w->sessions[session]) && !rng_one_in(r, 20));
	return session;
}

/* The model with which the session attaches. */
static int64_t draw_attach(struct rng *r, const struct mood *mood, const struct world *w, uint32_t session)
{
	if (mood->scene)
		return session < w->setup.n_models ? session : 0;
	return rng_between(r, 0, w->setup.n_models - 1);
}

void generate_command(struct rng *r, const struct mood *mood, struct world *w, int32_t label, struct command *c)
{
	struct mood now = *mood;
	const struct ref_session *s;

	memset(c, 0, sizeof *c);
	c->session = mood->scene ? draw_act(r, w, label, &now) : draw_session(r, w);
	mood = &now;
	c->request = label;
	s = &w->sessions[c->session];
	if (rng_one_in(r, 1000)) {
		c->op = OP_MODEL;
		c->value = rng_between(r, 0, 99);
	} else if (rng_one_in(r, mood->limit)) {
		draw_limit(r, w, c);
	} else if (rng_one_in(r, w->pool.n_waits ? 20 : 1000)) {
		c->op = OP_PASS;
		c->value = rng_between(r, 0, rng_one_in(r, 3) ? 200 : 30);
	} else if (w->pool.n_waits && rng_one_in(r, 60)) {
		const struct ref_wait *o = &w->pool.waits[rng_between(r, 0, w->pool.n_waits - 1)];

		c->op = OP_WITHDRAW;
		c->session = (uint8_t)(rng_one_in(r, 8) ? c->session : o->session - w->sessions);
		c->value = (int64_t)o->ticket;
	} else if (rng_one_in(r, 200)) {
		c->op = OP_TRIM;
		c->value = rng_between(r, 0, rng_one_in(r, 2) ? 3 : REF_EXTENTS);
	} else if (!s->attached) {
		c->op = OP_ATTACH;
		c->value = draw_attach(r, mood, w, c->session);
	} else if (!s->ended && !mood->scene && starved(s) && rng_one_in(r, 2)) {
		/* make room for a session of another model */
		c->op = OP_RECLAIM;
	} else if (s->ended ? rng_one_in(r, 12) : rng_one_in(r, 8 * mood->death)) {
		c->op = OP_RECLAIM;
	} else if (rng_one_in(r, mood->death)) {
		c->op = OP_END;
	} else if (rng_one_in(r, 60)) {
		c->op = OP_QUERY;
		c->request = rng_one_in(r, 3) || !ref_live(s) ? draw_label(r, w, label)
							      : label_of(w, c->session, draw_live(r, s));
		c->list[0] = (int32_t)rng_between(r, rng_one_in(r, 8) ? -1 : 0, rng_one_in(r, 3) ? s->max_batch : 0);
		c->list[1] = (int32_t)rng_between(r, 0, 2);
		c->list[2] = (int32_t)rng_between(r, 0, rng_one_in(r, 10) ? s->n_groups : s->n_groups - 1);
	} else if (mood->moves && rng_one_in(r, mood->moves)) {
		draw_moving(r, w, label, c);
	} else if (mood->manage && rng_one_in(r, mood->manage)) {
		draw_managed(r, mood, w, c);
	} else {
		draw_command(r, mood, w, label, c);
		if (rng_one_in(r, mood->wrong))
			spoil(r, w, label, c);
	}
}
