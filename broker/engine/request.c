/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c - handles, end and failure of a request (spec section 3)
 *
 * A handle is {session tag, entry, generation}: an entry is used again with the
 * next generation, so an old handle is known as such for ever.
 */
#include "request.h"

#include "bug.h"
#include "fence.h"
#include "internal.h"
#include "moves.h"
#include "quarantine.h"
#include "shared_point.h"
#include "slice.h"

/* ---- handles ------------------------------------------------------------- */

uint64_t request_handle(const struct session *s, const struct request *r)
{
	return (uint64_t)s->tag << 48 | (uint64_t)(r - s->requests) << 32 | r->generation;
}

_Static_assert(offsetof(struct request, n_seqs) == 64, "what a plain step looks at lies in one cache line");

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

/* ---- the end ----------------------------------------------------------------- */

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

	s->n_stepped += r->steps;
	FOR_EACH_GROUP (g, s) {
		struct page_chain *chain = chains ? &chains->of[g->index] : NULL;
		int32_t *reserved = seq_reserved(g, q), n = seq_span(g, q)->n_reserved;

		g->n_unbound -= n;
		row_out(s, g, r, q, chain);
		/* Last taken first returned: what was never bound comes out in the order it went in. */
		pages_out(s, g, reserved, n, chain);
		row_list_remove(s, g, &r->dirty, q->slot);
		row_list_note(s, g, &s->lines[r->stream].stray, q->slot);
	}
	t->seq = -1;
	t->line = r->stream;
	if (slot_value > t->value) /* or it has done no work behind that of the slot's last request */
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
	if (r->n_moved)
		moves_dissolve(s, r, chains);
	MUST(r->first_point < 0 &&
	     (s->ended || !shared_points_of(s, r))); /* else its pages would return before their time */
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
