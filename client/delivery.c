/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery.c - from an answer to the device table
 *
 * The whole answer is checked first; only then does anything of it reach a
 * stream. Updates go to the stream that the slot's last request was bound to,
 * so that they are ordered against the kernels that read the row; a slot whose
 * request has ended keeps that stream for the clears that come later.
 *
 * The mirror holds what the device table holds once its stream has got there.
 * Each delivery of a row counts its version up by one. When a version does not
 * follow the last one something was lost, and the row is read again from the
 * broker's host table, under the row's sequence lock, and written whole. Where
 * the answer names rows by reference they are read in the same way, but only
 * the entries that differ are written. A row that is read may be newer than the
 * delivery that caused it; the deliveries it already contains are then skipped.
 *
 * Order on a stream: the line is armed, dirty pages are scrubbed, the caller is
 * told (on_updates), the updates are enqueued. A line that was armed only to carry clears is marked at
 * once; one that was armed for a step is left to the step's own mark.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define ROW_WAIT_NS 1000000000ull

struct answer {
	struct wire_delivery head;
	const struct wire_entry_fault *faults;
	const struct wire_update *updates;
	const struct wire_row *rows;
	const struct wire_scrub *scrubs;
};

/* ---- checks ---------------------------------------------------------------------- */

static bool call_is_step(const struct call *c)
{
	return c->op == WIRE_OP_STEP_PREPARE || c->op == WIRE_OP_STEP_COMPLETE;
}

/* The payload lies behind a header of 32 bytes in malloc'd memory, and all parts have multiples of 8 bytes. */
static int answer_parse(struct swakv_session *s, const struct call *c, const unsigned char *payload, size_t len,
			struct answer *a)
{
	uint64_t need;

	memcpy(&a->head, payload, sizeof(a->head));
	need = sizeof(a->head) + (uint64_t)a->head.n_faults * sizeof(*a->faults) +
	       (uint64_t)a->head.n_updates * sizeof(*a->updates) + (uint64_t)a->head.n_rows * sizeof(*a->rows) +
	       (uint64_t)a->head.n_scrubs * sizeof(*a->scrubs);
	if (need > len || (a->head.flags & ~(uint32_t)WIRE_DELIVERY_BY_REFERENCE) ||
	    ((a->head.flags & WIRE_DELIVERY_BY_REFERENCE) && a->head.n_updates > 0) ||
	    a->head.n_faults > (call_is_step(c) ? c->n_entries : 0) || a->head.reserved)
		return session_break(s,
				     "the broker's answer is impossible: %" PRIu32 " faults, %" PRIu32
				     " updates, %" PRIu32 " rows and %" PRIu32 " scrubs in %zu bytes, flags %" PRIx32,
				     a->head.n_faults, a->head.n_updates, a->head.n_rows, a->head.n_scrubs, len,
				     a->head.flags);
	a->faults = (const void *)(payload + sizeof(a->head));
	a->updates = (const void *)(a->faults + a->head.n_faults);
	a->rows = (const void *)(a->updates + a->head.n_updates);
	a->scrubs = (const void *)(a->rows + a->head.n_rows);
	return 0;
}

static bool page_is_possible(const struct table *t, int32_t page)
{
	return page >= -1 && page < t->target.num_pages;
}

