/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - see turn.h
 *
 * Four walks over the entries, one for each kind of part, in an order that lets
 * what ends make room for what begins: a complete gives its request's points and
 * pages back before anybody's prepare wants some, a finish its slots before a begin.
 * What the parts do is theirs; here they are only told apart.
 */
#include "turn.h"

#include "begin.h"
#include "decode.h"
#include "delivery.h"
#include "fence.h"
#include "internal.h"
#include "quarantine.h"
#include "shared_point.h"
#include "slice.h"
#include "transition.h"

/* ---- the entries, one after the other -------------------------------------------- */

/* An entry, and what it lists. */
struct part {
	uint32_t what;
	uint64_t handle; /* a begin's slots */
	const union wire_turn_detail *detail;
	const int32_t *accepted, *tokens; /* a begin's slots are its tokens */
};

/* Where the next entry finds its own. */
struct reader {
	uint32_t detail, count;
	int32_t left; /* of a slice */
};

static const int32_t *take_counts(const struct turn *t, struct reader *at, uint32_t n)
{
	const int32_t *counts = at->count < t->n_counts ? t->counts + at->count : NULL;

	at->count += n;
	return counts;
}

static void read_part(const struct turn *t, struct reader *at, uint32_t i, struct part *p)
{
	*p = (struct part){ .what = wire_turn_what(t->entries[i]), .handle = wire_turn_handle(t->entries[i]) };
	if (!(p->what & WIRE_TURN_DETAIL))
		return;
	p->detail = &t->details[at->detail++];
	if (p->what == WIRE_TURN_BEGIN) {
		p->tokens = take_counts(t, at, (uint32_t)p->handle);
		return;
	}
	if (p->what & WIRE_TURN_COMPLETE)
		p->accepted = take_counts(t, at, step_listed(p->detail->step.accepted));
	if (p->what & WIRE_TURN_PREPARE)
		p->tokens = take_counts(t, at, step_listed(p->detail->step.tokens));
}

static struct reader reader_init(const struct session *s)
{
	return (struct reader){ .left = slice_part(s, INT32_MAX) };
}

static struct wire_step_entry step_entry(const struct turn *t, const struct part *p)
{
	if (p->detail)
		return (struct wire_step_entry){ .request = p->handle,
						 .tokens = p->detail->step.tokens,
						 .accepted = p->detail->step.accepted,
						 .fence = p->detail->step.fence };
	return (struct wire_step_entry){ .request = p->handle, .tokens = 1, .fence = t->fence };
}

/* What all entries of nearly every turn ask for. */
#define STEP_ON (WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE)

/* ---- what is wrong with all of it ---------------------------------------------------- */

/* An entry may ask for this; bit after bit. */
static bool is_possible(uint64_t entry)
{
	const uint32_t known = 1u << WIRE_TURN_COMPLETE | 1u << WIRE_TURN_PREPARE |
			       1u << (WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE) | 1u << WIRE_TURN_FINISH |
			       1u << (WIRE_TURN_COMPLETE | WIRE_TURN_FINISH);
	uint32_t what = wire_turn_what(entry);

	if (what == WIRE_TURN_BEGIN)
		return wire_turn_handle(entry) <= UINT32_MAX;
	if (what == (WIRE_TURN_FINISH | WIRE_TURN_DETAIL))
		return false;
	return known >> (what & ~(uint32_t)WIRE_TURN_DETAIL) & 1;
}

/* Counts that an entry with the detail @d lists. */
static uint64_t counts_of(uint64_t entry, const union wire_turn_detail *d)
{
	uint32_t what = wire_turn_what(entry);
	uint64_t n = 0;

	if (what == WIRE_TURN_BEGIN)
		return wire_turn_handle(entry);
	if (what & WIRE_TURN_COMPLETE)
		n += step_listed(d->step.accepted);
	if (what & WIRE_TURN_PREPARE)
		n += step_listed(d->step.tokens);
	return n;
}

/* What the entries have been found to list so far. */
struct listed {
	uint64_t n_counts;
	uint32_t n_details;
};

