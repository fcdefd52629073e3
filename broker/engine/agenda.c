/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agenda.c - which sequences of a request change at a step
 *
 * Nearly every decode step changes nothing but counts, and a step that does
 * changes few sequences. A heap by the step at which each is due makes a step
 * cost what it changes: a plain one looks at the top and is done.
 */
#include "agenda.h"

#include "slice.h"

static void sift_down(struct session *s, const struct request *r, uint32_t at)
{
	int32_t *heap = s->agenda + r->first, moving = heap[at];
	const struct seq *seqs = s->seqs;
	uint64_t due = seqs[moving].due;
	uint32_t n_seqs = r->n_seqs;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= n_seqs)
			break;
		if (child + 1 < n_seqs && seqs[heap[child + 1]].due < seqs[heap[child]].due)
			child++;
		if (seqs[heap[child]].due >= due)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

/* What its top says, where no other line of memory is needed for it. */
static void note_due(const struct session *s, struct request *r)
{
	r->due = r->n_seqs ? s->seqs[s->agenda[r->first]].due : UINT64_MAX;
}

void agenda_build(struct session *s, struct request *r)
{
	int32_t left = slice_part(s, INT32_MAX);

	for (uint32_t i = 0; i < r->n_seqs; i++)
		s->agenda[r->first + i] = s->order[r->first + i];
	for (uint32_t i = r->n_seqs / 2; i-- > 0;) {
		sift_down(s, r, i);
		slice_step(s, &left, 2);
	}
	slice_rest(s, left);
	note_due(s, r);
}

uint32_t agenda_due(const struct session *s, const struct request *r, uint64_t step)
{
	const int32_t *heap = s->agenda + r->first;
	int32_t *places = s->slot_scratch;
	const struct seq *seqs = s->seqs;
	uint32_t n = 0, n_seqs = r->n_seqs;

	if (r->due > step)
		return 0;
	places[n++] = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t child = 2 * (uint32_t)places[i] + 1;

		if (child >= n_seqs)
			break; /* and so for all behind it: places rise */
		if (seqs[heap[child]].due <= step)
			places[n++] = (int32_t)child;
		if (child + 1 < n_seqs && seqs[heap[child + 1]].due <= step)
			places[n++] = (int32_t)child + 1;
	}
	return n;
}

void agenda_settle(struct session *s, struct request *r, uint32_t n)
{
	/* Children before their parents: each sinks into a part that is in order. */
	int32_t left = slice_part(s, INT32_MAX);

	while (n-- > 0) {
		sift_down(s, r, (uint32_t)s->slot_scratch[n]);
		slice_step(s, &left, 1);
	}
	slice_rest(s, left);
	note_due(s, r);
}