static int answer_check(struct swakv_session *s, const struct answer *a)
{
	struct table *t = &s->table;
	uint32_t width = (uint32_t)t->target.width, row = 0;

	t->mark++;
	for (uint32_t i = 0; i < a->head.n_rows; i++) {
		uint32_t end = a->rows[i].end;

		row = a->rows[i].row;
		if (end > width || (end > 0 && a->rows[i].first >= end))
			return session_break(s,
					     "the broker named columns %" PRIu32 " to %" PRIu32 " of a row of %" PRIu32,
					     a->rows[i].first, end, width);

		if (row >= t->max_batch || t->state[row].mark == t->mark)
			return session_break(s, "the broker named row %" PRIu32 " %s, the table has %" PRIu32 " rows",
					     row, row >= t->max_batch ? "of no slot" : "twice in one answer",
					     t->max_batch);
		t->state[row].mark = t->mark;
	}
	for (uint32_t i = 0; i < a->head.n_updates; i++) {
		const struct wire_update *u = &a->updates[i];

		if (u->cell - row * width >= width) /* most updates are of the row of the one before */
			row = u->cell / width;
		if (row >= t->max_batch || t->state[row].mark != t->mark)
			return session_break(s, "the broker updated row %" PRIu32 " that its answer does not name",
					     row);
		if (!page_is_possible(t, u->page))
			return session_break(s,
					     "the broker gave page %" PRId32 " to slot %" PRIu32 ", column %" PRIu32
					     "; the pool has pages 0 to %" PRId32,
					     u->page, row, u->cell % width, t->target.num_pages - 1);
	}
	return 0;
}

static int answer_faults(struct swakv_session *s, struct call *c, const struct answer *a)
{
	for (uint32_t i = 0; i < a->head.n_faults; i++) {
		const struct wire_entry_fault *f = &a->faults[i];
		struct call_entry *e;
		int n = 0;

		if (f->entry >= c->n_entries || f->fault.code >= 0)
			return session_break(s, "the broker refused entry %" PRIu32 " of a step of %" PRIu32, f->entry,
					     c->n_entries);
		e = &c->entries[f->entry];
		e->result = f->fault.code;
		if (f->fault.reason == FAULT_COMPLETION_FAILED || f->fault.reason == FAULT_STALE_HANDLE)
			request_lost(e->request);
		if (i > 0)
			continue;
		c->result = f->fault.code;
		if (c->n_entries > 1)
			n = snprintf(c->why, sizeof(c->why), "entry %" PRIu32 ": ", f->entry);
		fault_format(&f->fault, c->why + n, sizeof(c->why) - (size_t)n);
	}
	return 0;
}

/* ---- collecting the updates --------------------------------------------------------- */

static int updates_grow(struct swakv_session *s)
{
	size_t cap = s->cap_updates ? 2 * s->cap_updates : 1024;
	struct swakv_update *more = reallocarray(s->updates, cap, sizeof(*more));
	struct swakv_update *sorted;

	if (!more)
		return SWAKV_ENOMEM;
	s->updates = more;
	sorted = reallocarray(s->sorted, cap, sizeof(*sorted));
	if (!sorted)
		return SWAKV_ENOMEM;
	s->sorted = sorted;
	s->cap_updates = cap;
	return 0;
}

static inline int update_push(struct swakv_session *s, uint32_t row, uint32_t column, int32_t page)
{
	int32_t *cell = &s->table.mirror[(size_t)row * (size_t)s->table.target.width + column];

	if (s->n_updates == s->cap_updates && updates_grow(s) < 0)
		return SWAKV_ENOMEM;
	s->updates[s->n_updates++] = (struct swakv_update){
		.slot = (int32_t)row, .column = (int32_t)column, .page = page, .old_page = *cell
	};
	*cell = page;
	return 0;
}

/* Copies K ids of @row, columns [first, end), as the broker has them now. SWAKV_EGONE: the row stays locked for ever.
 */
static int row_copy(struct swakv_session *s, uint32_t row, size_t first, size_t end, int32_t *out, uint32_t *version)
{
	const struct wire_row_head *head = &s->table.rows[row];
	const volatile int32_t *cells = s->table.host + (size_t)row * 2 * (size_t)s->table.target.width;
	uint64_t deadline = 0;

	for (uint32_t tries = 1;; tries++) {
		uint32_t sequence = load_acquire(&head->sequence);

		if (!(sequence & 1)) {
			for (size_t i = first; i < end; i++)
				out[i] = cells[i];
			*version = load_relaxed(&head->version);
			fence_acquire(); /* pairs with the writer's odd store */
			if (load_relaxed(&head->sequence) == sequence)
				return 0;
		}
		cpu_relax();
		if (tries % 1024 != 0)
			continue;
		if (deadline == 0)
			deadline = clock_ns() + ROW_WAIT_NS;
		else if (clock_ns() >= deadline)
			return session_break(s, "the broker died while it wrote row %" PRIu32 " of the page table",
					     row);
	}
}

