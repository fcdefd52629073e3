/* SPDX-License-Identifier: Apache-2.0 */
/* totals.c - see totals.h */
#include "totals.h"

#include "internal.h"
#include "slice.h"

/* Tokens that the steps of requests which have not ended have settled. */
static uint64_t steps_of_live(struct session *s)
{
	int32_t left = slice_part(s, INT32_MAX);
	uint64_t n = 0;

	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next) {
		n += s->requests[i].steps * s->requests[i].n_seqs;
		slice_step(s, &left, 1);
	}
	slice_rest(s, left);
	return n;
}

void session_total(struct session *s, struct session_totals *out)
{
	*out = (struct session_totals){ .prefilled = s->n_prefilled };
	out->stepped = s->n_stepped + steps_of_live(s);
	FOR_EACH_GROUP (g, s) {
		out->pages_taken += g->n_taken;
		out->pages_returned += g->n_taken - (uint64_t)g->n_held;
		out->pages_scrubbed += g->n_scrubbed;
		out->pages_moved += g->n_moved;
		out->pages_yielded += g->n_yielded;
	}
}
