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
#include "internal.h"
#include "quarantine.h"
#include "slice.h"

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

/* Two entries of one request; each request remembers which entry of which turn named it. */
static int check_twice(struct session *s, const struct turn *t, uint32_t i, struct fault *f)
{
	struct request *r;

	if (wire_turn_what(t->entries[i]) == WIRE_TURN_BEGIN ||
	    request_find(s, wire_turn_handle(t->entries[i]), &r, NULL) != 0)
		return 0;
	if (r->turn == s->n_turns)
		return fault_set(f, FAULT_TURN_TWICE, -1, r->turn_entry, i);
	r->turn = s->n_turns;
	r->turn_entry = i;
	return 0;
}

static int check_turn(struct session *s, const struct turn *t, struct fault *f)
{
	uint32_t n_details = 0;
	uint64_t n_counts = 0;
	int code;

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (t->n < 1 || t->n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_STEP_COUNT, -1, t->n, s->model.max_batch);
	s->n_turns++;
	for (uint32_t i = 0; i < t->n; i++) {
		uint64_t entry = t->entries[i];

		if (!is_possible(entry))
			return fault_set(f, FAULT_TURN_WHAT, -1, i, wire_turn_what(entry));
		if (wire_turn_what(entry) & WIRE_TURN_DETAIL) {
			if (n_details < t->n_details)
				n_counts += counts_of(entry, &t->details[n_details]);
			n_details++;
		}
		if ((code = check_twice(s, t, i, f)))
			return code;
	}
	if (n_details != t->n_details)
		return fault_set(f, FAULT_TURN_DETAILS, -1, t->n_details, n_details);
	if (n_counts != t->n_counts)
		return fault_set(f, FAULT_STEP_COUNTS, -1, t->n_counts, (int64_t)n_counts);
	return 0;
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
	};

	if (t->drained)
		return fault_set(f, FAULT_DRAINED, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	if ((begin->flags & ~(uint32_t)WIRE_BEGIN_UNORDERED) || begin->reserved)
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

int step_turn(struct session *s, const struct turn *turn, const uint64_t *armed, struct turn_answer *answer,
	      struct delivery *d, struct fault *f)
{
	uint32_t n_completes;
	int code;

	delivery_reset(d);
	answer->n_faults = 0;
	answer->n_begun = 0;
	if ((code = check_turn(s, turn, f)))
		return code;
	complete_all(s, turn, armed, answer);
	n_completes = answer->n_faults;
	finish_all(s, turn, armed, n_completes, answer);
	begin_all(s, turn, answer);
	prepare_all(s, turn, n_completes, answer, d);
	return 0;
}