/*
 * Reads @r from the host table and pushes what differs from the mirror, or,
 * when @whole, every entry. Only the columns that the broker names are looked
 * at, unless the row has moved on: then a later answer says what else changed,
 * and will be skipped.
 */
static int row_push(struct swakv_session *s, const struct wire_row *r, bool whole)
{
	struct table *t = &s->table;
	uint32_t width = (uint32_t)t->target.width;
	bool all = whole || r->end == 0;
	uint32_t first = all ? 0 : r->first, end = all ? width : r->end;
	int32_t *mirror = t->mirror + (size_t)r->row * width, *cells = t->row_scratch;
	uint32_t *held = &t->state[r->row].held;
	int code = row_copy(s, r->row, first, end, cells, held);

	if (code == 0 && !all && *held != r->version) {
		first = 0;
		end = width;
		code = row_copy(s, r->row, first, end, cells, held);
	}
	for (uint32_t i = first; code == 0 && i < end; i++) {
		if (!page_is_possible(t, cells[i]))
			code = session_break(s,
					     "the broker's table has page %" PRId32 " in slot %" PRIu32
					     ", column %" PRIu32 "; the pool has pages 0 to %" PRId32,
					     cells[i], r->row, i, t->target.num_pages - 1);
		else if (whole || mirror[i] != cells[i])
			code = update_push(s, r->row, i, cells[i]);
	}
	return code;
}

/* The lines of a row come from the broker's cache, one after the other if nobody asks before. */
#define AHEAD 8

static void row_fetch(const struct table *t, const struct wire_row *r)
{
	size_t width = (size_t)t->target.width;

	__builtin_prefetch(&t->rows[r->row]);
	__builtin_prefetch(t->host + (size_t)r->row * 2 * width + r->first);
	prefetch_to_write(t->mirror + (size_t)r->row * width + r->first);
}

static int answer_rows(struct swakv_session *s, const struct answer *a)
{
	bool by_reference = a->head.flags & WIRE_DELIVERY_BY_REFERENCE;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < a->head.n_rows; i++) {
		struct row *row = &s->table.state[a->rows[i].row];
		uint32_t version = a->rows[i].version;
		bool follows = version == row->delivered + 1;
		bool whole = !follows || row->unsure;
		bool newer = (int32_t)(version - row->held) > 0;

		if (by_reference && i + AHEAD < a->head.n_rows)
			row_fetch(&s->table, &a->rows[i + AHEAD]);
		s->counters.row_faults += !follows;
		row->delivered = version;
		row->unsure = false;
		if (whole || (by_reference && newer))
			r = row_push(s, &a->rows[i], whole);
		else if (newer) {
			row->held = version;
			continue; /* its updates count */
		}
		row->mark--; /* its updates are contained in what was read */
	}
	return r;
}

static int answer_updates(struct swakv_session *s, const struct answer *a)
{
	uint32_t width = (uint32_t)s->table.target.width, row = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < a->head.n_updates; i++) {
		uint32_t cell = a->updates[i].cell;

		if (cell - row * width >= width)
			row = cell / width;
		if (s->table.state[row].mark == s->table.mark)
			r = update_push(s, row, cell - row * width, a->updates[i].page);
	}
	return r;
}

/* ---- to the streams -------------------------------------------------------------------- */

