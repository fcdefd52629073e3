/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weight.c - how much a call may have to do, before it is made
 *
 * Never too little; too much does no harm: whoever drives the engine makes a
 * call that may not fit a pause later. Once it is long nobody counts on, so that
 * asking costs little, too.
 */
#include "weight.h"

#include "agenda.h"
#include "internal.h"
#include "moves.h"
#include "slice.h"

/* For a page that goes out of a row or a reservation, to a chain, and from there to its class: at most so many. */
#define MOVES (2 * SLICE_CELL + 3 + SLICE_PUT)

static bool heavy(uint64_t n)
{
	return n > ENGINE_LONG;
}

/* Cells of a row that a delivery would look at, and the row. */
static uint64_t row_weight(const struct group *g, int32_t slot)
{
	const struct dirty_row *d = &g->table.dirty[slot];

	return 1 + (uint64_t)(d->n ? d->range[d->n - 1].hi - d->range[0].lo : 0);
}

/* Pages of @q in @g that a step of @tokens more or fewer tokens may bind, or take out of the row. */
static uint64_t moved_pages(const struct group *g, const struct request *r, const struct seq *q, int64_t tokens)
{
	int64_t most = tokens > 0 ? tokens : r->transition == TRANSITION_EXTEND ? q->advance : 1;

	if (tokens == WEIGHT_WHOLE || r->transition == TRANSITION_PREFILL || r->phase == PHASE_ADMITTED)
		return (uint64_t)(r->reservation[g->index] + seq_span(g, q)->n_extra);
	return (uint64_t)((most - 1) / g->window.per_page + 1);
}

/* The rows of @list. */
static uint64_t rows_weight(const struct session *s, const struct row_list *list)
{
	int32_t max_batch = s->model.max_batch;
	uint64_t n = 0;

	for (int32_t i = list->first; i >= 0 && !heavy(n); i = s->rows[i].next)
		n += row_weight(&s->groups[i / max_batch], i % max_batch);
	return n;
}

/* Steps of one token, or their ends, move pages of those that are due within @steps. */
static uint64_t decode_weight(const struct session *s, const struct request *r, uint32_t steps)
{
	uint64_t each = (uint64_t)steps * s->n_groups * (2 + MOVES);

	uint32_t due = agenda_due(s, r, r->steps + steps);

	/* Whose fault it is that a step is refused is looked for among all. */
	return rows_weight(s, &r->dirty) + each * due + (due ? (uint64_t)r->n_seqs * s->n_groups : 0);
}

uint64_t request_weight(const struct session *s, uint64_t handle, int64_t tokens)
{
	struct request *r;
	uint64_t n;

	if (request_find(s, handle, &r, NULL) != 0)
		return 0;
	n = rows_weight(s, &s->lines[r->stream].stray) + moves_weight(s, r);
	if ((tokens == WEIGHT_DECODE || tokens == WEIGHT_TURN) && r->phase == PHASE_EXECUTING &&
	    r->transition != TRANSITION_EXTEND)
		return n + decode_weight(s, r, tokens == WEIGHT_TURN ? 2 : 1);
	for (uint32_t i = 0; i < r->n_seqs && !heavy(n); i++) {
		const struct seq *q = request_seq(s, r, i);

		FOR_EACH_GROUP (g, s)
			n += row_weight(g, q->slot) + MOVES * (moved_pages(g, r, q, tokens) + (tokens == WEIGHT_TURN));
	}
	return n;
}

uint64_t begin_weight(const struct session *s, int64_t max_tokens, uint32_t n_slots)
{
	int64_t capacity = max_tokens > 0 && max_tokens < s->model.max_seq ? max_tokens : s->model.max_seq;
	uint64_t n = 0;

	FOR_EACH_GROUP (g, s)
		n += 1 + SLICE_PLACE * (uint64_t)group_reservation(s, g, capacity, true);
	/* Refused for want of pages, it looks at what all sequences of its session hold. */
	return n * n_slots + (uint64_t)s->n_sequences * s->n_groups;
}

uint64_t pages_weight(const struct session *s, uint32_t n, uint64_t fences)
{
	/* As a begin, when it is refused. */
	return (uint64_t)n * MOVES + fences * (1 + s->n_points) + (uint64_t)s->n_sequences * s->n_groups;
}

uint64_t points_weight(const struct session *s)
{
	return (uint64_t)s->n_points * s->n_groups + SLICE_PUT * (uint64_t)s->n_behind;
}

uint64_t fence_weight(const struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t highest)
{
	const struct line *l;
	struct request *r;
	uint64_t value, last, n = 0;

	if (request_find(s, handle, &r, NULL) != 0)
		return 0;
	l = &s->lines[r->stream];
	value = fence->kind == WIRE_FENCE_LINE ? fence->value : r->last_value;
	last = l->last_point < 0 ? 0 : s->points[l->last_point].value;
	if (value < (last > highest ? last : highest)) /* its place in the line is not the last */
		n += s->n_points + (uint64_t)s->model.max_batch;
	/* Those of its own are looked at for one of that value, and of the greatest, unless they rise to it. */
	if (value < r->last_value || (r->n_points && s->points[r->first_point].value != r->last_value))
		n += 2 * ((uint64_t)r->n_points + 1);
	return n;
}

uint64_t session_weight(const struct session *s)
{
	uint64_t n = (uint64_t)s->n_sequences * s->n_groups + s->n_points;

	FOR_EACH_GROUP (g, s)
		n += MOVES * (uint64_t)g->n_held + (g->n_managed ? managed_words(s, g) : 0);
	return n;
}
