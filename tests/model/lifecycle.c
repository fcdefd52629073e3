/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifecycle.c - begin, prefill, compaction and endings in the reference model;
 * model.c says how open questions are read
 */
#include "parts.h"

#include <stddef.h>
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

		if (l->owner >= 0 || l->waiting)
			return SWAKV_EBUSY;
		if (l->stream != stream && l->blocked > s->word[l->stream])
			code = SWAKV_EPENDING;
	}
	return code;
}

int ref_begin_check(struct ref_session *s, const struct ref_begin *b)
{
	int code;

	if (s->ended)
		return SWAKV_EGONE;
	if (s->poisoned)
		return SWAKV_EPOISONED;
	if (b->stream >= s->n_streams || b->n < 1 || b->n > (uint32_t)s->max_batch)
		return SWAKV_EINVALID;
	if (b->max_tokens < 0 || b->max_tokens > s->max_seq)
		return SWAKV_EINVALID;
	code = begin_slots(s, b->stream, b->slots, b->n);
	if (ref_live(s) == s->max_batch && code != SWAKV_EINVALID)
		code = SWAKV_EBUSY;
	if (code)
		return code;
	return s->spare < 1 ? SWAKV_EPENDING : SWAKV_OK;
}

void ref_begin_need(const struct ref_session *s, const struct ref_begin *b, int64_t *need)
{
	memset(need, 0, REF_CLASSES * sizeof *need);
	for (uint32_t g = 0; g < s->n_groups; g++)
		need[s->groups[g].class_index] +=
			(int64_t)b->n * ref_reservation(s, g, b->max_tokens ? b->max_tokens : s->max_seq, b->unordered);
}

static void begin_seq(struct ref_session *s, struct ref_seq *q, int32_t slot)
{
	q->slot = slot;
	q->generation = ++s->slots[slot].generation;
	q->endpoint = q->highest = q->length = 0;
	q->pending_endpoint = -1;
	q->pending_map = -2;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		memset(q->parts[g].row, -1, sizeof q->parts[g].row);
		q->parts[g].n_free = q->parts[g].n_staged = 0;
	}
}

static void reserve(const struct ref_session *s, struct ref_request *r, int64_t max_tokens)
{
	r->max_tokens = max_tokens;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		r->more[g] = ref_reservation(s, g, max_tokens, r->unordered) - r->reservation[g];
		r->reservation[g] += r->more[g];
	}
}

struct ref_request *ref_begin_request(struct ref_session *s, const struct ref_begin *b)
{
	struct ref_request *r;
	int index;

	for (index = 0; s->requests[index].live; index++)
		;
	r = &s->requests[index];
	memset(r, 0, offsetof(struct ref_request, seqs));
	s->refused_until = 0;
	r->live = true;
	r->stream = b->stream;
	r->phase = PHASE_ADMITTED;
	r->stepped = s->pool->stamp;
	r->pinned = b->pinned;
	r->unordered = b->unordered;
	reserve(s, r, b->max_tokens ? b->max_tokens : s->max_seq);
	r->pending_batch = -1;
	r->n_seqs = (int32_t)b->n;
	for (uint32_t i = 0; i < b->n; i++) {
		begin_seq(s, &r->seqs[i], b->slots[i]);
		s->slots[b->slots[i]].owner = index;
		ref_take_slot(&s->slots[b->slots[i]], b->stream);
	}
	return r;
}

int ref_begin(struct ref_session *s, const struct ref_begin *b, int said, struct ref_request **out)
{
	int code = ref_begin_check(s, b), heard = ref_heard(said);
	bool in_turn = !ref_holds_up(s->pool, s->quota); /* nobody overtakes one that is not overdue */
	int64_t need[REF_CLASSES];

	*out = NULL;
	if (code && (code != SWAKV_EPENDING || !b->wait))
		return code;
	ref_begin_need(s, b, need);
	if (!code && in_turn)
		code = ref_admit(s, need, need, false, NULL, heard);
	else if (ref_too_much(s, need, heard))
		code = SWAKV_ENEVER;
	else if (!code)
		code = SWAKV_ENOPAGES;
	if (b->wait && (code == SWAKV_ENOPAGES || code == SWAKV_EPENDING))
		return ref_wait_for_pages(s, b);
	if (code == SWAKV_ENOPAGES)
		ref_note_refused(s);
	if (code == SWAKV_ENOPAGES && in_turn && ref_waits_for_itself(s, need))
		return SWAKV_EPENDING;
	if (!code)
		*out = ref_begin_request(s, b);
	return code;
}

