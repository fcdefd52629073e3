/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the engine's own structures
 *
 * Everything is sized when a session is made: no command allocates. Indices
 * stand for pointers (-1: none), so arrays stay flat and small.
 */
#ifndef SWAKV_ENGINE_INTERNAL_H
#define SWAKV_ENGINE_INTERNAL_H

#include <sys/queue.h>

#include "engine.h"
#include "page_table.h"
#include "pool.h"
#include "provision.h"
#include "quota.h"
#include "row_list.h"
#include "window.h"

/* What one sequence holds in one group. */
struct span {
	int32_t begin, end; /* retained logical pages of the settled endpoint */
	int32_t n_reserved;
	int32_t n_staged; /* behind open completion points */
	int32_t n_extra;  /* of all its pages: taken for a step beyond its reservation */
};

/* One layer group of a session. */
struct group {
	struct page_class *class;
	uint32_t index; /* in the session */
	uint64_t page_bytes;
	uint32_t class_index;
	uint32_t serial;      /* names the group to the page class, for as long as the engine lives */
	struct window window; /* what is retained: W and max_rewind; of a full group everything */
	struct page_table table;
	int32_t most_reserved; /* for any sequence */
	int64_t n_held;        /* pages leased or in quarantine */
	int64_t n_leaving;     /* of these: behind open points, on their way to the class */
	int64_t n_promised;    /* of these: not placed yet (slice.h) */
	struct span *spans;    /* [max_batch], by sequence */
	int32_t *reserved;     /* [max_batch][most_reserved]: stack of each sequence */
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
};

struct request {
	uint32_t generation; /* of the handle; counts up each time the entry is used */
	uint8_t phase;       /* enum phase; PHASE_NONE: the entry is free */
	uint8_t transition;  /* enum transition */
	bool move_rows;      /* of the pending compaction */
	bool unordered;      /* its stream keeps no order between its steps */
	uint32_t stream;
	uint32_t n_seqs;
	uint32_t first;        /* its sequences: order[first .. first + n_seqs), and the same part of agenda */
	uint64_t steps;        /* decode steps settled since the prefill */
	struct row_list dirty; /* rows of it that may differ from what was delivered */
	int32_t pending_batch; /* of the pending compaction, else -1 */
	int64_t capacity;      /* tokens of each sequence */
	uint64_t last_value;   /* greatest fence value it was given, 0: none */
	int32_t first_point;   /* its open points, chained by same_request */
	uint32_t n_points;
	int32_t prev, next;                   /* live requests of the session; `next` also chains free entries */
	int32_t reservation[WIRE_MAX_GROUPS]; /* pages of each sequence */
};

/*
 * Leased pages of one group on their way out, chained by the class's link; grown
 * at its end so that the order is kept.
 */
struct page_chain {
	int32_t first, last;
	int32_t n;
};
#define PAGE_CHAIN_EMPTY ((struct page_chain){ -1, -1, 0 })

/* One chain a group; those of groups that the session lacks are not looked at. */
struct page_chains {
	struct page_chain of[WIRE_MAX_GROUPS];
};

/* An open completion point: pages that wait for a value of one line. They lie in the session's point_pages. */
struct point {
	uint64_t value;
	int32_t prev, next;   /* in the line's order; `next` also chains free entries */
	int32_t same_request; /* next point of the same request */
	int32_t request;      /* entry whose sequences get the pages back; -1: they go to the class */
	uint32_t line;
	uint64_t stamp; /* when it was opened */
};

struct line {
	uint64_t reached;
	int32_t first_point, last_point; /* by value, ascending */
	struct row_list stray;           /* rows without owner that wait for the next delivery on this stream */
	struct page_chains quarantine;
};

struct slot {
	int32_t seq;          /* admitted sequence, -1: none */
	uint32_t generation;  /* rises at each admission */
	uint32_t line;        /* of its last tenant */
	uint64_t value;       /* other streams may use the slot when line has reached this */
	bool seen;            /* scratch of a check */
	bool waiting;         /* held by a request that waits; then */
	int32_t next_waiting; /* its next slot */
};

struct session {
	LIST_ENTRY(session) siblings;
	LIST_ENTRY(session) sharers; /* of its quota */
	struct engine *engine;
	struct quota *quota;
	uint32_t tag;
	uint32_t n_groups;
	struct model model;
	struct group groups[WIRE_MAX_GROUPS];
	struct group *groups_end;
	bool poisoned;
	bool ended;
	bool busy;       /* a call about it is in the middle of its work */
	uint64_t change; /* counts everything that a state query could see */

