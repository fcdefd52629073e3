/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - admission, end and failure of a request (spec section 3)
 *
 * A handle is {session tag, entry, generation}: an entry is used again with the
 * next generation, so an old handle is known as such for ever.
 */
#include "request.h"

#include <string.h>

#include "agenda.h"
#include "behind.h"
#include "bug.h"
#include "fence.h"
#include "internal.h"
#include "quarantine.h"
#include "slice.h"
#include "transition.h"

/* ---- handles ------------------------------------------------------------- */

static uint64_t request_handle(const struct session *s, const struct request *r)
{
	return (uint64_t)s->tag << 48 | (uint64_t)(r - s->requests) << 32 | r->generation;
}

enum handle_kind { HANDLE_UNKNOWN, HANDLE_ENDED, HANDLE_LIVE };

static enum handle_kind handle_look(const struct session *s, uint64_t handle, struct request **r)
{
	uint32_t tag = (uint32_t)(handle >> 48), entry = (uint32_t)(handle >> 32) & UINT16_MAX;
	uint32_t generation = (uint32_t)handle;

	*r = NULL;
	if (tag != s->tag || entry >= (uint32_t)s->model.max_batch || generation == 0 ||
	    generation > s->requests[entry].generation)
		return HANDLE_UNKNOWN;
	if (generation < s->requests[entry].generation || s->requests[entry].phase == PHASE_NONE)
		return HANDLE_ENDED;
	*r = &s->requests[entry];
	return HANDLE_LIVE;
}

/* What is said of a handle that names no live request. */
static int handle_refuse(enum handle_kind kind, uint64_t handle, struct fault *f)
{
	return fault_set(f, kind == HANDLE_ENDED ? FAULT_STALE_HANDLE : FAULT_BAD_HANDLE, -1, (int64_t)handle, 0);
}

int request_find(const struct session *s, uint64_t handle, struct request **r, struct fault *f)
{
	enum handle_kind kind = handle_look(s, handle, r);

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	return kind == HANDLE_LIVE ? 0 : handle_refuse(kind, handle, f);
}

int request_stream(const struct session *s, uint64_t handle)
{
	struct request *r;

	return handle_look(s, handle, &r) == HANDLE_LIVE ? (int)r->stream : -1;
}

bool session_next_request(const struct session *s, uint64_t *handle)
{
	int32_t i = s->first_request;

	if (*handle) {
		struct request *r;

		if (handle_look(s, *handle, &r) != HANDLE_LIVE)
			return false;
		i = r->next;
	}
	if (i < 0)
		return false;
	*handle = request_handle(s, &s->requests[i]);
	return true;
}

/* ---- begin ------------------------------------------------------------------- */

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

	*q = (struct seq){ .index = index, .slot = slot, .map = -1 };
	FOR_EACH_GROUP (g, s) {
		int32_t n = r->reservation[g->index];

		*seq_span(g, q) = (struct span){ .n_reserved = n };
		group_take(s, g, seq_reserved(g, q), n); /* the first page taken is the first one bound */
		row_list_remove(s, g, &s->lines[t->line].stray, slot);
		row_list_note(s, g, &r->dirty, slot);
	}
	t->seq = index;
	t->generation++;
	t->line = r->stream;
	t->value = 0;
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

static int64_t begin_pages(const struct session *s, const int64_t *needs)
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
	struct fault never;
	int code;

	*handle = 0;
	code = admit_in_turn(s, b, in_turn, handle, f);
	if (code != SWAKV_ENOPAGES && code != SWAKV_EPENDING)
		return code;
	begin_needs(s, b, reservation, needs);
	/* What never could be is not waited for. */
	if ((b->wait || !in_turn) && session_check_never(s, needs, &never) != 0 &&
	    (b->wait || code == SWAKV_ENOPAGES)) {
		if (f)
			*f = never;
		return never.code;
	}
	if (b->wait)
		return wait_add(s, b, needs, f);
	if (code == SWAKV_ENOPAGES && in_turn && behind_suffices(s, needs))
		return fault_set(f, FAULT_BEGIN_PENDING, -1, begin_pages(s, needs), 0);
	return code;
}

int request_begin(struct session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots, uint32_t n,
		  uint64_t *handle, struct fault *f)
{
	const struct begin b = { .stream = stream, .max_tokens = max_tokens, .slots = slots, .n_slots = n };

	return request_begin_waiting(s, &b, handle, f);
}

/* ---- a longer reservation --------------------------------------------------- */