/* ---- reserved pages -------------------------------------------------------------------- */

void ref_learn(struct ref_session *s, struct ref_seq *q, uint32_t g, const int32_t *pages, int32_t n)
{
	struct ref_part *t = &q->parts[g];
	int32_t known = 0, before = t->n_free;

	for (int32_t i = 0; i < n; i++) {
		int32_t j = 0;

		while (j < before && t->free[j] != pages[i])
			j++;
		if (j < before)
			known++;
		else
			ref_lease(s, g, pages[i]);
	}
	if (known != before)
		ref_complain(s->pool, "slot %d, group %u: of %d reserved pages %d are left", q->slot, g, before, known);
	/* next first there, next last here */
	for (int32_t i = 0; i < n; i++)
		t->free[n - 1 - i] = pages[i];
	t->n_free = n;
}

static int reserve_check(struct ref_session *s, const struct ref_request *r, int64_t max_tokens, int said)
{
	int64_t need[REF_CLASSES] = { 0 }, total[REF_CLASSES] = { 0 };
	int code;

	for (uint32_t g = 0; g < s->n_groups; g++) {
		int64_t wanted = ref_reservation(s, g, max_tokens, r->unordered);

		total[s->groups[g].class_index] += r->n_seqs * wanted;
		need[s->groups[g].class_index] += r->n_seqs * (wanted - r->reservation[g]);
	}
	code = ref_admit(s, need, total, true, NULL, said == SWAKV_EPENDING ? SWAKV_ENOPAGES : said);
	for (uint32_t i = 0; i < s->pool->n_classes && code == SWAKV_OK; i++)
		s->refused_until = need[i] > 0 ? 0 : s->refused_until;
	if (code == SWAKV_ENOPAGES)
		ref_note_refused(s);
	return code == SWAKV_ENOPAGES && ref_waits_for_itself(s, need) ? SWAKV_EPENDING : code;
}

/* The request of a call that changes it, in a session that may. */
static int find(struct ref_session *s, uint64_t handle, struct ref_request **out)
{
	if (s->ended)
		return SWAKV_EGONE;
	if (s->poisoned)
		return SWAKV_EPOISONED;
	*out = ref_find(s, handle);
	return *out ? SWAKV_OK : SWAKV_EINVALID;
}

int ref_reserve(struct ref_session *s, uint64_t handle, int64_t max_tokens, int said, struct ref_request **out)
{
	struct ref_request *r;
	int code = find(s, handle, &r);

	*out = NULL;
	if (code)
		return code;
	if (r->transition != TRANSITION_NONE || r->phase == PHASE_FINISHING)
		return SWAKV_EPHASE;
	if (max_tokens < 1 || max_tokens > s->max_seq || max_tokens < r->max_tokens)
		return SWAKV_EINVALID;
	code = reserve_check(s, r, max_tokens, said);
	if (code)
		return code;
	reserve(s, r, max_tokens);
	*out = r;
	return SWAKV_OK;
}

/* ---- prepare ---------------------------------------------------------------------------- */

int ref_prepare_check(struct ref_session *s, uint64_t handle, enum phase phase, struct ref_request **out)
{
	struct ref_request *r;
	int code = find(s, handle, &r);

	*out = NULL;
	if (code)
		return code;
	if (r->transition != TRANSITION_NONE || r->phase != phase)
		return SWAKV_EPHASE;
	*out = r;
	return SWAKV_OK;
}

int ref_prefill_prepare(struct ref_session *s, uint64_t handle, const int32_t *lengths, uint32_t n,
			struct ref_delivery *d)
{
	struct ref_request *r;
	int code = ref_prepare_check(s, handle, PHASE_ADMITTED, &r);

	if (code)
		return code;
	if (n != (uint32_t)r->n_seqs)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < n; i++)
		if (lengths[i] < 1 || lengths[i] > r->max_tokens)
			return SWAKV_EINVALID;
	if (s->spare < REF_PROMISE)
		return SWAKV_EPENDING;
	r->phase = PHASE_EXECUTING;
	r->transition = TRANSITION_PREFILL;
	r->stepped = s->pool->stamp;
	for (uint32_t i = 0; i < n; i++) {
		r->seqs[i].pending_endpoint = lengths[i];
		r->seqs[i].length = lengths[i];
		ref_bind_new(s, r, &r->seqs[i]);
	}
	ref_deliver(s, &r, 1, d);
	return SWAKV_OK;
}