	struct seq *seqs;      /* [max_batch] */
	struct row *rows;      /* [n_groups][max_batch] */
	int32_t *scratch;      /* [max_batch][scratch_width]: rows on the move */
	int32_t scratch_width; /* of the group that reserves most */
	int32_t *slot_scratch; /* [max_batch] */
	int32_t *free_seqs;
	uint32_t n_free_seqs;
	struct slot *slots; /* [max_batch] */

	struct request *requests; /* [max_batch] */
	int32_t first_request, free_request;
	uint32_t n_requests, n_sequences, n_transitions;
	int32_t *order;  /* [2 * max_batch] */
	int32_t *agenda; /* [2 * max_batch]: the sequences of each request as a heap by `due` */
	uint32_t order_top;

	struct wait *waits; /* [ENGINE_MAX_WAITS] */
	struct wait *free_wait;
	uint32_t n_waits;

	struct point *points;
	struct page_chain *point_pages; /* [max_points][n_groups] */
	int32_t free_point;
	uint32_t n_points, max_points;
	struct line lines[WIRE_MAX_STREAMS];
};

/* See slice.h. */
struct slice {
	uint32_t most;    /* operations */
	uint32_t part;    /* of these: what is done between two looks at the count */
	uint32_t spent;   /* since the driver's last look */
	uint32_t longest; /* ever spent */
	bool paused;      /* the driver is being called */
	uint64_t total, pauses;
	void (*pause)(void *arg);
	void *arg;
};

struct engine {
	struct pool pool;
	struct slice slice;
	uint32_t last_serial;
	uint64_t stamp; /* of what happens now */
	LIST_HEAD(, session) sessions;

	struct quota_list quotas;
	uint32_t n_floors; /* of them */
	uint64_t stamps_a_ms, wait_claim, claim_hold, claim_max;
	uint32_t n_claims;
	bool claims_lifted;     /* some of them */
	struct wait_list waits; /* oldest first */
	uint32_t n_waiting;
	uint64_t last_wait;     /* number */
	uint64_t returned_seen; /* of pool.returned: what changed since may help somebody */
	bool retry;             /* so may something else */
	bool hindered;          /* a head waits for points or entries of its own session */
	bool doomed;            /* somebody's refusal is set */
	bool admitting;         /* one that waits is being tried */
	struct wait *next_try;  /* of the sweep that is going on; NULL: none is */
	uint64_t next_due;      /* stamp: a begin's */
	uint64_t claims_due;    /* a claim's, 0: none */
};

/* A complete may open two points (the request's own, and one of dropped sequences), a finish one. */
#define POINTS_PER_TRANSITION 2
static inline uint32_t points_spare(const struct session *s)
{
	return s->max_points - s->n_points - POINTS_PER_TRANSITION * s->n_transitions - s->n_requests;
}

/* ---- request.c ---- */

/* The live request of @handle. 0, or why there is none: the session has ended, or the request, or it never was. */
int request_find(const struct session *s, uint64_t handle, struct request **r, struct fault *f);
uint64_t request_handle(const struct session *s, const struct request *r);

static inline struct seq *request_seq(const struct session *s, const struct request *r, uint32_t i)
{
	return &s->seqs[s->order[r->first + i]];
}

/* Walks the groups of @s. */
#define FOR_EACH_GROUP(g, s) for (__typeof__(&(s)->groups[0]) g = (s)->groups; g < (s)->groups_end; g++)

static inline struct span *seq_span(const struct group *g, const struct seq *q)
{
	return &g->spans[q->index];
}

static inline int32_t *seq_reserved(const struct group *g, const struct seq *q)
{
	return g->reserved + (int64_t)q->index * g->most_reserved;
}

/* Number of a slot's row of @g over all groups. */
static inline int32_t group_row(const struct group *g, int32_t slot)
{
	return (int32_t)g->table.first_row + slot;
}

/* What every prepare refuses first: an ended or poisoned session, a handle that is not live. */
int request_check_prepare(struct session *s, uint64_t handle, struct request **out, struct fault *f);
/* The same, and then a request that is not executing, or between a prepare and its complete. */
int request_check_executing(struct session *s, uint64_t handle, struct request **out, struct fault *f);

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

