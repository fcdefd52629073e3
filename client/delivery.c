/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery.c - from an answer to the device tables, one of each layer group
 *
 * Updates go to the stream that the slot's last request was bound to,
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
 * Order on a stream: the line is armed, dirty pages are scrubbed, pages that have
 * moved are copied (moves.h), then group
 * after group the caller is told (on_updates) and the updates are enqueued. A
 * line that was armed only to carry clears is marked at once; one that was armed
 * for a step is left to the step's own mark.
 */
#include "delivery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "clock.h"
#include "moves.h"
#include "request.h"
#include "scrub.h"
#include "stream/session_stream.h"

#define ROW_WAIT_NS 1000000000ull

/* ---- collecting the updates --------------------------------------------------------- */

static int updates_grow(struct table *t)
{
	size_t cap = t->cap_updates ? 2 * t->cap_updates : 1024;
	struct swakv_update *more = reallocarray(t->updates, cap, sizeof(*more));
	struct swakv_update *sorted;

	if (!more)
		return SWAKV_ENOMEM;
	t->updates = more;
	sorted = reallocarray(t->sorted, cap, sizeof(*sorted));
	if (!sorted)
		return SWAKV_ENOMEM;
	t->sorted = sorted;
	t->cap_updates = cap;
	return 0;
}

/* @cell is the mirror's of that slot and column. */
static inline int update_push(struct table *t, uint32_t slot, uint32_t column, int32_t *cell, int32_t page)
{
	if (t->n_updates == t->cap_updates && updates_grow(t) < 0)
		return SWAKV_ENOMEM;
	t->updates[t->n_updates++] = (struct swakv_update){
		.slot = (int32_t)slot, .column = (int32_t)column, .page = page, .old_page = *cell
	};
	*cell = page;
	return 0;
}

/*
 * Copies the K ids of the row of @slot, columns [first, end), to the table's
 * scratch, as the broker has them now; *@version is what they are of.
 * SWAKV_EGONE: the row stays locked for ever.
 */
