/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agenda.c - which sequences of a request change at a step
 *
 * Nearly every decode step changes nothing but counts, and a step that does
 * changes few sequences. A heap by the step at which each is due makes a step
 * cost what it changes: a plain one looks at the top and is done.
 */
#include "internal.h"

static void sift_down(struct session *s, const struct request *r, uint32_t at)
{
	int32_t *heap = s->agenda + r->first, moving = heap[at];
	uint64_t due = s->seqs[moving].due;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= r->n_seqs)
			break;
		if (child + 1 < r->n_seqs && s->seqs[heap[child + 1]].due < s->seqs[heap[child]].due)
			child++;
		if (s->seqs[heap[child]].due >= due)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moving;
}

void agenda_build(struct session *s, const struct request *r)
{
	for (uint32_t i = 0; i < r->n_seqs; i++)
		s->agenda[r->first + i] = s->order[r->first + i];
	for (uint32_t i = r->n_seqs / 2; i-- > 0;)
		sift_down(s, r, i);
}

uint32_t agenda_due(struct session *s, const struct request *r, uint64_t step)
{
	int32_t *places = s->slot_scratch;
	uint32_t n = 0;

	if (r->n_seqs == 0 || agenda_seq(s, r, 0)->due > step)
		return 0;
	places[n++] = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t child = 2 * (uint32_t)places[i] + 1;

		for (uint32_t k = child; k < child + 2 && k < r->n_seqs; k++)
			if (agenda_seq(s, r, (int32_t)k)->due <= step)
				places[n++] = (int32_t)k;
	}
	return n;
}

void agenda_settle(struct session *s, const struct request *r, uint32_t n)
{
	/* Children before their parents: each sinks into a part that is in order. */
	while (n-- > 0)
		sift_down(s, r, (uint32_t)s->slot_scratch[n]);
}
