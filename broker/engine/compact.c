/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compact.c - batch compaction: which sequences stay, and in which order
 *
 * Rows stay where they are: a survivor keeps its slot, only the batch order
 * changes. On request rows move too, so that sequence j stands in the
 * request's j-th slot. KV is never copied either way.
 */
#include "compact.h"

#include <string.h>

#include "agenda.h"
#include "bug.h"
#include "delivery.h"
#include "fence.h"
#include "internal.h"
#include "slice.h"
#include "transition.h"

/* Each destination in [0, new_batch) exactly once. Uses the sequences' `map` as marks: place i marks destination i. */
static int check_map(struct session *s, struct request *r, const int32_t *map, uint32_t n, int32_t new_batch,
		     struct fault *f)
{
	int code = 0;

	if (n != r->n_seqs)
		return fault_set(f, FAULT_MAP_COUNT, -1, n, r->n_seqs);
	if (new_batch < 0 || new_batch > (int32_t)r->n_seqs)
		return fault_set(f, FAULT_NEW_BATCH, -1, new_batch, r->n_seqs);
	for (uint32_t i = 0; i < n; i++)
		request_seq(s, r, i)->map = -1;
	for (uint32_t i = 0; i < n && !code; i++) {
		if (map[i] < -1 || map[i] >= new_batch) {
			code = fault_set(f, FAULT_MAP_RANGE, (int32_t)i, map[i], new_batch - 1);
			continue;
		}
		if (map[i] < 0)
			continue;
		if (request_seq(s, r, (uint32_t)map[i])->map >= 0)
			code = fault_set(f, FAULT_MAP_TWICE, (int32_t)i, map[i], 0);
		request_seq(s, r, (uint32_t)map[i])->map = (int32_t)i;
	}
	for (int32_t j = 0; j < new_batch && !code; j++)
		if (request_seq(s, r, (uint32_t)j)->map < 0)
			code = fault_set(f, FAULT_MAP_HOLE, -1, j, new_batch);
	return code;
}

int request_compact_begin(struct session *s, uint64_t handle, const int32_t *old_to_new, uint32_t n, int32_t new_batch,
			  uint32_t flags, struct delivery *d, struct fault *f)
{
	struct request *r;
	int code;

	delivery_reset(d);
	if ((code = request_check_executing(s, handle, &r, f)))
		return code;
	if (flags & ~(uint32_t)WIRE_COMPACT_MOVE_ROWS)
		return fault_set(f, FAULT_COMPACT_FLAGS, -1, flags, WIRE_COMPACT_MOVE_ROWS);
	if ((code = check_map(s, r, old_to_new, n, new_batch, f)))
		return code;
	if (points_spare(s) < POINTS_PER_TRANSITION)
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	for (uint32_t i = 0; i < n; i++)
		request_seq(s, r, i)->map = old_to_new[i];
	r->pending_batch = new_batch;
	r->move_rows = flags & WIRE_COMPACT_MOVE_ROWS;
	transition_begin(s, r, TRANSITION_COMPACT);
	delivery_collect(s, r, d);
	return 0;
}

/* The row of sequence @q, lifted into its part of the scratch and cleared. */
static void row_lift(struct session *s, struct group *g, const struct seq *q)
{
	int32_t *saved = s->scratch + (int64_t)q->index * s->scratch_width;
	const struct span *p = seq_span(g, q);
	int32_t left = slice_part(s, INT32_MAX);

	slice_spend(s, 1);
	page_table_open(&g->table, q->slot);
	for (int32_t c = p->begin; c < p->end; c++) {
		saved[c - p->begin] = page_table_get(&g->table, q->slot, c);
		page_table_put(&g->table, q->slot, c, -1);
		slice_step(s, &left, SLICE_CELL);
	}
	slice_rest(s, left);
	page_table_close(&g->table, q->slot);
}

static void row_drop(struct session *s, struct group *g, const struct seq *q, int32_t slot)
{
	const int32_t *saved = s->scratch + (int64_t)q->index * s->scratch_width;
	const struct span *p = seq_span(g, q);
	int32_t left = slice_part(s, INT32_MAX);

	page_table_open(&g->table, slot);
	for (int32_t c = p->begin; c < p->end; c++) {
		page_table_put(&g->table, slot, c, saved[c - p->begin]);
		slice_step(s, &left, SLICE_CELL);
	}
	slice_rest(s, left);
	page_table_close(&g->table, slot);
}

/*
 * Sequence j of the new order moves to the request's j-th slot. Slots are
 * exchanged between sequences, the dropped ones included, so that the last
 * slots are those that become free. All rows of a group are lifted first: never
 * in place.
 */
static void move_rows(struct session *s, struct request *r)
{
	int32_t *slots = s->slot_scratch;

	for (uint32_t i = 0; i < r->n_seqs; i++)
		slots[i] = request_seq(s, r, i)->slot;
	FOR_EACH_GROUP (g, s) {
		int32_t next_free = r->pending_batch;

		for (uint32_t i = 0; i < r->n_seqs; i++)
			row_lift(s, g, request_seq(s, r, i));
		for (uint32_t i = 0; i < r->n_seqs; i++) {
			const struct seq *q = request_seq(s, r, i);
			int32_t slot = slots[q->map >= 0 ? q->map : next_free++];

			row_drop(s, g, q, slot);
			row_list_note(s, g, &r->dirty, slot);
		}
	}
	for (int32_t i = 0, next_free = r->pending_batch; i < (int32_t)r->n_seqs; i++) {
		struct seq *q = request_seq(s, r, (uint32_t)i);

		q->slot = slots[q->map >= 0 ? q->map : next_free++];
		s->slots[q->slot].seq = q->index;
	}
}

/* New order of the survivors; the dropped ones leave, and their pages go to @chains. */
static void reorder(struct session *s, struct request *r, uint64_t slot_value, struct page_chains *chains)
{
	int32_t *order = s->order + r->first, *old = s->slot_scratch;
	uint32_t n = r->n_seqs;

	memcpy(old, order, n * sizeof(*order));
	point_extract(s, r, chains);
	for (uint32_t i = 0; i < n; i++) {
		struct seq *q = &s->seqs[old[i]];

		if (q->map >= 0)
			order[q->map] = old[i];
		else
			request_drop_sequence(s, r, q, slot_value, chains);
		q->map = -1;
	}
	r->n_seqs = (uint32_t)r->pending_batch;
	agenda_build(s, r);
}

int request_compact_complete(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
			     struct delivery *d, struct fault *f)
{
	struct page_chains dropped;
	struct resolved_fence p;
	struct request *r;
	int code;

	delivery_reset(d);
	if ((code = request_find(s, handle, &r, f)))
		return code;
	if ((code = transition_check(r, TRANSITION_COMPACT, f)) || (code = fence_resolve(s, r, fence, armed, &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	transition_end(s, r);
	fence_note(s, r, &p, NULL);
	if (r->move_rows)
		move_rows(s, r);
	page_chains_init(&dropped, s->n_groups);
	reorder(s, r, r->last_value, &dropped);
	r->pending_batch = -1;
	if (r->n_seqs == 0)
		r->phase = PHASE_FINISHING;
	pages_release(s, r->stream, r->last_value, &dropped);
	delivery_collect(s, r, d);
	return 0;
}
