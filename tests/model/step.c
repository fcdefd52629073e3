/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - decode, extend and rewind in the reference model: how endpoints move after the prefill */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

/* ---- counts ------------------------------------------------------------------------------- */

/* The counts that entry @i lists by @value (negative: how many), in *counts; moves on to the next entry's. */
static int64_t listed(int32_t value, const int32_t **counts)
{
	int64_t n = value < 0 ? -(int64_t)value : 0;

	*counts += n;
	return n;
}

static bool well_formed(const struct ref_session *s, const struct ref_step *step, bool prepare)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < step->n && step->n <= (uint32_t)s->max_batch; i++) {
		int32_t value = prepare ? step->entries[i].tokens : step->entries[i].accepted;

		n += value < 0 ? -(int64_t)value : 0;
	}
	return step->n >= 1 && step->n <= (uint32_t)s->max_batch && n == step->n_counts;
}

/* ---- prepare ------------------------------------------------------------------------------ */

/* Pages reserved for the sequence suffice for @tokens. */
static bool promised(const struct ref_session *s, int64_t tokens)
{
	if (s->max_advance == 0)
		return tokens == 1 || !s->chunk_mapped;
	return tokens <= s->max_advance;
}

/* What one sequence says to its pending endpoint; what it must take from the classes is added to @need. */
static int advance_code(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q,
			int64_t *need)
{
	int code = SWAKV_OK;

	if (q->pending_endpoint > r->max_tokens)
		return SWAKV_ELIMIT;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		const struct ref_part *t = &q->parts[g];
		int64_t begin, end, lack;

		ref_new_range(s, r, q, g, &begin, &end);
		lack = end - begin - t->n_free;
		if (lack <= 0)
			continue;
		if (promised(s, q->pending_endpoint - q->endpoint) && !r->unordered && t->n_staged == 0)
			ref_complain(s->pool, "slot %d, group %u lacks %lld pages within what was declared", q->slot, g,
				     (long long)lack);
		if (promised(s, q->pending_endpoint - q->endpoint) || lack <= t->n_staged)
			return SWAKV_EPENDING;
		if (ref_in_row(s, q, g) + end - begin > s->groups[g].class->most)
			code = SWAKV_ENEVER;
		need[s->groups[g].class_index] += lack;
	}
	return code;
}

/* Of several codes the first in the order of errors; they fall in that order. */
static int advance_all(struct ref_session *s, const struct ref_request *r, int said)
{
	int64_t need[REF_CLASSES] = { 0 };
	int worst = SWAKV_ELIMIT - 1, code;

	for (int32_t i = 0; i < r->n_seqs; i++) {
		code = advance_code(s, r, &r->seqs[i], need);
		if (code && code > worst)
			worst = code;
	}
	if (worst > SWAKV_ENOPAGES)
		return worst;
	code = ref_admit(s, need, need, true, NULL, said);
	if (code == SWAKV_ENOPAGES)
		ref_note_refused(s);
	for (uint32_t i = 0; i < s->pool->n_classes && code == SWAKV_OK && worst != SWAKV_ELIMIT; i++)
		s->refused_until = need[i] > 0 ? 0 : s->refused_until;
	if (code || worst != SWAKV_ELIMIT)
		return code;
	/* the room that was looked for may have brought extents */
	for (uint32_t i = 0; i < s->pool->n_classes; i++)
		s->pool->classes[i].wanted += need[i];
	return SWAKV_ELIMIT;
}

int ref_prepare_one(struct ref_session *s, const struct wire_step_entry *e, const int32_t *counts, int said,
		    struct ref_request **out)
{
	int code = ref_prepare_check(s, e->request, PHASE_EXECUTING, out);
	struct ref_request *r = *out;

	if (code)
		return code;
	if (e->tokens < 0 && -(int64_t)e->tokens != r->n_seqs)
		return SWAKV_EINVALID;
	for (int32_t i = 0; i < r->n_seqs; i++) {
		int32_t tokens = e->tokens < 0 ? counts[i] : e->tokens;

		if (tokens < 1 || tokens > s->max_seq)
			return SWAKV_EINVALID;
	}
	if (s->spare < REF_PROMISE)
		return SWAKV_EPENDING;
	r->transition = e->tokens == 1 ? TRANSITION_STEP : TRANSITION_EXTEND;
	for (int32_t i = 0; i < r->n_seqs; i++)
		r->seqs[i].pending_endpoint = r->seqs[i].endpoint + (e->tokens < 0 ? counts[i] : e->tokens);
	code = advance_all(s, r, said);
	for (int32_t i = 0; i < r->n_seqs; i++) {
		if (code)
			r->seqs[i].pending_endpoint = -1;
		else if (!said) /* else what it bound cannot be learned, and the codes differ anyway */
			ref_bind_new(s, r, &r->seqs[i]);
	}
	if (code)
		r->transition = TRANSITION_NONE;
	else
		s->spare -= REF_PROMISE;
	if (!code)
		r->stepped = s->pool->stamp;
	if (code == SWAKV_ELIMIT)
		r->phase = PHASE_FINISHING;
	return code;
}