/* The @n ids from @ids on move up by @by places. */
static void make_room(struct session *s, int32_t *ids, int32_t n, int32_t by)
{
	while (by > 0 && n > 0) {
		int32_t part = slice_part(s, n);

		n -= part; /* the last ones first: they may overlap */
		memmove(ids + n + by, ids + n, (size_t)part * sizeof(*ids));
		slice_spend(s, part);
	}
}

/* Pages of @more (one a group) join the reservation of @q. */
static void reserve_more(struct session *s, struct request *r, struct seq *q, const int32_t *more)
{
	FOR_EACH_GROUP (g, s) {
		struct span *p = seq_span(g, q);
		int32_t n = more[g->index];

		/* Below those that it has: the next one bound stays the same. */
		make_room(s, seq_reserved(g, q), p->n_reserved, n);
		group_take(s, g, seq_reserved(g, q), n);
		p->n_reserved += n;
	}
	if (r->phase == PHASE_EXECUTING)
		seq_settle(s, r, q, seq_endpoint(r, q));
}

int request_reserve(struct session *s, uint64_t handle, int64_t max_tokens, struct fault *f)
{
	int32_t more[WIRE_MAX_GROUPS];
	int64_t needs[WIRE_MAX_GROUPS], held[WIRE_MAX_GROUPS];
	struct request *r;
	int code;

	if ((code = request_check_prepare(s, handle, &r, f)))
		return code;
	if (r->phase == PHASE_FINISHING)
		return fault_set(f, FAULT_FINISHING, -1, r->phase, 0);
	if (r->transition != TRANSITION_NONE)
		return fault_set(f, FAULT_TRANSITION_PENDING, -1, r->transition, 0);
	if (max_tokens < 1 || max_tokens > s->model.max_seq)
		return fault_set(f, FAULT_MAX_TOKENS, -1, max_tokens, s->model.max_seq);
	if (max_tokens < r->capacity)
		return fault_set(f, FAULT_RESERVE_TOKENS, -1, max_tokens, r->capacity);
	FOR_EACH_GROUP (g, s) {
		uint32_t i = g->index;

		more[i] = group_reservation(s, g, max_tokens, r->unordered) - r->reservation[i];
		needs[i] = (int64_t)more[i] * r->n_seqs;
		held[i] = (int64_t)r->reservation[i] * r->n_seqs;
	}
	code = session_provide(s, needs, held, CLAIMS_NONE, f);
	if (code == SWAKV_ENOPAGES && behind_suffices(s, needs))
		return fault_set(f, FAULT_BEGIN_PENDING, -1, begin_pages(s, needs), 0);
	if (code)
		return code;
	group_promise(s, needs);
	r->capacity = max_tokens;
	FOR_EACH_GROUP (g, s)
		r->reservation[g->index] += more[g->index];
	for (uint32_t i = 0; i < r->n_seqs; i++)
		reserve_more(s, r, request_seq(s, r, i), more);
	if (r->phase == PHASE_EXECUTING)
		agenda_build(s, r);
	s->change++;
	return 0;
}

/* ---- the end ----------------------------------------------------------------- */

/* The @n pages go to @chain, or, when that is NULL, back to the class. */
static void pages_out(struct session *s, struct group *g, const int32_t *pages, int32_t n, struct page_chain *chain)
{
	for (int32_t i = 0, part; i < n; i += part) {
		part = slice_part(s, n - i);
		if (!chain) {
			page_class_put_many(g->class, pages + i, part);
			g->n_held -= part;
		}
		for (int32_t k = i; chain && k < i + part; k++)
			page_chain_add(g->class, chain, pages[k], -1);
		slice_spend(s, part);
	}
}

/* The pages of the row go to @chain (NULL: to the class); the row is cleared, unless the session has ended. */
static void row_out(struct session *s, struct group *g, struct request *r, struct seq *q, struct page_chain *chain)
{
	const int32_t *row = page_table_row(&g->table, q->slot);
	struct mapped m = seq_mapped(s, g, r, q);

	slice_spend(s, 1);
	pages_out(s, g, row + m.lo, m.gap - m.lo, chain);
	pages_out(s, g, row + m.resume, m.hi - m.resume, chain);
	if (s->ended)
		return;
	page_table_open(&g->table, q->slot);
	for (int32_t c = m.lo, end; c < m.hi;) {
		end = c + slice_part(s, m.hi - c);
		slice_spend(s, end - c);
		for (; c < end; c++)
			page_table_put(&g->table, q->slot, c, -1);
	}
	page_table_close(&g->table, q->slot);
}

