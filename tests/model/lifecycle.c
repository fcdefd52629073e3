/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.c - the calls of spec section 3 in the reference model; model.c says how open questions are read */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

/* ---- begin ---------------------------------------------------------------------------- */

static int begin_slots(const struct ref_session *s, uint32_t stream, const int32_t *slots, uint32_t n)
{
	int code = SWAKV_OK;

	for (uint32_t i = 0; i < n; i++) {
		if (slots[i] < 0 || slots[i] >= s->max_batch)
			return SWAKV_EINVALID;
		for (uint32_t j = 0; j < i; j++)
			if (slots[i] == slots[j])
				return SWAKV_EINVALID;
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct ref_slot *l = &s->slots[slots[i]];

		if (l->owner >= 0)
			return SWAKV_EBUSY;
		if (l->stream != stream && l->blocked > s->word[l->stream])
			code = SWAKV_EPENDING;
	}
	return code;
}

static int32_t reservation(const struct ref_session *s, int64_t max_tokens)
{
	int64_t most = ref_retained_end(max_tokens, s->page_tokens);

	return max_tokens > 0 && most < s->private_pages ? (int32_t)most : s->private_pages;
}

static int begin_check(const struct ref_session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots,
		       uint32_t n)
{
	int64_t need = (int64_t)n * reservation(s, max_tokens);
	int code;

	if (s->ended)
		return SWAKV_EGONE;
	if (s->poisoned)
		return SWAKV_EPOISONED;
	if (stream >= s->n_streams || n < 1 || n > (uint32_t)s->max_batch)
		return SWAKV_EINVALID;
	if (max_tokens < 0 || max_tokens > s->max_seq)
		return SWAKV_EINVALID;
	code = begin_slots(s, stream, slots, n);
	if (ref_live(s) == s->max_batch && code != SWAKV_EINVALID)
		code = SWAKV_EBUSY;
	if (code)
		return code;
	if (s->spare < 1)
		return SWAKV_EPENDING;
	if (need > s->class->num_pages)
		return SWAKV_ENEVER;
	return need > ref_available(s->class) ? SWAKV_ENOPAGES : SWAKV_OK;
}

int ref_begin(struct ref_session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots, uint32_t n,
	      struct ref_request **out)
{
	int code = begin_check(s, stream, max_tokens, slots, n);
	struct ref_request *r = NULL;
	int index;

	*out = NULL;
	if (code)
		return code;
	for (index = 0; s->requests[index].live; index++)
		;
	r = &s->requests[index];
	memset(r, 0, sizeof *r);
	r->live = true;
	r->stream = stream;
	r->phase = PHASE_ADMITTED;
	r->max_tokens = max_tokens ? max_tokens : s->max_seq;
	r->reservation = reservation(s, max_tokens);
	r->pending_batch = -1;
	r->n_seqs = (int32_t)n;
	for (uint32_t i = 0; i < n; i++) {
		struct ref_seq *q = &r->seqs[i];

		q->slot = slots[i];
		q->generation = ++s->slots[slots[i]].generation;
		q->pending_endpoint = -1;
		q->pending_map = -2;
		memset(q->row, -1, sizeof q->row);
		s->slots[slots[i]].owner = index;
		s->slots[slots[i]].stream = stream;
	}
	*out = r;
	return SWAKV_OK;
}

void ref_begin_learn(struct ref_session *s, struct ref_request *r, int32_t seq, const int32_t *pages)
{
	struct ref_seq *q = &r->seqs[seq];

	for (int32_t i = 0; i < r->reservation; i++) {
		ref_lease(s, pages[i]);
		if (!s->class->usable[pages[i]])
			ref_complain(s->pool, "page %d was given out, but lies outside the extents of its class",
				     pages[i]);
		/* next first there, next last here */
		q->free[r->reservation - 1 - i] = pages[i];
	}
	q->n_free = r->reservation;
}

/* ---- prepare ---------------------------------------------------------------------------- */

static int prepare_check(struct ref_session *s, uint64_t handle, enum phase phase, struct ref_request **out)
{
	struct ref_request *r;

	*out = NULL;
	if (s->ended)
		return SWAKV_EGONE;
	if (s->poisoned)
		return SWAKV_EPOISONED;
	r = ref_find(s, handle);
	if (!r)
		return SWAKV_EINVALID;
	if (r->transition != TRANSITION_NONE || r->phase != phase)
		return SWAKV_EPHASE;
	*out = r;
	return SWAKV_OK;
}