/* ---- sequence.c ---- */

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
/* Pages of @g that a sequence of up to @capacity tokens reserves; @unordered: on a stream that keeps no order. */
int32_t group_reservation(const struct session *s, const struct group *g, int64_t capacity, bool unordered);

/* ---- points.c ---- */

/* Appends @page, marked with @owner (a sequence index, or -1). */
static inline void page_chain_add(struct page_class *c, struct page_chain *chain, int32_t page, int32_t owner)
{
	c->link[page] = -1;
	c->owner[page] = owner;
	if (chain->n++ == 0)
		chain->first = page;
	else
		c->link[chain->last] = page;
	chain->last = page;
}

static inline void page_chains_init(const struct session *s, struct page_chains *c)
{
	for (uint32_t i = 0; i < s->n_groups; i++)
		c->of[i] = PAGE_CHAIN_EMPTY;
}
/* Pages on all chains. */
int64_t page_chains_count(const struct session *s, const struct page_chains *c);

/*
 * Opens a point of @r (NULL: the pages go to their classes) at @value; one of the
 * same request and value takes them along. @pages NULL: none.
 */
void point_open(struct session *s, uint32_t line, uint64_t value, struct request *r, const struct page_chains *pages);
/* Closes all points of @r; their pages are appended to @chains. */
void point_absorb(struct session *s, struct request *r, struct page_chains *chains);
/* Takes the pages of sequences that a compaction drops (map -1) out of the points of @r and appends them to @chains. */
void point_extract(struct session *s, struct request *r, struct page_chains *chains);
/* Pages of @chains return to their classes now, or when @line reaches @value. */
void pages_release(struct session *s, uint32_t line, uint64_t value, const struct page_chains *chains);
/* Pages of @chains go to the quarantine of @line. */
void pages_quarantine(struct session *s, uint32_t line, const struct page_chains *chains);
/* Pages of ended requests that still wait behind a point of @line join the quarantine. */
void line_quarantine(struct session *s, uint32_t line);
/* Every page in quarantine of @line returns to its class; how many. */
int64_t quarantine_release(struct session *s, uint32_t line);
int64_t session_quarantined(const struct session *s);
/* Chain of group @g in point @p. */
static inline struct page_chain *point_chain(const struct session *s, const struct point *p, uint32_t g)
{
	return &s->point_pages[(uint64_t)(p - s->points) * s->n_groups + g];
}

/* ---- step.c, extend.c ---- */

void transition_begin(struct session *s, struct request *r, enum transition t);
void transition_end(struct session *s, struct request *r);
int transition_check(const struct request *r, enum transition t, struct fault *f);
struct resolved_fence;
/* The request's work has been completed with fence @p: a point, unless it was reached. @l NULL: no pages leave. */
void note_fence(struct session *s, struct request *r, const struct resolved_fence *p, const struct leaving *l);

/* Counts of one entry: @of one a sequence, or NULL: @each for all. */
struct counts {
	const int32_t *of;
	int32_t each;
};
/* A step of more than one token, or of tokens that differ. Phase, transition and room for points have been checked. */
int extend_prepare(struct session *s, struct request *r, const struct counts *tokens, struct delivery *d,
		   struct fault *f);
/* Completes a step or an extend; @accepted->each 0 (and no list): all. */
int extend_complete(struct session *s, struct request *r, const struct counts *accepted, const struct wire_fence *fence,
		    uint64_t armed, struct fault *f);

/* Admits @b if that can be done now: 0, or the code of why not. */
int request_admit(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f);
/* True when only open points of @s itself stand in the way of @b, which needs @needs. */
bool request_waits_for_itself(struct session *s, const struct begin *b, const int64_t *needs);

/*
 * Ends @r: rows cleared, slots free, all its pages on @chains (NULL, when no point
 * of it is open: back to their classes), its entry free.
 */
void request_dissolve(struct session *s, struct request *r, uint64_t slot_value, struct page_chains *chains);
/* Sequence @q leaves @r: rows cleared, slot free (for other streams from @slot_value on), all its pages on @chains. */
void request_drop_sequence(struct session *s, struct request *r, struct seq *q, uint64_t slot_value,
			   struct page_chains *chains);
/* The completion of @r failed: it is quarantined whole and the session poisoned. Returns SWAKV_EPOISONED. */
int request_poison(struct session *s, struct request *r, struct fault *f);

#endif