/* ---- complete ----------------------------------------------------------------------------- */

int ref_complete_check(struct ref_session *s, uint64_t handle, enum transition t, enum transition or,
		       const struct wire_fence *f, uint64_t armed, struct ref_request **out, struct when *w)
{
	struct ref_request *r;

	*out = NULL;
	if (s->ended)
		return SWAKV_EGONE;
	r = ref_find(s, handle);
	if (!r)
		return SWAKV_EINVALID;
	if (r->transition != t && r->transition != or)
		return SWAKV_EPHASE;
	*out = r;
	return ref_fence_read(s, r, f, armed, false, w);
}

void ref_settle(struct ref_session *s, struct ref_request *r, struct ref_seq *q, int64_t endpoint, const struct when *w)
{
	q->endpoint = endpoint;
	q->pending_endpoint = -1;
	if (endpoint > q->highest)
		q->highest = endpoint;
	for (uint32_t g = 0; g < s->n_groups; g++)
		for (int64_t c = 0; c < s->groups[g].width; c++)
			if (c < ref_begin_of(s, g, q->highest) || c >= ref_end_of(s, g, endpoint))
				ref_leave(s, r, q, g, c, w);
}

int ref_prefill_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed)
{
	struct ref_request *r;
	struct when w;
	int code = ref_complete_check(s, handle, TRANSITION_PREFILL, TRANSITION_PREFILL, f, armed, &r, &w);

	if (code)
		return code;
	if (w.failed) {
		ref_end_request(s, r, &w);
		return SWAKV_EPOISONED;
	}
	for (int32_t i = 0; i < r->n_seqs; i++) {
		s->prefilled += (uint64_t)r->seqs[i].pending_endpoint;
		ref_settle(s, r, &r->seqs[i], r->seqs[i].pending_endpoint, &w);
	}
	r->transition = TRANSITION_NONE;
	ref_open_point(s, r, &w);
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
	int code = ref_prepare_check(s, handle, PHASE_EXECUTING, &r);

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
	r->stepped = s->pool->stamp;
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

		if (j < r->n_seqs) {
			l->owner = index;
			r->seqs[j].slot = slots[j];
			r->seqs[j].generation = l->generation;
		} else {
			ref_leave_slot(l, w->now ? 0 : w->value);
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
	int code = ref_complete_check(s, handle, TRANSITION_COMPACT, TRANSITION_COMPACT, f, armed, &r, &w);

	if (code)
		return code;
	if (w.failed) {
		ref_end_request(s, r, &w);
		return SWAKV_EPOISONED;
	}
	drop = ref_leaving(s, r, w);
	n = r->n_seqs;
	memcpy(old, r->seqs, (size_t)n * sizeof *old);
	for (int32_t i = 0; i < n; i++) {
		slots[i] = old[i].slot;
		if (old[i].pending_map < 0) {
			ref_give_up_seq(s, r, &old[i], &drop);
			if (!(r->compact_flags & WIRE_COMPACT_MOVE_ROWS))
				ref_leave_slot(&s->slots[slots[i]], drop.now ? 0 : drop.value);
		} else {
			r->seqs[old[i].pending_map] = old[i];
		}
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
	for (uint32_t g = 0; g < s->n_groups; g++) {
		const struct ref_class *c = s->groups[g].class;

		for (int32_t id = 0; id < c->num_pages; id++)
			if (c->page[id] == REF_QUARANTINED && c->user[id] == s && c->line[id] == line)
				return true;
	}
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
		failed |= f[i].kind == WIRE_FENCE_FAILED && (s->doubtful[i] || in_quarantine(s, i));
		open |= line && f[i].value > s->word[i] && (s->doubtful[i] || in_quarantine(s, i));
	}
	if (s->poisoned && failed)
		return SWAKV_EPOISONED;
	if (invalid)
		return SWAKV_EINVALID;
	if (!s->poisoned)
		return ref_live(s) ? SWAKV_EBUSY : SWAKV_OK;
	if (open)
		return SWAKV_EPENDING;
	ref_release_quarantined(s);
	memset(s->doubtful, 0, sizeof s->doubtful);
	s->poisoned = false;
	return SWAKV_OK;
}