/* What @s would find in the page is neither its own nor nothing. */
static bool page_is_dirty(const struct ref_session *s, int32_t id)
{
	const struct ref_class *c = s->class;

	if (s->pool->scrub == WIRE_SCRUB_NEVER)
		return false;
	if (c->writer[id] == 0)
		return s->pool->fresh_is_dirty;
	return s->pool->scrub == WIRE_SCRUB_ALWAYS ? !c->written[id] : c->writer[id] != s->name;
}

static void note_bound(struct ref_session *s, int32_t slot, int64_t column, int32_t id)
{
	struct ref_slot *l = &s->slots[slot];

	if (l->bound_end == l->bound_first)
		l->bound_first = (int32_t)column;
	l->bound_end = (int32_t)column + 1;
	if (page_is_dirty(s, id))
		l->dirty = true;
	s->class->writer[id] = s->name;
	s->class->written[id] = true;
}

static void bind_page(struct ref_session *s, struct ref_seq *q, int64_t column)
{
	if (q->n_free == 0 || q->row[column] >= 0) {
		ref_complain(s->pool, "the model cannot bind logical page %lld of slot %d", (long long)column, q->slot);
		return;
	}
	q->row[column] = q->free[--q->n_free];
	note_bound(s, q->slot, column, q->row[column]);
}

int ref_prefill_prepare(struct ref_session *s, uint64_t handle, const int32_t *lengths, uint32_t n,
			struct ref_delivery *d)
{
	struct ref_request *r;
	int code = prepare_check(s, handle, PHASE_ADMITTED, &r);

	if (code)
		return code;
	if (n != (uint32_t)r->n_seqs)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++)
		if (lengths[i] < 1 || lengths[i] > r->max_tokens)
			return SWAKV_EINVALID;
	if (s->spare < REF_PROMISE)
		return SWAKV_EPENDING;
	for (uint32_t i = 0; i < n; i++) {
		struct ref_seq *q = &r->seqs[i];
		int64_t end = ref_retained_end(lengths[i], s->page_tokens);

		for (int64_t c = ref_retained_begin(lengths[i], s->window, s->page_tokens); c < end; c++)
			bind_page(s, q, c);
		q->pending_endpoint = lengths[i];
		q->length = lengths[i];
	}
	r->phase = PHASE_EXECUTING;
	r->transition = TRANSITION_PREFILL;
	ref_deliver(s, &r, 1, d);
	return SWAKV_OK;
}

static int step_prepare_one(struct ref_session *s, const struct wire_step_entry *e, struct ref_request **out)
{
	int code = prepare_check(s, e->request, PHASE_EXECUTING, out);
	struct ref_request *r = *out;
	bool full = false;

	if (code)
		return code;
	if (e->tokens != 1)
		return SWAKV_EINVALID;
	if (s->spare < REF_PROMISE)
		return SWAKV_EPENDING;
	for (int32_t i = 0; i < r->n_seqs; i++) {
		const struct ref_seq *q = &r->seqs[i];

		if (q->endpoint + 1 > r->max_tokens)
			full = true;
		else if (ref_retained_end(q->endpoint + 1, s->page_tokens) >
				 ref_retained_end(q->endpoint, s->page_tokens) &&
			 q->n_free == 0)
			return SWAKV_EPENDING;
	}
	if (full) {
		r->phase = PHASE_FINISHING;
		return SWAKV_ELIMIT;
	}
	for (int32_t i = 0; i < r->n_seqs; i++) {
		struct ref_seq *q = &r->seqs[i];

		q->pending_endpoint = q->endpoint + 1;
		for (int64_t c = ref_retained_end(q->endpoint, s->page_tokens);
		     c < ref_retained_end(q->pending_endpoint, s->page_tokens); c++)
			bind_page(s, q, c);
	}
	r->transition = TRANSITION_STEP;
	s->spare -= REF_PROMISE;
	return SWAKV_OK;
}

int ref_step_prepare(struct ref_session *s, const struct wire_step_entry *e, uint32_t n, int *codes,
		     struct ref_delivery *d)
{
	struct ref_request *moved[REF_REQUESTS];
	uint32_t n_moved = 0;

	if (s->ended)
		return SWAKV_EGONE;
	if (n < 1)
		return SWAKV_EINVALID;
	if (n > (uint32_t)s->max_batch)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++) {
		struct ref_request *r;

		codes[i] = step_prepare_one(s, &e[i], &r);
		if (!codes[i])
			moved[n_moved++] = r;
	}
	ref_deliver(s, moved, n_moved, d);
	return SWAKV_OK;
}

