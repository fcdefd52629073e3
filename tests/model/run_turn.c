/* SPDX-License-Identifier: Apache-2.0 */
/* run_turn.c - one message a step, given to the engine and to the model */
#include "world.h"

#include <string.h>

#include <swakv/error.h>

#include "wire_turn.h"

/* The command as it travels, and as the model reads it. */
struct made {
	uint64_t entries[STEP_ENTRIES];
	union wire_turn_detail details[STEP_ENTRIES];
	int32_t counts[STEP_COUNTS + REF_BATCH];
	struct turn turn;
	struct ref_turn_entry read[STEP_ENTRIES];
	struct ref_turn ref;
	struct ref_begin begin;
	bool fenced;
	bool missing;     /* an entry lists more counts than any command has: none of them is there */
	uint32_t n_taken; /* of the command's counts */
};

/* As many counts of the command as an entry lists; NULL: none. */
static const int32_t *list(struct made *m, const struct command *c, int32_t value)
{
	int32_t *out = m->counts + m->turn.n_counts;

	m->missing |= value <= -STEP_COUNTS;
	for (int32_t i = 0; i < -(int64_t)value && value > -STEP_COUNTS; i++, m->n_taken++)
		if (m->turn.n_counts < STEP_COUNTS + REF_BATCH)
			m->counts[m->turn.n_counts++] = m->n_taken < c->n_counts ? c->counts[m->n_taken] : 1;
	return out;
}

static void make_begin(struct made *m, const struct command *c, uint32_t i)
{
	int32_t n = c->new_batch < 0 || c->new_batch > REF_BATCH ? REF_BATCH : c->new_batch;

	m->entries[i] = wire_turn_entry((uint64_t)n, WIRE_TURN_BEGIN);
	m->details[m->turn.n_details++].begin = (struct wire_begin){ .stream = c->stream,
								     .flags = c->flags & 1 ? WIRE_BEGIN_UNORDERED : 0,
								     .max_tokens = c->value,
								     .wait_ms = c->flags & 4 ? 1 : 0 };
	memcpy(m->counts + m->turn.n_counts, c->list, (size_t)n * sizeof(int32_t));
	m->begin = (struct ref_begin){ .stream = c->stream,
				       .n = (uint32_t)n,
				       .max_tokens = c->value,
				       .unordered = c->flags & 1,
				       .slots = m->counts + m->turn.n_counts };
	m->turn.n_counts += (uint32_t)n;
}

/* What all completes say that have no detail. */
static void make_fence(struct made *m, uint32_t what, const struct wire_fence *fence)
{
	if (m->fenced || !(what & WIRE_TURN_COMPLETE))
		return;
	m->fenced = true;
	m->turn.fence = *fence;
}

static void make_entry(struct world *w, struct made *m, const struct command *c, uint32_t i, uint32_t j)
{
	uint32_t what = c->entries[j].what & WIRE_TURN_MASK, plain = what & ~(uint32_t)WIRE_TURN_DETAIL;
	uint64_t handle = wire_turn_handle(handle_of(w, c->entries[j].request)); /* as far as it can be said */
	struct wire_step_entry e = { .request = handle,
				     .tokens = c->entries[j].tokens,
				     .accepted = c->entries[j].accepted,
				     .fence = fence_of(w, c->session, c->entries[j].fence,
						       stream_of(w, c->session, handle)) };
	struct ref_turn_entry *read = &m->read[i];

	*read = (struct ref_turn_entry){ .what = plain, .step = e };
	make_fence(m, what, &e.fence);
	if ((plain & WIRE_TURN_PREPARE && e.tokens != 1) ||
	    (plain & WIRE_TURN_COMPLETE && (e.accepted || memcmp(&e.fence, &m->turn.fence, sizeof e.fence) != 0)))
		what |= WIRE_TURN_DETAIL;
	if (what == WIRE_TURN_DETAIL || what == (WIRE_TURN_FINISH | WIRE_TURN_DETAIL))
		read->what = what; /* a begin that is none, and a finish with a detail: the engine must refuse them */
	m->entries[i] = wire_turn_entry(handle, what);
	if (!(what & WIRE_TURN_DETAIL))
		return;
	m->details[m->turn.n_details].step.fence = e.fence;
	m->details[m->turn.n_details].step.tokens = e.tokens;
	m->details[m->turn.n_details++].step.accepted = e.accepted;
	if (plain & WIRE_TURN_COMPLETE)
		read->accepted = list(m, c, e.accepted);
	if (plain & WIRE_TURN_PREPARE)
		read->tokens = list(m, c, e.tokens);
}

/*
 * While somebody waits the engine looks at its claims in the middle of begins and of
 * steps that take pages, and the model can follow only what has been told it: so the
 * turn has none of these then.
 */
static void make(struct world *w, const struct command *c, struct made *m)
{
	bool quiet = w->pool.n_waits > 0, begins = false;
	uint32_t n = 0;

	memset(m, 0, sizeof *m);
	for (uint32_t j = 0; j < c->n && j < STEP_ENTRIES; j++) {
		bool begin = c->entries[j].what == WIRE_TURN_BEGIN;

		if (begin ? begins || quiet : quiet && c->entries[j].tokens != 1)
			continue;
		begins |= begin;
		if (begin) {
			make_begin(m, c, n);
			m->read[n++] = (struct ref_turn_entry){ .what = REF_BEGIN };
		} else {
			make_entry(w, m, c, n, j);
			n++;
		}
	}
	m->ref = (struct ref_turn){ .entries = m->read,
				    .n = n,
				    .well_formed = m->n_taken == c->n_counts && !m->missing };
	m->turn.entries = m->entries;
	m->turn.details = m->details;
	m->turn.counts = m->counts;
	m->turn.n = n;
	m->turn.closed = c->flags & 2 ? FAULT_DRAINED : FAULT_NONE;
	if (m->n_taken != c->n_counts)
		m->turn.n_counts += m->n_taken < c->n_counts ? 1 : UINT32_MAX;
	m->turn.n_details += c->flags & 8 ? 1 : 0;
	m->ref.well_formed &= !(c->flags & 8);
}

