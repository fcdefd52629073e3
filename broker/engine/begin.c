/* SPDX-License-Identifier: Apache-2.0 */
/* begin.c - see begin.h: what is refused, what is admitted, and who waits */
#include "begin.h"

#include <string.h>

#include "admission.h"
#include "behind.h"
#include "bug.h"
#include "internal.h"
#include "moves.h"
#include "quarantine.h"
#include "quota.h"
#include "slice.h"
#include "transition.h"

static int check_begin_arguments(const struct session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots,
				 uint32_t n, struct fault *f)
{
	if (stream >= s->model.n_streams)
		return fault_set(f, FAULT_STREAM_RANGE, -1, stream, s->model.n_streams - 1);
	if (n < 1 || n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_BATCH_SIZE, -1, n, s->model.max_batch);
	if (max_tokens < 0 || max_tokens > s->model.max_seq)
		return fault_set(f, FAULT_MAX_TOKENS, -1, max_tokens, s->model.max_seq);
	for (uint32_t i = 0; i < n; i++)
		if (slots[i] < 0 || slots[i] >= s->model.max_batch)
			return fault_set(f, FAULT_SLOT_RANGE, (int32_t)i, slots[i], s->model.max_batch - 1);
	return 0;
}

/* The first slot named twice, -1: none. Marks the slots it has seen in their `map` scratch and undoes that. */
static int32_t find_twice(struct session *s, const int32_t *slots, uint32_t n)
{
	int32_t twice = -1;
	uint32_t seen = 0;

	for (; seen < n && twice < 0; seen++) {
		if (s->slots[slots[seen]].seen)
			twice = (int32_t)seen;
		else
			s->slots[slots[seen]].seen = true;
	}
	for (uint32_t i = 0; i < seen; i++)
		s->slots[slots[i]].seen = false;
	return twice;
}

static int check_slots(struct session *s, uint32_t stream, const int32_t *slots, uint32_t n, struct fault *f)
{
	int32_t twice = find_twice(s, slots, n);

	if (twice >= 0)
		return fault_set(f, FAULT_SLOT_TWICE, twice, slots[twice], 0);
	for (uint32_t i = 0; i < n; i++)
		if (s->slots[slots[i]].seq >= 0 || s->slots[slots[i]].waiting)
			return fault_set(f, FAULT_SLOT_BUSY, (int32_t)i, slots[i], 0);
	/* A request keeps its entry until it is finished, also when compaction left it no slot. */
	if (s->free_request < 0)
		return fault_set(f, FAULT_REQUESTS_FULL, -1, s->n_requests, 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct slot *t = &s->slots[slots[i]];

		if (t->line != stream && s->lines[t->line].reached < t->value)
			return fault_set(f, FAULT_SLOT_PENDING, (int32_t)i, slots[i], (int64_t)t->value);
	}
	return 0;
}

/* Room for @n entries in `order`: at its top, or after closing the gaps that ended requests left. */
static uint32_t order_take(struct session *s, uint32_t n)
{
	uint32_t top = 0;

	if (s->order_top + n <= 2 * (uint32_t)s->model.max_batch) {
		s->order_top += n;
		return s->order_top - n;
	}
	/* Requests stand in the list newest first, and newer ones stand higher: move from the oldest on. */
	int32_t i = s->first_request;

	while (i >= 0 && s->requests[i].next >= 0)
		i = s->requests[i].next;
	for (; i >= 0; i = s->requests[i].prev) {
		struct request *r = &s->requests[i];

		memmove(&s->order[top], &s->order[r->first], r->n_seqs * sizeof(*s->order));
		memmove(&s->agenda[top], &s->agenda[r->first], r->n_seqs * sizeof(*s->agenda));
		r->first = top;
		top += r->n_seqs;
	}
	s->order_top = top + n;
	MUST(s->order_top <= 2 * (uint32_t)s->model.max_batch);
	return top;
}

static void admit_sequence(struct session *s, struct request *r, uint32_t i, int32_t slot)
{
	struct slot *t = &s->slots[slot];
	int32_t index = s->free_seqs[--s->n_free_seqs];
	struct seq *q = &s->seqs[index];

	*q = (struct seq){ .index = index, .slot = slot, .map = -1, .request = (int32_t)(r - s->requests) };
	FOR_EACH_GROUP (g, s) {
		int32_t n = r->reservation[g->index];

		*seq_span(g, q) = (struct span){ .n_reserved = n };
		g->n_unbound += n;
		group_take(s, g, seq_reserved(g, q), n); /* the first page taken is the first one bound */
		if (g->movable)
			moves_note(s, g, q, seq_reserved(g, q), n);
		row_list_remove(s, g, &s->lines[t->line].stray, slot);
		row_list_note(s, g, &r->dirty, slot);
	}
	t->seq = index;
	t->generation++;
	/* The other stream is through with it; on the same one what was before is still ahead of others. */
	if (t->line != r->stream)
		t->value = 0;
	t->line = r->stream;
	s->order[r->first + i] = index;
}