static int row_copy(struct swakv_session *s, const struct table *t, uint32_t slot, uint32_t first, uint32_t end,
		    uint32_t *version)
{
	const struct wire_row_head *head = &t->rows[slot];
	const volatile int32_t *cells = t->host + (size_t)slot * t->row_cells;
	uint64_t deadline = 0;

	for (uint32_t tries = 1;; tries++) {
		uint32_t sequence = load_acquire(&head->sequence);

		if (!(sequence & 1)) {
			for (uint32_t i = first; i < end; i++)
				t->row_scratch[i] = cells[i];
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
			return session_break(s, "the broker died while it wrote row %" PRIu32 " of the page tables",
					     t->first_row + slot);
	}
}

/*
 * Reads @r from the host table and pushes what differs from the mirror, or,
 * when @whole, every entry. Only the columns that the broker names are looked
 * at, unless the row has moved on: then a later answer says what else changed,
 * and will be skipped.
 */
static int row_push(struct swakv_session *s, struct table *t, const struct wire_row *r, bool whole)
{
	bool all = whole || r->end == 0;
	uint32_t slot = r->row - t->first_row, first = all ? 0 : r->first, end = all ? t->width : r->end;
	int32_t *mirror = t->mirror + (size_t)slot * t->width, *cells = t->row_scratch;
	uint32_t *held = &t->state[slot].held;
	int code = row_copy(s, t, slot, first, end, held);

	if (code == 0 && !all && *held != r->version) {
		first = 0;
		end = t->width;
		code = row_copy(s, t, slot, first, end, held);
	}
	for (uint32_t i = first; code == 0 && i < end; i++) {
		if (!page_is_possible(t->target->num_pages, cells[i]))
			code = session_break(s,
					     "the broker's table has page %" PRId32 " in slot %" PRIu32
					     ", column %" PRIu32 "; the pool has pages 0 to %" PRId32,
					     cells[i], slot, i, t->target->num_pages - 1);
		else if (whole || mirror[i] != cells[i])
			code = update_push(t, slot, i, &mirror[i], cells[i]);
	}
	return code;
}

/* The lines of a row come from the broker's cache, one after the other if nobody asks before. */
#define AHEAD 8

static void row_fetch(struct swakv_session *s, const struct wire_row *r)
{
	const struct table *t = session_row_table(s, r->row);
	size_t slot = r->row - t->first_row;

	__builtin_prefetch(&t->rows[slot]);
	__builtin_prefetch(t->host + slot * t->row_cells + r->first);
	prefetch_to_write(t->mirror + slot * t->width + r->first);
}

static int answer_rows(struct swakv_session *s, const struct answer *a)
{
	bool by_reference = a->head.flags & WIRE_DELIVERY_BY_REFERENCE;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < a->head.n_rows; i++) {
		struct table *t = session_row_table(s, a->rows[i].row);
		struct row *row = &t->state[a->rows[i].row - t->first_row];
		uint32_t version = a->rows[i].version;
		bool follows = version == row->delivered + 1;
		bool whole = !follows || row->unsure;
		bool newer = (int32_t)(version - row->held) > 0;

		if (by_reference && i + AHEAD < a->head.n_rows)
			row_fetch(s, &a->rows[i + AHEAD]);
		s->counters.row_faults += !follows;
		row->delivered = version;
		row->unsure = false;
		if (whole || (by_reference && newer))
			r = row_push(s, t, &a->rows[i], whole);
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
	struct place at = { 0 };
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < a->head.n_updates; i++) {
		uint32_t cell = a->updates[i].cell, column;

		place_move(s, &at, cell);
		column = cell - at.first;
		if (at.marked)
			r = update_push(at.t, at.slot, column, &at.mirror[column], a->updates[i].page);
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

		if (i > 0 && updates[i].slot == updates[i - 1].slot)
			continue;
		slot->applied = (uint8_t)st->index;
		slot->until = st->marked + 1;
	}
}

/* Gives those of @t's updates that are for @st to it. */
static int table_deliver(struct swakv_session *s, struct stream *st, struct table *t)
{
	size_t n = t->starts[st->index + 1] - t->starts[st->index];
	uint32_t group = (uint32_t)(t - s->tables);
	const struct swakv_update *updates;

	if (n == 0)
		return 0;
	updates = t->updates + t->starts[st->index];
	if (s->on_updates)
		s->on_updates(s->on_updates_arg, st->index, group, updates, n);
	rows_note_stream(s, st, updates, n);
	return stream_apply(st, group, updates, n);
}

static void stream_rows_unsure(struct swakv_session *s, uint32_t index)
{
	for (uint32_t g = 0; g < s->welcome.n_groups; g++) {
		struct table *t = &s->tables[g];

		for (size_t i = t->starts[index]; i < t->starts[index + 1]; i++)
			t->state[t->updates[i].slot].unsure = true;
	}
}

/* Gives stream @index its updates, of all groups. On failure their rows are no longer known. */
static int stream_deliver(struct swakv_session *s, uint32_t index)
{
	int r;
	struct stream *st = session_stream(s, index, &r);
	bool for_clears;

	if (st) {
		for_clears = stream_arm(st);
		for (uint32_t g = 0; r == 0 && g < s->welcome.n_groups; g++)
			r = table_deliver(s, st, &s->tables[g]);
		if (r == 0 && for_clears)
			r = stream_mark(st);
		if (r < 0)
			session_error(s, r, "stream %" PRIu32 ": %s", index, st->why);
	}
	if (r < 0)
		stream_rows_unsure(s, index);
	return r;
}

