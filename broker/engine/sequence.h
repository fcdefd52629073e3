/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.h - what a sequence holds in each layer group, and how that moves */
#ifndef SWAKV_ENGINE_SEQUENCE_H
#define SWAKV_ENGINE_SEQUENCE_H

#include "group.h"
#include "page_chain.h"
#include "request.h"

/* What one sequence holds in one group. */
struct span {
	int32_t begin, end; /* retained logical pages of the settled endpoint */
	int32_t n_reserved;
	int32_t n_staged; /* behind open completion points */
	int32_t n_extra;  /* of all its pages: taken for a step beyond its reservation */
};

/* One admitted sequence. */
struct seq {
	int64_t base;  /* its settled endpoint is base + the request's steps */
	int64_t high;  /* highest endpoint settled when its range changed last; see seq_high() */
	uint64_t due;  /* the request's step that changes more than the count */
	int32_t index; /* in the session's seqs */
	int32_t slot;
	int32_t length;  /* of its prefill, 0: none yet */
	int32_t advance; /* tokens of a pending extend */
	int32_t map;     /* destination in a pending compaction */
	int32_t request; /* whose it is: in the session's requests */
};

static inline struct span *seq_span(const struct group *g, const struct seq *q)
{
	return &g->spans[q->index];
}

static inline int32_t *seq_reserved(const struct group *g, const struct seq *q)
{
	return g->reserved + (int64_t)q->index * g->most_reserved;
}

static inline int64_t seq_endpoint(const struct request *r, const struct seq *q)
{
	return q->base + (int64_t)r->steps;
}

/* The highest endpoint it ever settled: steps that change no range only count. */
static inline int64_t seq_high(const struct request *r, const struct seq *q)
{
	int64_t e = seq_endpoint(r, q);

	return e > q->high ? e : q->high;
}

/* Endpoint that the pending transition leads to; the settled one when none (or a compaction) is pending. */
int64_t seq_pending_endpoint(const struct request *r, const struct seq *q);
/* First logical page of @g that the sequence retains at endpoint @e: it never falls. */
static inline int32_t seq_retained_begin(const struct group *g, const struct seq *q, int64_t e)
{
	return window_begin(&g->window, e > q->high ? e : q->high);
}

/* Columns of a row that hold pages: [lo, gap) and [resume, hi). */
struct mapped {
	int32_t lo, gap, resume, hi;
};
/* Where the row of @q would hold pages in a step from its settled endpoint to @e. */
struct mapped seq_mapped_at(const struct session *s, const struct group *g, const struct seq *q, int64_t e);
/* Where it holds pages now. */
struct mapped seq_mapped(const struct session *s, const struct group *g, const struct request *r, const struct seq *q);
/* Binds columns [first, end) of the row, from the reservation, and beyond it from the class; says what is dirty. */
void seq_bind(struct session *s, struct group *g, struct request *r, struct seq *q, int32_t first, int32_t end,
	      struct delivery *d);
/* Pages that leave rows of one request, with a complete or a rewind. */
struct leaving {
	bool through; /* no work of the request is under way: every value that it was given has been reached */
	struct page_chains staged; /* those that wait for the last of these values */
};
/* @value: what the request is being given now, 0: nothing. */
void leaving_init(const struct session *s, const struct request *r, uint64_t value, struct leaving *l);
/* Clears columns [first, end) of the row: their pages return to the sequence now, or wait. */
void seq_unbind(struct session *s, struct group *g, struct request *r, struct seq *q, int32_t first, int32_t end,
		struct leaving *l);
/* @page comes back to @q: to its reservation, or to the class while it holds more than that. */
void seq_give_back(struct group *g, struct seq *q, int32_t page);
/* The sequence has reached @endpoint: what is retained, and when that changes next. */
void seq_settle(struct session *s, const struct request *r, struct seq *q, int64_t endpoint);
/* The same where more may be bound than @endpoint retains: those pages leave the row. */
void seq_settle_back(struct session *s, struct request *r, struct seq *q, int64_t endpoint, struct leaving *l);

#endif