/*
 * All pages of the sequence in row and reservation go to @chains, or, when that
 * is NULL, back to their classes at once; its rows are cleared and its slot
 * free. The rows of a session that has ended stay: its process may still read
 * them, and rows change only while one of its own commands executes.
 */
static void dissolve_sequence(struct session *s, struct request *r, struct seq *q, uint64_t slot_value,
			      struct page_chains *chains)
{
	struct slot *t = &s->slots[q->slot];

	FOR_EACH_GROUP (g, s) {
		struct page_chain *chain = chains ? &chains->of[g->index] : NULL;
		int32_t *reserved = seq_reserved(g, q), n = seq_span(g, q)->n_reserved;

		row_out(s, g, r, q, chain);
		/* Last taken first returned: what was never bound comes out in the order it went in. */
		pages_out(s, g, reserved, n, chain);
		row_list_remove(s, g, &r->dirty, q->slot);
		row_list_note(s, g, &s->lines[r->stream].stray, q->slot);
	}
	t->seq = -1;
	t->line = r->stream;
	t->value = slot_value;
	s->free_seqs[s->n_free_seqs++] = q->index;
	s->n_sequences--;
}

void request_drop_sequence(struct session *s, struct request *r, struct seq *q, uint64_t slot_value,
			   struct page_chains *chains)
{
	dissolve_sequence(s, r, q, slot_value, chains);
}

void request_dissolve(struct session *s, struct request *r, uint64_t slot_value, struct page_chains *chains)
{
	int32_t index = (int32_t)(r - s->requests);

	if (chains)
		point_absorb(s, r, chains);
	MUST(r->first_point < 0); /* else its pages would return before their time */
	for (uint32_t i = 0; i < r->n_seqs; i++)
		dissolve_sequence(s, r, request_seq(s, r, i), slot_value, chains);
	if (r->transition != TRANSITION_NONE)
		s->n_transitions--;
	if (r->prev < 0)
		s->first_request = r->next;
	else
		s->requests[r->prev].next = r->next;
	if (r->next >= 0)
		s->requests[r->next].prev = r->prev;
	r->phase = PHASE_NONE;
	r->next = s->free_request;
	s->free_request = index;
	s->n_requests--;
	s->change++;
}

int request_poison(struct session *s, struct request *r, struct fault *f)
{
	struct page_chains chains;
	uint32_t line = r->stream;

	page_chains_init(&chains, s->n_groups);
	/* The slots need no value: nothing begins before shutdown has proven the stream idle. */
	request_dissolve(s, r, 0, &chains);
	pages_quarantine(s, line, &chains);
	s->poisoned = true;
	session_refuse_waiting(s, FAULT_POISONED);
	return fault_set(f, FAULT_COMPLETION_FAILED, -1, page_chains_count(&chains, s->n_groups), 0);
}

static int request_end(struct session *s, struct request *r, const struct wire_fence *fence, uint64_t armed,
		       struct fault *f)
{
	struct page_chains chains;
	struct resolved_fence p;
	uint32_t line = r->stream;
	uint64_t value;
	int code = fence_resolve_end(s, r, fence, armed, &p, f);

	if (code)
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	/* Never before the request's own last point: a fence proves its step, not those that are still open. */
	value = p.value > r->last_value ? p.value : r->last_value;
	if (!s->poisoned && value <= s->lines[line].reached) {
		request_dissolve(s, r, value, NULL);
		return 0;
	}
	page_chains_init(&chains, s->n_groups);
	request_dissolve(s, r, s->poisoned ? 0 : value, &chains);
	if (s->poisoned)
		pages_quarantine(s, line, &chains);
	else
		pages_release(s, line, value, &chains);
	return 0;
}

/* The request that is to end: NULL when that has happened already. */
static int end_find(const struct session *s, uint64_t handle, struct request **r, struct fault *f)
{
	if (!s->ended && handle_look(s, handle, r) == HANDLE_ENDED)
		return 0;
	return request_find(s, handle, r, f);
}

int request_finish(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed, struct fault *f)
{
	struct request *r;
	int code = end_find(s, handle, &r, f);

	if (code || !r)
		return code;
	if (r->transition != TRANSITION_NONE)
		return fault_set(f, FAULT_TRANSITION_PENDING, -1, r->transition, 0);
	return request_end(s, r, fence, armed, f);
}

int request_abandon(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed, struct fault *f)
{
	struct request *r;
	int code = end_find(s, handle, &r, f);

	return code || !r ? code : request_end(s, r, fence, armed, f);
}