/* Sorts a table's updates by stream, keeping their order within one. */
static void table_sort(struct swakv_session *s, struct table *t)
{
	size_t counts[WIRE_MAX_STREAMS] = { 0 }, *starts = t->starts;
	struct swakv_update *sorted = t->sorted;

	if (s->welcome.n_streams == 1) {
		starts[0] = 0;
		starts[1] = t->n_updates;
		return;
	}
	for (size_t i = 0; i < t->n_updates; i++)
		counts[s->slots[t->updates[i].slot].stream]++;
	starts[0] = 0;
	for (uint32_t k = 0; k < s->welcome.n_streams; k++) {
		starts[k + 1] = starts[k] + counts[k];
		if (counts[k] < t->n_updates)
			counts[k] = starts[k]; /* from here on where its next one goes */
		else
			sorted = NULL; /* nearly always: all are of one stream */
	}
	if (!sorted)
		return;
	for (size_t i = 0; i < t->n_updates; i++)
		sorted[counts[s->slots[t->updates[i].slot].stream]++] = t->updates[i];
	t->sorted = t->updates;
	t->updates = sorted;
}

static int updates_deliver(struct swakv_session *s)
{
	uint32_t n_groups = s->welcome.n_groups;
	size_t n = 0;
	int result = 0;

	for (uint32_t g = 0; g < n_groups; g++)
		n += s->tables[g].n_updates;
	for (uint32_t g = 0; n > 0 && g < n_groups; g++)
		table_sort(s, &s->tables[g]);
	for (uint32_t k = 0; n > 0 && k < s->welcome.n_streams; k++) {
		size_t mine = 0;
		int r;

		for (uint32_t g = 0; g < n_groups; g++)
			mine += s->tables[g].starts[k + 1] - s->tables[g].starts[k];
		r = mine ? stream_deliver(s, k) : 0;
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

static void rows_unsure(struct swakv_session *s, const struct answer *a)
{
	for (uint32_t i = 0; i < a->head.n_rows; i++) {
		struct table *t = session_row_table(s, a->rows[i].row);

		t->state[a->rows[i].row - t->first_row].unsure = true;
	}
}

static void answer_arm(struct swakv_session *s, const struct call *c)
{
	uint32_t last = UINT32_MAX; /* stream: nearly always all are of one */

	for (uint32_t i = 0; i < c->n_entries; i++) {
		const struct call_entry *e = &c->entries[i];

		if (e->request->stream == last || e->result != 0 || (e->what && !(e->what & SWAKV_TURN_PREPARE)))
			continue;
		last = e->request->stream;
		stream_arm(&s->streams[last]);
	}
}

/* The copies of pages that have moved come before whatever names their new places. 0, or why they did not all go. */
static int answer_moves(struct swakv_session *s, struct call *c, const struct answer *a, int r)
{
	if (a->n_moves == 0)
		return r;
	if (r == 0)
		r = moves_deliver(s, a->moves, a->n_moves);
	if (r < 0)
		moves_lost(s, c);
	return r;
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
		r = moves_check(s, a.moves, a.n_moves);
	if (r == 0)
		r = answer_entries(s, c, &a);
	if (r < 0)
		return r;
	for (uint32_t g = 0; g < s->welcome.n_groups; g++)
		s->tables[g].n_updates = 0;
	r = answer_rows(s, &a);
	if (r == 0)
		r = answer_updates(s, &a);
	if (r == SWAKV_ENOMEM) {
		(void)answer_moves(s, c, &a, r);
		rows_unsure(s, &a);
		snprintf(c->why, sizeof(c->why), "no memory for the updates of this step");
	}
	if (r < 0)
		return r;
	if (arms)
		answer_arm(s, c);
	r = scrub_deliver(s, a.scrubs, a.head.n_scrubs);
	r = answer_moves(s, c, &a, r);
	if (r == 0)
		r = updates_deliver(s);
	else
		rows_unsure(s, &a);
	if (r < 0)
		snprintf(c->why, sizeof(c->why), "the updates of this step did not all reach the device: %.180s",
			 s->error);
	return r;
}
