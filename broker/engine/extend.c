/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extend.c - steps of several tokens, or of tokens that differ (end of spec section 3)
 *
 * `retained`: only the final window is bound, so a long chunk skips pages, and
 * all of it stays. `mapped`: the whole chunk is bound, nothing leaves before the
 * complete, and a part of it may be accepted. What a step lacks beyond the
 * model's max_advance is taken from the class, and goes back there when every
 * value that the request was given has been reached.
 */
#include "extend.h"

#include "admission.h"
#include "agenda.h"
#include "delivery.h"
#include "moves.h"
#include "shared_point.h"
#include "slice.h"
#include "transition.h"

static int32_t count_of(const struct counts *c, uint32_t i)
{
	return c->of ? c->of[i] : c->each;
}

static int check_tokens(const struct session *s, const struct request *r, const struct counts *tokens, struct fault *f)
{
	for (uint32_t i = 0; i < r->n_seqs; i++)
		if (count_of(tokens, i) < 1 || count_of(tokens, i) > s->model.max_seq)
			return fault_set(f, FAULT_STEP_TOKENS, tokens->of ? (int32_t)i : -1, count_of(tokens, i),
					 s->model.max_seq);
	return 0;
}

/* True when pages for a step of @tokens are reserved: then only open completion points can stand in its way. */
static bool is_reserved_for(const struct session *s, int32_t tokens)
{
	if (s->model.max_advance == 0)
		return tokens == 1 || !s->model.chunk_mapped;
	return tokens <= s->model.max_advance;
}

/* What stands in the way of one sequence in one group; *@lacking grows by what it must take from the class. */
static int extend_fault(const struct session *s, const struct group *g, const struct seq *q, int64_t e, int32_t tokens,
			int64_t *lacking)
{
	const struct span *p = seq_span(g, q);
	struct mapped m = seq_mapped_at(s, g, q, e);
	int32_t lack = m.hi - m.resume - p->n_reserved;

	if (lack <= 0)
		return 0;
	if (is_reserved_for(s, tokens) || lack <= p->n_staged)
		return SWAKV_EPENDING;
	if (m.gap - m.lo + m.hi - m.resume > page_class_most(g->class))
		return SWAKV_ENEVER;
	*lacking += lack;
	return 0;
}

/* The worst that stands in the way of sequence @i, in the order of errors. */
static int sequence_fault(const struct session *s, const struct request *r, uint32_t i, int32_t tokens,
			  int64_t *lacking)
{
	const struct seq *q = request_seq(s, r, i);
	int64_t e = seq_endpoint(r, q) + tokens;
	int worst = 0;

	if (e > r->capacity)
		return SWAKV_ELIMIT;
	FOR_EACH_GROUP (g, s) {
		int code = extend_fault(s, g, q, e, tokens, &lacking[g->index]);

		if (code && (!worst || code > worst))
			worst = code;
	}
	return worst;
}

/* The sentence for sequence @i, which cannot advance for @code. */
static int tell_fault(struct session *s, struct request *r, uint32_t i, int32_t tokens, int code, struct fault *f)
{
	const struct seq *q = request_seq(s, r, i);

	if (code == SWAKV_ELIMIT)
		return fault_set(f, FAULT_CAPACITY, (int32_t)i, seq_endpoint(r, q), r->capacity);
	FOR_EACH_GROUP (g, s) {
		struct mapped m = seq_mapped_at(s, g, q, seq_endpoint(r, q) + tokens);
		int64_t unused = 0;

		if (extend_fault(s, g, q, seq_endpoint(r, q) + tokens, tokens, &unused) != code)
			continue;
		if (code == SWAKV_EPENDING)
			return fault_in_flight(f,
					       fault_set(f, FAULT_PAGES_PENDING, (int32_t)i, seq_span(g, q)->n_reserved,
							 m.hi - m.resume),
					       request_open_points(s, r), s->model.in_flight);
		return fault_set(f, FAULT_STEP_NEVER, (int32_t)i, m.gap - m.lo + m.hi - m.resume,
				 page_class_most(g->class));
	}
	return code;
}