/* The updates are about to be enqueued on @st: its next mark proves them done. */
static void rows_note_stream(struct swakv_session *s, const struct stream *st, const struct swakv_update *updates,
			     size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct slot *slot = &s->slots[updates[i].slot];

		slot->applied = (uint8_t)st->index;
		slot->until = st->marked + 1;
	}
}

/* Gives @n updates to stream @index. On failure their rows are no longer known. */
static int stream_deliver(struct swakv_session *s, uint32_t index, const struct swakv_update *updates, size_t n)
{
	int r;
	struct stream *st = session_stream(s, index, &r);
	bool for_clears;

	if (st) {
		for_clears = stream_arm(st);
		if (s->on_updates)
			s->on_updates(s->on_updates_arg, index, updates, n);
		rows_note_stream(s, st, updates, n);
		r = stream_apply(st, updates, n);
		if (r == 0 && for_clears)
			r = stream_mark(st);
		if (r < 0)
			session_error(s, r, "stream %" PRIu32 ": %s", index, st->why);
	}
	if (r < 0)
		for (size_t i = 0; i < n; i++)
			s->table.state[updates[i].slot].unsure = true;
	return r;
}

/* Sorts the updates by stream, keeping their order within one, and gives them out. */
static int updates_deliver(struct swakv_session *s)
{
	size_t counts[WIRE_MAX_STREAMS] = { 0 };
	size_t starts[WIRE_MAX_STREAMS];
	size_t at = 0;
	int result = 0;

	for (size_t i = 0; i < s->n_updates; i++)
		counts[s->slots[s->updates[i].slot].stream]++;
	for (uint32_t k = 0; s->n_updates > 0 && k < s->welcome.n_streams; k++)
		if (counts[k] == s->n_updates) /* nearly always: nothing to sort */
			return stream_deliver(s, k, s->updates, s->n_updates);
	for (uint32_t k = 0; k < s->welcome.n_streams; k++) {
		starts[k] = at;
		at += counts[k];
	}
	for (size_t i = 0; i < s->n_updates; i++)
		s->sorted[starts[s->slots[s->updates[i].slot].stream]++] = s->updates[i];
	for (uint32_t k = 0; k < s->welcome.n_streams; k++) {
		int r = counts[k] ? stream_deliver(s, k, s->sorted + starts[k] - counts[k], counts[k]) : 0;

		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

static void rows_unsure(struct swakv_session *s, const struct answer *a)
{
	for (uint32_t i = 0; i < a->head.n_rows; i++)
		s->table.state[a->rows[i].row].unsure = true;
}

static void answer_arm(struct swakv_session *s, const struct call *c)
{
	for (uint32_t i = 0; i < c->n_entries; i++)
		if (c->entries[i].result == 0)
			stream_arm(&s->streams[c->entries[i].request->stream]);
}

int delivery_take(struct swakv_session *s, struct call *c, const unsigned char *payload, size_t len, bool arms)
{
	struct answer a = { 0 };
	int r = answer_parse(s, c, payload, len, &a);

	if (r == 0)
		r = answer_check(s, &a);
	if (r == 0)
		r = scrub_check(s, a.scrubs, a.head.n_scrubs);
	if (r == 0)
		r = answer_faults(s, c, &a);
	if (r < 0)
		return r;
	s->n_updates = 0;
	r = answer_rows(s, &a);
	if (r == 0)
		r = answer_updates(s, &a);
	if (r == SWAKV_ENOMEM) {
		rows_unsure(s, &a);
		snprintf(c->why, sizeof(c->why), "no memory for the updates of this step");
	}
	if (r < 0)
		return r;
	if (arms)
		answer_arm(s, c);
	r = scrub_deliver(s, a.scrubs, a.head.n_scrubs);
	if (r == 0)
		r = updates_deliver(s);
	else
		rows_unsure(s, &a);
	if (r < 0)
		snprintf(c->why, sizeof(c->why), "the updates of this step did not all reach the device: %.180s",
			 s->error);
	return r;
}