static struct request *request_new(struct session *s, uint32_t stream, uint32_t n)
{
	int32_t index = s->free_request;
	struct request *r = &s->requests[index];
	uint32_t generation = r->generation + 1;

	s->free_request = r->next;
	*r = (struct request){ .generation = generation ? generation : 1,
			       .phase = PHASE_ADMITTED,
			       .stream = stream,
			       .first = order_take(s, n),
			       .n_seqs = n,
			       .pending_batch = -1,
			       .dirty = ROW_LIST_EMPTY,
			       .first_point = -1,
			       .prev = -1,
			       .next = s->first_request };
	if (s->first_request >= 0)
		s->requests[s->first_request].prev = index;
	s->first_request = index;
	s->n_requests++;
	s->n_sequences += n;
	return r;
}

static int64_t begin_capacity(const struct session *s, const struct begin *b)
{
	return b->max_tokens > 0 ? b->max_tokens : s->model.max_seq;
}

static int check_begin(struct session *s, const struct begin *b, struct fault *f)
{
	int code;

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	if ((code = check_begin_arguments(s, b->stream, b->max_tokens, b->slots, b->n_slots, f)) ||
	    (code = check_slots(s, b->stream, b->slots, b->n_slots, f)))
		return code;
	return points_spare(s) < 1 ? fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0) : 0;
}

/* Pages that @b needs of each group, for each of its sequences and for all. */
static void begin_needs(const struct session *s, const struct begin *b, int32_t *reservation, int64_t *needs)
{
	FOR_EACH_GROUP (g, s) {
		reservation[g->index] = group_reservation(s, g, begin_capacity(s, b), b->unordered);
		needs[g->index] = (int64_t)reservation[g->index] * b->n_slots;
	}
}

int64_t begin_pages(const struct session *s, const int64_t *needs)
{
	int64_t n = 0;

	for (uint32_t g = 0; g < s->n_groups; g++)
		n += needs[g];
	return n;
}

/* The pages are free. */
static uint64_t begin(struct session *s, const struct begin *b, const int32_t *reservation)
{
	struct request *r = request_new(s, b->stream, b->n_slots);

	r->capacity = begin_capacity(s, b);
	r->unordered = b->unordered;
	r->pinned = r->no_copy = b->pinned;
	r->stepped = s->engine->stamp;
	memcpy(r->reservation, reservation, s->n_groups * sizeof(reservation[0]));
	for (uint32_t i = 0; i < b->n_slots; i++)
		admit_sequence(s, r, i, b->slots[i]);
	s->change++;
	return request_handle(s, r);
}

int request_admit(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f)
{
	int32_t reservation[WIRE_MAX_GROUPS];
	int64_t needs[WIRE_MAX_GROUPS];
	int code = check_begin(s, b, f);

	if (code)
		return code;
	begin_needs(s, b, reservation, needs);
	if ((code = session_provide(s, needs, NULL, CLAIMS_ALL, f)))
		return code;
	if (!slice_holds(s, SLICE_PLACE * begin_pages(s, needs)))
		group_promise(s, needs);
	*handle = begin(s, b, reservation);
	press_given(s);
	return 0;
}

bool request_waits_for_itself(struct session *s, const struct begin *b, const int64_t *needs)
{
	int code = check_begin(s, b, NULL);

	return code == SWAKV_EPENDING || (code == 0 && behind_suffices(s, needs));
}

/* As request_admit(), if it is its turn: not while others of the model wait. */
static int admit_in_turn(struct session *s, const struct begin *b, bool in_turn, uint64_t *handle, struct fault *f)
{
	int code;

	if (in_turn)
		return request_admit(s, b, handle, f);
	code = check_begin(s, b, f);
	return code ? code : fault_set(f, FAULT_QUEUE, -1, s->quota->n_waiting, 0);
}

int request_begin_waiting(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f)
{
	bool in_turn = !wait_holds_up(s->quota);
	int32_t reservation[WIRE_MAX_GROUPS];
	int64_t needs[WIRE_MAX_GROUPS];
	int code;

	*handle = 0;
	code = admit_in_turn(s, b, in_turn, handle, f);
	if (code != SWAKV_ENOPAGES && code != SWAKV_EPENDING)
		return code;
	begin_needs(s, b, reservation, needs);
	code = wait_or_not(s, code, in_turn, b->wait, needs, f);
	return code == SWAKV_EAGAIN ? wait_add(s, b, needs, f) : code;
}

int request_begin(struct session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots, uint32_t n,
		  uint64_t *handle, struct fault *f)
{
	const struct begin b = { .stream = stream, .max_tokens = max_tokens, .slots = slots, .n_slots = n };

	return request_begin_waiting(s, &b, handle, f);
}
