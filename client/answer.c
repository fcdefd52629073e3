/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - see answer.h */
#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "request.h"
#include "turn.h"

static bool call_is_step(const struct call *c)
{
	return c->op == WIRE_OP_STEP_PREPARE || c->op == WIRE_OP_STEP_COMPLETE || c->op == WIRE_OP_STEP_TURN;
}

static bool call_prepares(const struct call *c)
{
	return c->op == WIRE_OP_STEP_PREPARE || c->op == WIRE_OP_STEP_TURN;
}

int answer_parse(struct swakv_session *s, const struct call *c, const unsigned char *payload, size_t len,
		 struct answer *a)
{
	uint64_t need;

	memcpy(&a->head, payload, sizeof(a->head));
	a->n_moves = a->head.flags / WIRE_DELIVERY_MOVE;
	need = sizeof(a->head) + (uint64_t)a->head.n_faults * sizeof(*a->faults) +
	       (uint64_t)a->head.n_updates * sizeof(*a->updates) + (uint64_t)a->head.n_rows * sizeof(*a->rows) +
	       (uint64_t)a->head.n_scrubs * sizeof(*a->scrubs) + (uint64_t)a->head.n_begun * sizeof(*a->begun) +
	       (uint64_t)a->n_moves * sizeof(*a->moves);
	if (need > len || (a->head.flags & (WIRE_DELIVERY_MOVE - 1) & ~(uint32_t)WIRE_DELIVERY_BY_REFERENCE) ||
	    ((a->head.flags & WIRE_DELIVERY_BY_REFERENCE) && a->head.n_updates > 0) ||
	    a->head.n_faults > (call_is_step(c) ? c->n_entries : 0) ||
	    a->head.n_begun > (c->op == WIRE_OP_STEP_TURN ? c->n_entries : 0) ||
	    a->n_moves > (call_prepares(c) ? WIRE_MAX_MOVES : 0))
		return session_break(s,
				     "the broker's answer is impossible: %" PRIu32 " faults, %" PRIu32
				     " updates, %" PRIu32 " rows, %" PRIu32 " scrubs and %" PRIu32
				     " begun in %zu bytes, flags %" PRIx32,
				     a->head.n_faults, a->head.n_updates, a->head.n_rows, a->head.n_scrubs,
				     a->head.n_begun, len, a->head.flags);
	a->faults = (const void *)(payload + sizeof(a->head));
	a->updates = (const void *)(a->faults + a->head.n_faults);
	a->rows = (const void *)(a->updates + a->head.n_updates);
	a->scrubs = (const void *)(a->rows + a->head.n_rows);
	a->begun = (const void *)(a->scrubs + a->head.n_scrubs);
	a->moves = (const void *)(a->begun + a->head.n_begun);
	return 0;
}

static int rows_check(struct swakv_session *s, const struct answer *a)
{
	uint32_t n_rows = s->max_batch * s->welcome.n_groups;

	s->mark++;
	for (uint32_t i = 0; i < a->head.n_rows; i++) {
		const struct wire_row *r = &a->rows[i];
		struct table *t = r->row < n_rows ? session_row_table(s, r->row) : NULL;

		if (!t || t->state[r->row - t->first_row].mark == s->mark)
			return session_break(s, "the broker named row %" PRIu32 " %s, the tables have %" PRIu32 " rows",
					     r->row, t ? "twice in one answer" : "of no slot", n_rows);
		if (r->end > t->width || (r->end > 0 && r->first >= r->end))
			return session_break(s,
					     "the broker named columns %" PRIu32 " to %" PRIu32 " of a row of %" PRIu32,
					     r->first, r->end, t->width);
		t->state[r->row - t->first_row].mark = s->mark;
	}
	return 0;
}

int answer_check(struct swakv_session *s, const struct answer *a)
{
	struct place at = { 0 };
	int r = rows_check(s, a);

	for (uint32_t i = 0; r == 0 && i < a->head.n_updates; i++) {
		const struct wire_update *u = &a->updates[i];

		place_move(s, &at, u->cell);
		if (!at.marked)
			r = session_break(s,
					  "the broker updated cell %" PRIu32 " of row %" PRIu32
					  " that its answer does not name",
					  u->cell, (at.t ? at.t->first_row : 0) + at.slot);
		else if (!page_is_possible(at.num_pages, u->page))
			r = session_break(s,
					  "the broker gave page %" PRId32 " to slot %" PRIu32 ", column %" PRIu32
					  "; the pool has pages 0 to %" PRId32,
					  u->page, at.slot, u->cell - at.first, at.num_pages - 1);
	}
	return r;
}

/* The sentence of a call is that of its first entry that was refused. */
static void tell_refusal(struct call *c, const struct wire_entry_fault *f)
{
	int n = 0;

	if (f->entry >= c->told)
		return;
	c->told = f->entry;
	c->result = f->fault.code;
	if (c->n_entries > 1)
		n = snprintf(c->why, sizeof(c->why), "entry %" PRIu32 ": ", f->entry);
	fault_format(&f->fault, c->why + n, sizeof(c->why) - (size_t)n);
}

static int answer_faults(struct swakv_session *s, struct call *c, const struct answer *a)
{
	for (uint32_t i = 0; i < a->head.n_faults; i++) {
		const struct wire_entry_fault *f = &a->faults[i];
		struct call_entry *e;

		if (f->entry >= c->n_entries || f->fault.code >= 0 || f->fault.code < SWAKV_EUNSUPPORTED)
			return session_break(s, "the broker refused entry %" PRIu32 " of a step of %" PRIu32, f->entry,
					     c->n_entries);
		e = &c->entries[f->entry];
		e->result = (int16_t)f->fault.code;
		if (e->what && !turn_entry_refused(e, f))
			return session_break(s, "the broker refused what entry %" PRIu32 " of a step did not ask for",
					     f->entry);
		if (f->fault.reason == FAULT_COMPLETION_FAILED || f->fault.reason == FAULT_STALE_HANDLE)
			request_lost(e->request);
		tell_refusal(c, f);
	}
	return 0;
}

static int answer_begun(struct swakv_session *s, struct call *c, const struct answer *a)
{
	for (uint32_t i = 0; i < a->head.n_begun; i++) {
		const struct wire_begun *b = &a->begun[i];
		struct call_entry *e = b->entry < c->n_entries ? &c->entries[b->entry] : NULL;

		if (!e || e->what != SWAKV_TURN_BEGIN || e->result != 0 || e->request->handle || !b->handle)
			return session_break(s, "the broker began entry %" PRIu32 " of a step of %" PRIu32, b->entry,
					     c->n_entries);
		e->request->handle = b->handle;
	}
	return 0;
}

int answer_entries(struct swakv_session *s, struct call *c, const struct answer *a)
{
	int r = answer_faults(s, c, a);

	return r < 0 ? r : answer_begun(s, c, a);
}