static int check_what(const struct turn *t, uint32_t i, struct listed *l, struct fault *f)
{
	uint64_t entry = t->entries[i];
	uint32_t what = wire_turn_what(entry);

	if (!is_possible(entry))
		return fault_set(f, FAULT_TURN_WHAT, -1, i, what);
	if (!(what & WIRE_TURN_DETAIL))
		return 0;
	if (l->n_details < t->n_details)
		l->n_counts += counts_of(entry, &t->details[l->n_details]);
	l->n_details++;
	return 0;
}

/* An entry that is not like nearly all, of @r if that lives; @turn: the number of this one (struct request). */
static __attribute__((noinline)) int check_entry(const struct turn *t, uint32_t i, uint64_t turn, struct request *r,
						 struct listed *l, struct fault *f)
{
	int code = check_what(t, i, l, f);

	if (code || !r || wire_turn_what(t->entries[i]) == WIRE_TURN_BEGIN)
		return code;
	if (r->turn >= turn)
		return fault_set(f, FAULT_TURN_TWICE, -1, (int64_t)(r->turn - turn), i);
	r->turn = turn + i;
	return 0;
}

/* One more step inside a page is only counted. True when @r is in such a one, and its next will be, too. */
static inline bool only_counts(const struct request *r)
{
	return r->transition == TRANSITION_STEP && r->phase == PHASE_EXECUTING && r->steps + 2 < r->due &&
	       r->dirty.first < 0;
}

/*
 * *@alike: each ends a step as all do, and begins one of one token; then the scratch
 * has the place of each request that does no more than count, and -1 for the others.
 * Each request remembers in which entry of which turn it was named: so two of one are
 * found.
 */
static __attribute__((noinline)) int check_entries(struct session *s, const struct turn *t, bool *alike,
						   struct fault *f)
{
	const struct request_finder finder = request_finder(s);
	const uint64_t *entries = t->entries, turn = ++s->n_turns * WIRE_MAX_BATCH;
	int32_t *scratch = s->turn_scratch;
	struct listed listed = { 0 };

	*alike = true;
	for (uint32_t i = 0, n = t->n; i < n; i++) {
		struct request *r = request_live(finder, wire_turn_handle(entries[i]));
		bool is_alike = wire_turn_what(entries[i]) == STEP_ON;
		int code;

		if (is_alike && r && r->turn < turn) {
			r->turn = turn + i;
			scratch[i] = only_counts(r) ? (int32_t)(r - finder.requests) : -1;
			continue;
		}
		*alike &= is_alike;
		scratch[i] = -1;
		if ((code = check_entry(t, i, turn, r, &listed, f)))
			return code;
	}
	if (listed.n_details != t->n_details)
		return fault_set(f, FAULT_TURN_DETAILS, -1, t->n_details, listed.n_details);
	if (listed.n_counts != t->n_counts)
		return fault_set(f, FAULT_STEP_COUNTS, -1, t->n_counts, (int64_t)listed.n_counts);
	return 0;
}

static int check_turn(struct session *s, const struct turn *t, bool *alike, struct fault *f)
{
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (t->n < 1 || t->n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_STEP_COUNT, -1, t->n, s->model.max_batch);
	return check_entries(s, t, alike, f);
}

/* ---- the four walks -------------------------------------------------------------------- */

static void refused(struct session *s, struct turn_answer *a, uint32_t i, const struct fault *f)
{
	a->faults[a->n_faults++] = (struct wire_entry_fault){ .entry = i, .fault = *f };
	slice_spend(s, 1); /* perhaps it has looked for pages that are not there */
}

static void complete_all(struct session *s, const struct turn *t, const uint64_t *armed, struct turn_answer *a)
{
	struct reader at = reader_init(s);

	for (uint32_t i = 0; i < t->n; i++) {
		struct wire_step_entry e;
		struct fault f;
		struct part p;

		read_part(t, &at, i, &p);
		slice_step(s, &at.left, 1);
		if (!(p.what & WIRE_TURN_COMPLETE))
			continue;
		e = step_entry(t, &p);
		if (step_entry_complete(s, &e, p.accepted, armed, &f))
			refused(s, a, i, &f);
	}
	slice_rest(s, at.left);
}