/* ---- complete ----------------------------------------------------------------------------- */

static int complete_check(struct ref_session *s, uint64_t handle, enum transition t, const struct wire_fence *f,
			  uint64_t armed, struct ref_request **out, struct when *w)
{
	struct ref_request *r;

	*out = NULL;
	if (s->ended)
		return SWAKV_EGONE;
	r = ref_find(s, handle);
	if (!r)
		return SWAKV_EINVALID;
	if (r->transition != t)
		return SWAKV_EPHASE;
	*out = r;
	return ref_fence_read(s, r, f, armed, false, w);
}

static void settle(struct ref_session *s, struct ref_seq *q, const struct when *w)
{
	q->endpoint = q->pending_endpoint;
	q->pending_endpoint = -1;
	for (int64_t c = 0; c < ref_settled_begin(s, q); c++) {
		int32_t page = q->row[c];

		if (page < 0)
			continue;
		q->row[c] = -1;
		if (w->now)
			q->free[q->n_free++] = page;
		else
			q->staged[q->n_staged++] = (struct ref_staged){ page, w->value };
	}
}

static int complete_advance(struct ref_session *s, struct ref_request *r, const struct when *w)
{
	if (w->failed) {
		ref_end_request(s, r, w);
		return SWAKV_EPOISONED;
	}
	for (int32_t i = 0; i < r->n_seqs; i++)
		settle(s, &r->seqs[i], w);
	r->transition = TRANSITION_NONE;
	ref_open_point(s, r, w);
	return SWAKV_OK;
}

int ref_prefill_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed)
{
	struct ref_request *r;
	struct when w;
	int code = complete_check(s, handle, TRANSITION_PREFILL, f, armed, &r, &w);

	return code ? code : complete_advance(s, r, &w);
}

int ref_step_complete(struct ref_session *s, const struct wire_step_entry *e, uint32_t n, const uint64_t *armed,
		      int *codes)
{
	if (s->ended)
		return SWAKV_EGONE;
	if (n < 1)
		return SWAKV_EINVALID;
	if (n > (uint32_t)s->max_batch)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++) {
		struct ref_request *r = ref_find(s, e[i].request);
		struct when w;

		codes[i] =
			complete_check(s, e[i].request, TRANSITION_STEP, &e[i].fence, r ? armed[r->stream] : 0, &r, &w);
		if (!codes[i] && (e[i].accepted < 0 || e[i].accepted > 1))
			codes[i] = SWAKV_EINVALID;
		if (!codes[i])
			codes[i] = complete_advance(s, r, &w);
	}
	return SWAKV_OK;
}

/* ---- compaction ---------------------------------------------------------------------------- */

static bool map_valid(const int32_t *map, int32_t n, int32_t new_batch)
{
	for (int32_t to = 0; to < new_batch; to++) {
		int named = 0;

		for (int32_t i = 0; i < n; i++)
			named += map[i] == to;
		if (named != 1)
			return false;
	}
	for (int32_t i = 0; i < n; i++)
		if (map[i] < -1 || map[i] >= new_batch)
			return false;
	return true;
}

int ref_compact_begin(struct ref_session *s, uint64_t handle, const int32_t *map, uint32_t n, int32_t new_batch,
		      uint32_t flags, struct ref_delivery *d)
{
	struct ref_request *r;
	int code = prepare_check(s, handle, PHASE_EXECUTING, &r);

	if (code)
		return code;
	if ((flags & ~(uint32_t)WIRE_COMPACT_MOVE_ROWS) || n != (uint32_t)r->n_seqs)
		return SWAKV_EINVALID;
	if (new_batch < 0 || new_batch > r->n_seqs || !map_valid(map, r->n_seqs, new_batch))
		return SWAKV_EINVALID;
	if (s->spare < REF_PROMISE)
		return SWAKV_EPENDING;
	for (int32_t i = 0; i < r->n_seqs; i++)
		r->seqs[i].pending_map = map[i];
	r->pending_batch = new_batch;
	r->compact_flags = flags;
	r->transition = TRANSITION_COMPACT;
	ref_deliver(s, &r, 1, d);
	return SWAKV_OK;
}