/* The engine's answers by entry. */
struct answers {
	int completed[STEP_ENTRIES], result[STEP_ENTRIES];
	const struct fault *fault[STEP_ENTRIES];
};

static void read_faults(struct world *w, const struct made *m, const struct turn_answer *a, struct answers *out)
{
	*out = (struct answers){ 0 };
	for (uint32_t i = 0; i < a->n_faults; i++) {
		const struct wire_entry_fault *f = &a->faults[i];
		uint32_t what = f->entry < m->turn.n ? m->read[f->entry].what : 0;

		if (!what || out->fault[f->entry] || f->fault.code >= 0 || f->skipped > 0) {
			ref_complain(&w->pool, "step_turn: fault %u is of entry %u, code %d, skipped %d", i, f->entry,
				     f->fault.code, f->skipped);
			return;
		}
		out->fault[f->entry] = &f->fault;
		if (f->skipped || what == REF_COMPLETE) {
			out->completed[f->entry] = f->fault.code;
			out->result[f->entry] = f->skipped;
		} else {
			out->result[f->entry] = f->fault.code;
		}
	}
}

/* Returns the code that the model gives. */
static int run_begin_in(struct world *w, const struct command *c, const struct made *m, uint32_t i, int said,
			const struct turn_answer *a)
{
	struct ref_session *s = &w->sessions[c->session];
	struct ref_request *r = NULL;
	int want;

	if (m->turn.closed)
		return SWAKV_EDENIED;
	if (!s->poisoned && c->flags & 4)
		return SWAKV_EINVALID;
	want = ref_begin(s, &m->begin, said, &r);
	w->labels[c->request % WORLD_COMMANDS] = (struct label){ .session = c->session };
	if (!r)
		return want;
	s->spare--;
	if (a->n_begun != 1 || a->begun[0].entry != i || a->begun[0].reserved)
		ref_complain(&w->pool, "step_turn: %u begins were granted, it should be the one in entry %u",
			     a->n_begun, i);
	else
		admitted(w, c->session, c->request, r, a->begun[0].handle);
	return want;
}

static void compare_answers(struct world *w, const struct made *m, const struct answers *got,
			    const struct answers *want)
{
	int first = SWAKV_OK;

	for (uint32_t i = 0; i < m->turn.n && !w->pool.error[0]; i++) {
		bool both = want->completed[i] && want->result[i];

		compare_code(w, "step_turn, a complete", got->completed[i], want->completed[i], got->fault[i]);
		first = first ? first : w->code;
		if (both && got->result[i] != want->result[i])
			ref_complain(&w->pool, "step_turn, what is skipped: the engine answers %s, it should be %s",
				     swakv_error_name(got->result[i]), swakv_error_name(want->result[i]));
		else if (!both)
			compare_code(w, "step_turn, a finish, begin or prepare", got->result[i], want->result[i],
				     got->fault[i]);
		first = first ? first : w->code;
	}
	w->code = first;
}

/* Points that could be promised now, as the model has counted along. */
static void compare_spare(struct world *w, uint32_t session)
{
	struct ref_session *s = &w->sessions[session];
	int64_t mine = s->spare;

	count_spare(w, session);
	if (!s->poisoned && s->spare != mine)
		ref_complain(&w->pool, "step_turn: %lld completion points are left, it should be %lld",
			     (long long)s->spare, (long long)mine);
}

void run_turn(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	const uint64_t *armed = w->sides[c->session].armed;
	struct wire_entry_fault faults[STEP_ENTRIES];
	struct wire_begun begun[STEP_ENTRIES];
	struct turn_answer a = { .faults = faults, .begun = begun, .n_faults = 99, .n_begun = 99 };
	struct delivery d = delivery_of(w);
	struct answers got, want;
	struct moves_seen moves;
	struct made m;
	struct fault f;
	int code;

	make(w, c, &m);
	moves_before(w, c->session, &moves);
	code = step_turn(w->sides[c->session].session, &m.turn, armed, &a, &d, &f);
	compare_code(w, "step_turn", code, ref_turn_check(s, &m.ref), &f);
	if (code || w->pool.error[0])
		return;
	read_faults(w, &m, &a, &got);
	want = got; /* where the engine is heard */
	m.ref.moves = moves_after(w, &moves, &d);
	ref_turn_ends(s, &m.ref, armed, want.completed, want.result);
	compare_extents(w, s, 0);
	for (uint32_t i = 0; i < m.turn.n && !w->pool.error[0]; i++)
		if (m.read[i].what == REF_BEGIN)
			want.result[i] = run_begin_in(w, c, &m, i, got.result[i], &a);
	ref_turn_prepares(s, &m.ref, want.completed, want.result, &w->expected);
	compare_answers(w, &m, &got, &want);
	if (!w->pool.error[0])
		compare_delivery(w, c->session, &d);
	if (!w->pool.error[0])
		compare_spare(w, c->session);
	w->n_turns += m.turn.n;
}