/* The faults of completes come first, in order: those from *@k on are of entries from @i on. Its own, or NULL. */
static struct wire_entry_fault *complete_fault(struct turn_answer *a, uint32_t n_completes, uint32_t *k, uint32_t i)
{
	if (*k == n_completes || a->faults[*k].entry != i)
		return NULL;
	return &a->faults[(*k)++];
}

static void finish_all(struct session *s, const struct turn *t, const uint64_t *armed, uint32_t n_completes,
		       struct turn_answer *a)
{
	const struct wire_fence point = { .kind = WIRE_FENCE_POINT };
	uint32_t k = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		struct wire_entry_fault *before = complete_fault(a, n_completes, &k, i);
		uint64_t handle = wire_turn_handle(t->entries[i]);
		int stream;
		struct fault f;

		if (!(wire_turn_what(t->entries[i]) & WIRE_TURN_FINISH))
			continue;
		if (before) {
			before->skipped = SWAKV_EPHASE;
			continue;
		}
		stream = request_stream(s, handle);
		if (request_finish(s, handle, &point, stream < 0 ? 0 : armed[stream], &f))
			refused(s, a, i, &f);
	}
}

static int begin_one(struct session *s, const struct turn *t, const struct part *p, uint64_t *handle, struct fault *f)
{
	const struct wire_begin *begin = &p->detail->begin;
	const struct begin b = {
		.stream = begin->stream,
		.n_slots = (uint32_t)p->handle,
		.max_tokens = begin->max_tokens,
		.slots = p->tokens,
		.unordered = begin->flags & WIRE_BEGIN_UNORDERED,
		.pinned = begin->flags & WIRE_BEGIN_PINNED,
	};

	if (t->closed)
		return fault_set(f, t->closed, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	if ((begin->flags & ~(uint32_t)WIRE_BEGIN_FLAGS) || begin->reserved)
		return fault_set(f, FAULT_RESERVED, -1, begin->reserved ? begin->reserved : begin->flags, 0);
	if (begin->wait_ms)
		return fault_set(f, FAULT_TURN_WAIT, -1, begin->wait_ms, 0);
	return request_begin_waiting(s, &b, handle, f);
}

static void begin_all(struct session *s, const struct turn *t, struct turn_answer *a)
{
	struct reader at = reader_init(s);

	for (uint32_t i = 0; i < t->n; i++) {
		uint64_t handle;
		struct fault f;
		struct part p;

		read_part(t, &at, i, &p);
		if (p.what != WIRE_TURN_BEGIN)
			continue;
		if (begin_one(s, t, &p, &handle, &f))
			refused(s, a, i, &f);
		else
			a->begun[a->n_begun++] = (struct wire_begun){ .handle = handle, .entry = i };
	}
}

static void prepare_all(struct session *s, const struct turn *t, uint32_t n_completes, struct turn_answer *a,
			struct delivery *d)
{
	struct reader at = reader_init(s);
	uint32_t k = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		struct wire_entry_fault *before = complete_fault(a, n_completes, &k, i);
		struct wire_step_entry e;
		struct fault f;
		struct part p;

		read_part(t, &at, i, &p);
		slice_step(s, &at.left, 1);
		if (!(p.what & WIRE_TURN_PREPARE))
			continue;
		if (before) {
			before->skipped = s->poisoned ? SWAKV_EPOISONED : SWAKV_EPHASE;
			continue;
		}
		e = step_entry(t, &p);
		if (step_entry_prepare(s, &e, p.tokens, d, &f))
			refused(s, a, i, &f);
	}
	slice_rest(s, at.left);
}

/* ---- one walk, where it comes to the same ------------------------------------------------- */

/*
 * When all entries are alike, no part of one can tell whether the others' have been
 * done: steps of one token use their own pages only, and points are there for all.
 */
static bool is_one_walk(const struct session *s, const struct turn *t)
{
	return (t->fence.kind == WIRE_FENCE_DONE || t->fence.kind == WIRE_FENCE_LINE) && points_spare(s) >= t->n &&
	       points_spare(s) <= s->max_points && !s->poisoned;
}

/* Rows without an owner go with the next prepare on their stream. */
static bool has_strays(const struct session *s)
{
	for (uint32_t i = 0; i < s->model.n_streams; i++)
		if (s->lines[i].stray.first >= 0)
			return true;
	return false;
}