/* Sequence j goes to the request's j-th slot; the last slots are given up as a dropped sequence's is. */
static void move_rows(struct ref_session *s, struct ref_request *r, const int32_t *slots, int32_t n_slots,
		      const struct when *w)
{
	int32_t index = (int32_t)(r - s->requests);

	for (int32_t j = 0; j < n_slots; j++) {
		struct ref_slot *l = &s->slots[slots[j]];

		l->stream = r->stream;
		if (j < r->n_seqs) {
			l->owner = index;
			l->blocked = 0;
			r->seqs[j].slot = slots[j];
			r->seqs[j].generation = l->generation;
		} else {
			l->owner = -1;
			l->blocked = w->now ? 0 : w->value;
		}
	}
}

int ref_compact_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed,
			 struct ref_delivery *d)
{
	struct ref_seq old[REF_BATCH];
	int32_t slots[REF_BATCH];
	int32_t n;
	struct ref_request *r;
	struct when w, drop;
	int code = complete_check(s, handle, TRANSITION_COMPACT, f, armed, &r, &w);

	if (code)
		return code;
	if (w.failed)
		return complete_advance(s, r, &w);
	drop = ref_leaving(s, r, w);
	n = r->n_seqs;
	memcpy(old, r->seqs, sizeof old);
	for (int32_t i = 0; i < n; i++) {
		slots[i] = old[i].slot;
		if (old[i].pending_map < 0)
			ref_give_up_seq(s, r, &old[i], &drop);
		else
			r->seqs[old[i].pending_map] = old[i];
	}
	r->n_seqs = r->pending_batch;
	for (int32_t i = 0; i < r->n_seqs; i++)
		r->seqs[i].pending_map = -2;
	if (r->compact_flags & WIRE_COMPACT_MOVE_ROWS)
		move_rows(s, r, slots, n, &drop);
	r->pending_batch = -1;
	r->transition = TRANSITION_NONE;
	if (r->n_seqs == 0)
		r->phase = PHASE_FINISHING;
	ref_open_point(s, r, &w);
	ref_deliver(s, &r, 1, d);
	return SWAKV_OK;
}

/* ---- endings --------------------------------------------------------------------------------- */

static int end_one(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed, bool abandon)
{
	struct ref_request *r;
	struct when w;
	int code;

	if (s->ended)
		return SWAKV_EGONE;
	r = ref_find(s, handle);
	if (!r)
		return ref_has_ended(s, handle) ? SWAKV_OK : SWAKV_EINVALID;
	if (!abandon && r->transition != TRANSITION_NONE)
		return SWAKV_EPHASE;
	code = ref_fence_read(s, r, f, armed, true, &w);
	if (code)
		return code;
	code = w.failed ? SWAKV_EPOISONED : SWAKV_OK;
	w = ref_leaving(s, r, w);
	w.failed |= s->poisoned;
	ref_end_request(s, r, &w);
	return code;
}

int ref_finish(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed)
{
	return end_one(s, handle, f, armed, false);
}

int ref_abandon(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed)
{
	return end_one(s, handle, f, armed, true);
}

static bool in_quarantine(const struct ref_session *s, uint32_t line)
{
	for (int32_t id = 0; id < s->class->num_pages; id++)
		if (s->class->page[id] == REF_QUARANTINED && s->class->user[id] == s && s->class->line[id] == line)
			return true;
	return false;
}

int ref_shutdown(struct ref_session *s, const struct wire_fence *f, uint32_t n, const uint64_t *armed)
{
	bool failed = false, open = false, invalid = n != s->n_streams;

	if (s->ended)
		return SWAKV_EGONE;
	if (invalid)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++) {
		bool line = f[i].kind == WIRE_FENCE_LINE;

		if (f[i].kind > WIRE_FENCE_FAILED || (line && (f[i].line != i || f[i].value > armed[i])))
			invalid = true;
		failed |= f[i].kind == WIRE_FENCE_FAILED && in_quarantine(s, i);
		open |= line && f[i].value > s->word[i] && in_quarantine(s, i);
	}
	if (s->poisoned && failed)
		return SWAKV_EPOISONED;
	if (invalid)
		return SWAKV_EINVALID;
	if (!s->poisoned)
		return ref_live(s) ? SWAKV_EBUSY : SWAKV_OK;
	if (open)
		return SWAKV_EPENDING;
	for (int32_t id = 0; id < s->class->num_pages; id++)
		if (s->class->page[id] == REF_QUARANTINED && s->class->user[id] == s)
			ref_release(s, id);
	s->poisoned = false;
	return SWAKV_OK;
}
