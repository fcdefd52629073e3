/* SPDX-License-Identifier: Apache-2.0 */
/* tallies.c - see tallies.h */
#include "tallies.h"

#include <string.h>

/* What the copy of one comes to, in the engine's operations. */
#define TALLY_OPERATIONS 16

static struct status_totals totals_of(const struct session_totals *t)
{
	return (struct status_totals){
		.prefilled = t->prefilled,
		.stepped = t->stepped,
		.pages_taken = t->pages_taken,
		.pages_returned = t->pages_returned,
		.pages_scrubbed = t->pages_scrubbed,
		.pages_moved = t->pages_moved,
		.pages_yielded = t->pages_yielded,
	};
}

void status_fill_totals(struct status_totals *out, struct session *x)
{
	struct session_totals t;

	session_total(x, &t);
	*out = totals_of(&t);
}

static void totals_add(struct status_totals *to, const struct status_totals *x)
{
	to->prefilled += x->prefilled;
	to->stepped += x->stepped;
	to->pages_taken += x->pages_taken;
	to->pages_returned += x->pages_returned;
	to->pages_scrubbed += x->pages_scrubbed;
	to->pages_moved += x->pages_moved;
	to->pages_yielded += x->pages_yielded;
}

static struct status_admissions admissions_of(const struct tally *y, enum tally_kind kind)
{
	return (struct status_admissions){ .admitted = y->admitted[kind],
					   .waited = y->waited[kind],
					   .refused = y->refused[kind] };
}

static void fill_denials(struct status_snapshot *s, const struct tally *y, enum tally_kind kind)
{
	for (uint32_t i = 0; y->refused[kind] && i < FAULT_REASON_COUNT; i++) {
		if (!y->refused_by[kind][i])
			continue;
		if (s->n_denials == STATUS_MAX_DENIALS) {
			s->truncated = 1;
			return;
		}
		s->denials[s->n_denials++] = (struct status_denial){
			.tally = s->n_tallies,
			.takes = kind == TALLY_TAKE,
			.reason = (uint16_t)i,
			.n = y->refused_by[kind][i],
		};
	}
}

static void fill_tally(struct status_snapshot *s, const struct tally *y)
{
	struct status_tally *out = &s->tallies[s->n_tallies];

	fill_denials(s, y, TALLY_BEGIN);
	fill_denials(s, y, TALLY_TAKE);
	s->n_tallies++;
	memcpy(out->model, y->model, sizeof(out->model));
	out->begins = admissions_of(y, TALLY_BEGIN);
	out->takes = admissions_of(y, TALLY_TAKE);
	out->prepare = y->prepare;
	out->step = y->step;
	out->wait = y->wait;
}

void status_fill_tallies(struct status_snapshot *s, struct ring_thread *t)
{
	struct channel *c;

	for (uint32_t i = 0; i < t->tallies.n; i++) {
		fill_tally(s, &t->tallies.all[i]);
		engine_spend(t->engine, TALLY_OPERATIONS);
	}
	/* In one go: a session that leaves is in what has ended, and in no list. */
	for (uint32_t i = 0; i < s->n_tallies; i++)
		s->tallies[i].totals = totals_of(&t->tallies.all[i].ended);
	TAILQ_FOREACH (c, &t->channels, link)
		if (c->tally && c->shown >= 0)
			totals_add(&s->tallies[c->tally - t->tallies.all].totals, &s->sessions[c->shown].totals);
}
