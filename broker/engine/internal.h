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
#include "page_class.h"
#include "page_table.h"
#include "window.h"

/* Rows that have something to send, chained by their slots; -1: empty. */
struct row_list {
	int32_t first, last;
};
#define ROW_LIST_EMPTY ((struct row_list){ -1, -1 })

/* One admitted sequence. */
struct seq {
	int64_t base;       /* its settled endpoint is base + the request's steps */
	uint64_t due;       /* the request's step that changes more than the count */
	int32_t begin, end; /* retained logical pages of the settled endpoint */
	int32_t slot;
	int32_t n_reserved;
	int32_t n_staged; /* behind open completion points */
	int32_t length;   /* of its prefill, 0: none yet */
	int32_t map;      /* destination in a pending compaction */
};

struct request {
	uint32_t generation; /* of the handle; counts up each time the entry is used */
	uint8_t phase;       /* enum phase; PHASE_NONE: the entry is free */
	uint8_t transition;  /* enum transition */
	bool move_rows;      /* of the pending compaction */
	uint32_t stream;
	uint32_t n_seqs;
	uint32_t first;        /* its sequences: order[first .. first + n_seqs), and the same part of agenda */
	uint64_t steps;        /* decode steps settled since the prefill */
	struct row_list dirty; /* rows of it that may differ from what was delivered */
	int32_t pending_batch; /* of the pending compaction, else -1 */
	int32_t reservation;   /* pages of each sequence */
	int64_t capacity;      /* tokens of each sequence */
	uint64_t last_value;   /* greatest fence value it was given, 0: none */
	int32_t first_point;   /* its open points, chained by same_request */
	uint32_t n_points;
	int32_t prev, next; /* live requests of the session; `next` also chains free entries */
};

/* Leased pages on their way out, chained by the class's link; grown at its end so that the order is kept. */
struct page_chain {
	int32_t first, last;
	int32_t n;
};
#define PAGE_CHAIN_EMPTY ((struct page_chain){ -1, -1, 0 })

/* An open completion point: pages that wait for a value of one line. */
struct point {
	uint64_t value;
	int32_t prev, next;   /* in the line's order; `next` also chains free entries */
	int32_t same_request; /* next point of the same request */
	int32_t request;      /* entry whose sequences get the pages back; -1: they go to the class */
	struct page_chain pages;
	uint32_t line;
	uint64_t stamp; /* when it was opened */
};

struct line {
	uint64_t reached;
	int32_t first_point, last_point; /* by value, ascending */
	struct row_list stray;           /* rows without owner that wait for the next delivery on this stream */
	struct page_chain quarantine;
};

struct slot {
	int32_t seq;         /* admitted sequence, -1: none */
	uint32_t generation; /* rises at each admission */
	uint32_t line;       /* of its last tenant */
	uint64_t value;      /* other streams may use the slot when line has reached this */
	int32_t list_prev, list_next;
	bool listed; /* in its request's dirty list, or its line's stray list */
	bool seen;   /* scratch of a check */
};

struct session {
	LIST_ENTRY(session) siblings;
	struct engine *engine;
	struct page_class *class;
	uint32_t class_index;
	uint32_t tag;
	uint32_t serial; /* names the session to the page class, for as long as the engine lives */
	struct model model;
	struct window window;
	struct page_table table;
	int32_t private_pages;
	bool poisoned;
	bool ended;
	uint64_t change; /* counts everything that a state query could see */

	struct seq *seqs;      /* [max_batch] */
	int32_t *reserved;     /* [max_batch][private_pages]: stack of each sequence */
	int32_t *scratch;      /* [max_batch][private_pages]: rows on the move */
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

	struct point *points;
	int32_t free_point;
	uint32_t n_points, max_points;
	struct line lines[WIRE_MAX_STREAMS];
};