/* Room for all of the step: 0 with the pages that it lacks free in their classes, or why not. */
static int check_extend(struct session *s, struct request *r, const struct counts *tokens, struct fault *f)
{
	int64_t lacking[WIRE_MAX_GROUPS] = { 0 }, total = 0;
	int32_t left = slice_part(s, INT32_MAX);
	uint32_t at = 0;
	int worst = 0, code;

	for (uint32_t i = 0; i < r->n_seqs; i++) {
		code = sequence_fault(s, r, i, count_of(tokens, i), lacking);
		if (code && (!worst || code > worst)) {
			worst = code;
			at = i;
		}
		slice_step(s, &left, (int32_t)s->n_groups);
	}
	slice_rest(s, left);
	for (uint32_t g = 0; g < s->n_groups; g++)
		total += lacking[g];
	/* Pages that are not there come before a limit. */
	if ((worst == 0 || worst == SWAKV_ELIMIT) && total > 0 &&
	    (code = session_provide(s, lacking, NULL, CLAIMS_NONE, f))) {
		if (code == SWAKV_ENOPAGES)
			press_refused(s, lacking);
		if (f && f->reason == FAULT_NO_PAGES)
			f->reason = FAULT_STEP_NO_PAGES;
		return code;
	}
	if (worst == 0) {
		group_promise(s, lacking);
		if (total > 0)
			press_given(s);
		return 0;
	}
	if (worst == SWAKV_ELIMIT) {
		r->phase = PHASE_FINISHING;
		s->change++;
	}
	return tell_fault(s, r, at, count_of(tokens, at), worst, f);
}

int extend_prepare(struct session *s, struct request *r, const struct counts *tokens, struct delivery *d,
		   struct fault *f)
{
	int code;

	if ((code = check_tokens(s, r, tokens, f)) || (code = check_extend(s, r, tokens, f)))
		return code;
	for (uint32_t i = 0; i < r->n_seqs; i++) {
		struct seq *q = request_seq(s, r, i);

		q->advance = count_of(tokens, i);
		FOR_EACH_GROUP (g, s) {
			struct mapped m = seq_mapped_at(s, g, q, seq_endpoint(r, q) + q->advance);

			if (m.resume < m.hi)
				seq_bind(s, g, r, q, m.resume, m.hi, d);
		}
	}
	transition_begin(s, r, TRANSITION_EXTEND);
	if (moves_are_due(s, r))
		moves_make(s, r, d);
	delivery_collect(s, r, d);
	return 0;
}

/* ---- complete ---------------------------------------------------------------- */

static int32_t pending_tokens(const struct request *r, const struct seq *q)
{
	return r->transition == TRANSITION_STEP ? 1 : q->advance;
}

static int32_t accepted_of(const struct counts *accepted, uint32_t i, int32_t tokens)
{
	return !accepted->of && accepted->each == 0 ? tokens : count_of(accepted, i);
}

static int check_accepted(const struct session *s, const struct request *r, const struct counts *accepted,
			  struct fault *f)
{
	for (uint32_t i = 0; i < r->n_seqs; i++) {
		int32_t tokens = pending_tokens(r, request_seq(s, r, i)), n = accepted_of(accepted, i, tokens);

		if (n < 0 || n > tokens)
			return fault_set(f, FAULT_STEP_ACCEPTED, (int32_t)i, n, tokens);
		if (n < tokens && !s->model.chunk_mapped)
			return fault_set(f, FAULT_STEP_PART, (int32_t)i, n, tokens);
	}
	return 0;
}

int extend_complete(struct session *s, struct request *r, const struct counts *accepted, const struct wire_fence *fence,
		    uint64_t armed, struct fault *f)
{
	struct resolved_fence p;
	struct leaving leaving;
	int code;

	if ((code = check_accepted(s, r, accepted, f)) || (code = fence_resolve(s, r, fence, armed, &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	leaving_init(s, r, p.value, &leaving);
	for (uint32_t i = 0; i < r->n_seqs; i++) {
		struct seq *q = request_seq(s, r, i);
		int32_t n = accepted_of(accepted, i, pending_tokens(r, q));

		seq_settle_back(s, r, q, seq_endpoint(r, q) + n, &leaving);
		s->n_stepped += (uint64_t)n;
	}
	if (moves_were_made(s, r))
		moves_release(s, r, p.value);
	transition_end(s, r);
	agenda_build(s, r);
	fence_note(s, r, &p, &leaving);
	return 0;
}