int ref_step_prepare(struct ref_session *s, const struct ref_step *step, int *codes, struct ref_delivery *d)
{
	struct ref_request *moved[REF_REQUESTS];
	const int32_t *next = step->counts;
	uint32_t n_moved = 0;

	if (s->ended)
		return SWAKV_EGONE;
	if (!well_formed(s, step, true))
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < step->n; i++) {
		const int32_t *counts = next;
		struct ref_request *r;

		listed(step->entries[i].tokens, &next);
		codes[i] = ref_prepare_one(s, &step->entries[i], counts, codes[i], &r);
		if (!codes[i])
			moved[n_moved++] = r;
	}
	ref_move(s, moved, n_moved, step->moves);
	ref_deliver(s, moved, n_moved, d);
	return SWAKV_OK;
}

/* ---- complete ----------------------------------------------------------------------------- */

/* How many of the sequence's pending tokens stay; -1: what is said cannot be. */
static int64_t accepted(const struct ref_session *s, const struct ref_seq *q, int32_t value, int32_t count)
{
	int64_t tokens = q->pending_endpoint - q->endpoint, stay = value < 0 ? count : value > 0 ? value : tokens;

	if (stay < 0 || stay > tokens || (stay < tokens && !s->chunk_mapped))
		return -1;
	return stay;
}

int ref_complete_one(struct ref_session *s, const struct wire_step_entry *e, const int32_t *counts,
		     const uint64_t *armed)
{
	struct ref_request *r = ref_find(s, e->request);
	int64_t stay[REF_BATCH];
	struct when w;
	int code = ref_complete_check(s, e->request, TRANSITION_STEP, TRANSITION_EXTEND, &e->fence,
				      r ? armed[r->stream] : 0, &r, &w);

	if (code)
		return code;
	if (e->accepted < 0 && -(int64_t)e->accepted != r->n_seqs)
		return SWAKV_EINVALID;
	for (int32_t i = 0; i < r->n_seqs; i++) {
		stay[i] = accepted(s, &r->seqs[i], e->accepted, e->accepted < 0 ? counts[i] : 0);
		if (stay[i] < 0)
			return SWAKV_EINVALID;
	}
	if (w.failed) {
		ref_end_request(s, r, &w);
		return SWAKV_EPOISONED;
	}
	for (int32_t i = 0; i < r->n_seqs; i++) {
		s->stepped += (uint64_t)stay[i];
		ref_settle(s, r, &r->seqs[i], r->seqs[i].endpoint + stay[i], &w);
	}
	r->transition = TRANSITION_NONE;
	ref_open_point(s, r, &w);
	ref_leave_moved(s, r, &w);
	return SWAKV_OK;
}

int ref_step_complete(struct ref_session *s, const struct ref_step *step, const uint64_t *armed, int *codes)
{
	const int32_t *next = step->counts;

	if (s->ended)
		return SWAKV_EGONE;
	if (!well_formed(s, step, false))
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < step->n; i++) {
		const int32_t *counts = next;

		listed(step->entries[i].accepted, &next);
		codes[i] = ref_complete_one(s, &step->entries[i], counts, armed);
	}
	return SWAKV_OK;
}

/* ---- rewind ------------------------------------------------------------------------------- */

int ref_rewind(struct ref_session *s, uint64_t handle, const int32_t *tokens, uint32_t n)
{
	struct ref_request *r;
	struct when w = { 0 };
	int code = ref_prepare_check(s, handle, PHASE_EXECUTING, &r);

	if (code)
		return code;
	if (n != (uint32_t)r->n_seqs)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++)
		if (tokens[i] < 0 || tokens[i] > r->seqs[i].endpoint)
			return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++)
		if (r->seqs[i].endpoint - tokens[i] < r->seqs[i].highest - s->max_rewind)
			return SWAKV_ELIMIT;
	/* the steps that used those pages have all been completed, but their work may not have ended */
	w.value = r->last_value;
	w.now = w.value <= s->word[r->stream];
	for (uint32_t i = 0; i < n; i++)
		ref_settle(s, r, &r->seqs[i], r->seqs[i].endpoint - tokens[i], &w);
	return SWAKV_OK;
}