struct engine {
	struct pool pool;
	uint32_t last_serial;
	uint64_t stamp; /* of what happens now */
	LIST_HEAD(, session) sessions;
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

static inline int32_t *seq_reserved(const struct session *s, const struct seq *q)
{
	return s->reserved + (int64_t)(q - s->seqs) * s->private_pages;
}

/* What every prepare refuses first: an ended or poisoned session, a handle that is not live. */
int request_check_prepare(struct session *s, uint64_t handle, struct request **out, struct fault *f);

static inline int64_t seq_endpoint(const struct request *r, const struct seq *q)
{
	return q->base + (int64_t)r->steps;
}

/* Endpoint that the pending transition leads to; the settled one when none (or a compaction) is pending. */
int64_t seq_pending_endpoint(const struct request *r, const struct seq *q);
/* Columns [*lo, *hi) of the sequence's row that hold pages now. */
void seq_mapped(const struct session *s, const struct request *r, const struct seq *q, int32_t *lo, int32_t *hi);

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

/* Opens a point of @r (NULL: the pages go to the class) at @value; one of the same request and value takes them along.
 */
void point_open(struct session *s, uint32_t line, uint64_t value, struct request *r, const struct page_chain *pages);
/* Closes all points of @r; their pages are appended to @chain. */
void point_absorb(struct session *s, struct request *r, struct page_chain *chain);
/* Takes the pages of sequence @seq out of the points of @r and appends them to @chain. */
void point_extract(struct session *s, struct request *r, int32_t seq, struct page_chain *chain);
/* Pages of @chain return to the class now, or when @line reaches @value. */
void pages_release(struct session *s, uint32_t line, uint64_t value, const struct page_chain *chain);
/* Pages of @chain go to the quarantine of @line. */
void pages_quarantine(struct session *s, uint32_t line, const struct page_chain *chain);
/* Every page in quarantine of @line returns to the class; how many. */
int64_t quarantine_release(struct session *s, uint32_t line);
int64_t session_quarantined(const struct session *s);

/* ---- delivery.c ---- */

void delivery_reset(struct delivery *d);
/* Columns [first, end) of @slot have just been bound, and one of the pages is dirty. */
void delivery_scrub(struct delivery *d, int32_t slot, int32_t first, int32_t end);
/* The rows of @r, then the stray rows of its stream. */
void delivery_collect(struct session *s, struct request *r, struct delivery *d);
/* Row @slot may have changed: when it has, it joins @list, unless it is in one. */
void row_list_note(struct session *s, struct row_list *list, int32_t slot);
void row_list_remove(struct session *s, struct row_list *list, int32_t slot);

/* ---- agenda.c ---- */

/* Puts all sequences of @r in order of their `due`. */
void agenda_build(struct session *s, const struct request *r);
/* The sequences due at step @step, as places in the agenda, parents first, in s->slot_scratch; how many. */
uint32_t agenda_due(struct session *s, const struct request *r, uint64_t step);
/* Restores the order after the sequences at the @n places in s->slot_scratch got a later `due`. */
void agenda_settle(struct session *s, const struct request *r, uint32_t n);

static inline struct seq *agenda_seq(const struct session *s, const struct request *r, int32_t place)
{
	return &s->seqs[s->agenda[r->first + (uint32_t)place]];
}

/* ---- fence.c ---- */

/* What a fence given with a complete means for the request's line. */
struct resolved_fence {
	bool failed;
	bool reached;
	uint64_t value; /* when neither */
};
int fence_resolve(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		  struct resolved_fence *out, struct fault *f);
/* The same for a finish or abandon, where the request's last completion point may be named, too. */
int fence_resolve_end(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		      struct resolved_fence *out, struct fault *f);

/* Ends @r: rows cleared, slots free, all its pages on @chain (NULL, when no point of it is open: back to the class),
 * its entry free. */
void request_dissolve(struct session *s, struct request *r, uint64_t slot_value, struct page_chain *chain);
/* Sequence @q leaves @r: row cleared, slot free (for other streams from @slot_value on), all its pages on @chain. */
void request_drop_sequence(struct session *s, struct request *r, struct seq *q, uint64_t slot_value,
			   struct page_chain *chain);
/* The completion of @r failed: it is quarantined whole and the session poisoned. Returns SWAKV_EPOISONED. */
int request_poison(struct session *s, struct request *r, struct fault *f);

#endif