/* What the fence of all says of a line, of which it may be. */
static bool is_proof(const struct session *s, const struct turn *t, const uint64_t *armed, struct resolved_fence *p)
{
	*p = (struct resolved_fence){ .reached = true };
	if (t->fence.kind == WIRE_FENCE_DONE)
		return true;
	if (t->fence.line >= s->model.n_streams || t->fence.value > armed[t->fence.line])
		return false;
	p->value = t->fence.value;
	p->reached = p->value <= s->lines[t->fence.line].reached;
	return true;
}

/* Entry @i, which is not only counted. */
static __attribute__((noinline)) void step_on_one(struct session *s, const struct turn *t, uint32_t i,
						  const uint64_t *armed, struct turn_answer *a, struct delivery *d)
{
	const struct wire_step_entry e = { .request = wire_turn_handle(t->entries[i]), .tokens = 1, .fence = t->fence };
	struct fault f;

	if (step_entry_complete(s, &e, NULL, armed, &f)) {
		refused(s, a, i, &f);
		a->faults[a->n_faults - 1].skipped = SWAKV_EPHASE;
	} else if (step_entry_prepare(s, &e, NULL, d, &f)) {
		refused(s, a, i, &f);
	}
}

/* The step of @r that is done has ended with a mark higher than all it had. @shared: where it waits; NULL: not there.
 */
static inline void note_mark(struct session *s, struct request *r, const struct resolved_fence *proof,
			     struct point *shared)
{
	if (!shared) {
		fence_note(s, r, proof, NULL);
		return;
	}
	shared_point_add(s, r, shared);
	r->last_value = proof->value;
}

/* The requests that the scratch names only count; the others may do more. */
static void step_on(struct session *s, const struct turn *t, const uint64_t *armed, struct turn_answer *a,
		    struct delivery *d)
{
	struct resolved_fence proof;
	/* no page may move, or has */
	bool plain = is_proof(s, t, armed, &proof) && !s->moved && !has_strays(s);
	int64_t line = t->fence.kind == WIRE_FENCE_LINE ? (int64_t)t->fence.line : -1; /* -1: of any */
	struct point *shared = plain && !proof.reached ? shared_point_open(s, t->fence.line, proof.value) : NULL;
	struct request *requests = s->requests;
	const int32_t *scratch = s->turn_scratch;

	for (uint32_t i = 0, end; i < t->n; i = end) {
		end = i + (uint32_t)slice_part(s, (int32_t)(t->n - i));
		slice_spend(s, (int32_t)(end - i));
		for (; i < end; i++) {
			struct request *r = scratch[i] < 0 ? NULL : &requests[scratch[i]];

			if (!plain || !r || (line >= 0 && r->stream != line)) {
				step_on_one(s, t, i, armed, a, d);
				if (shared) /* perhaps the last that waited there has left it */
					shared = shared_point_open(s, t->fence.line, proof.value);
				continue;
			}
			r->steps++;
			if (proof.value > r->last_value)
				note_mark(s, r, &proof, shared);
			else if (!proof.reached)
				fence_note(s, r, &proof, NULL);
		}
	}
	if (shared)
		shared_point_settle(s, shared);
	s->change++;
}

static __attribute__((noinline)) void step_in_parts(struct session *s, const struct turn *t, const uint64_t *armed,
						    struct turn_answer *a, struct delivery *d)
{
	uint32_t n_completes;

	complete_all(s, t, armed, a);
	n_completes = a->n_faults;
	finish_all(s, t, armed, n_completes, a);
	begin_all(s, t, a);
	prepare_all(s, t, n_completes, a, d);
}

int step_turn(struct session *s, const struct turn *turn, const uint64_t *armed, struct turn_answer *answer,
	      struct delivery *d, struct fault *f)
{
	bool alike = false;
	int code;

	delivery_reset(d);
	answer->n_faults = 0;
	answer->n_begun = 0;
	if ((code = check_turn(s, turn, &alike, f)))
		return code;
	if (alike && is_one_walk(s, turn)) {
		step_on(s, turn, armed, answer, d);
		return 0;
	}
	step_in_parts(s, turn, armed, answer, d);
	return 0;
}
