/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one worker's share of the pool
 *
 * Everything is sized when a session is made: no command allocates. Indices
 * stand for pointers (-1: none), so arrays stay flat and small.
 */
#ifndef SWAKV_ENGINE_SESSION_H
#define SWAKV_ENGINE_SESSION_H

#include <sys/queue.h>

#include "engine.h"
#include "group.h"
#include "points.h"
#include "request.h"
#include "row_list.h"
#include "sequence.h"
#include "stay.h"
#include "wait.h"

struct quota;

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
	struct geometry geometry[WIRE_MAX_GROUPS]; /* derived when it attached */
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
	int32_t *turn_scratch; /* [max_batch] */
	int32_t *free_seqs;
	uint32_t n_free_seqs;
	struct slot *slots; /* [max_batch] */

	struct request *requests; /* [max_batch] */
	int32_t first_request, free_request;
	uint32_t n_requests, n_sequences, n_transitions;
	uint64_t n_prefilled, n_stepped; /* tokens; of the latter those of requests that live and count them */
	uint64_t n_turns;                /* that it has made (turn.h) */
	int32_t *order;                  /* [2 * max_batch] */
	int32_t *agenda;                 /* [2 * max_batch]: the sequences of each request as a heap by `due` */
	uint32_t order_top;

	struct wait *waits;     /* [ENGINE_MAX_WAITS] */
	uint64_t refused_until; /* stamp: till then a refusal for want of pages counts as a lack (press.h) */
	struct wait *free_wait;
	uint32_t n_waits;
	struct wait_list queued; /* of them, oldest first */

	struct page_chain
		*moved;    /* [max_batch][n_groups], pages that a pending step has replaced; NULL: none can be, */
	uint32_t n_moving; /* of so many requests */
	int64_t n_due;     /* pages of its requests in extents that are to come empty, */
	uint32_t stays[STAY_COUNT]; /* and extents that its pages have kept from that (emptying.h) */

	struct point *points;
	struct page_chain *point_pages; /* [max_points][n_groups] */
	int32_t free_point;
	uint32_t n_points, max_points;
	int32_t oldest_point, newest_point;
	int64_t n_behind; /* pages behind them */
	struct line lines[WIRE_MAX_STREAMS];
};

/* Walks the groups of @s. */
#define FOR_EACH_GROUP(g, s) for (__typeof__(&(s)->groups[0]) g = (s)->groups; g < (s)->groups_end; g++)

static inline struct seq *request_seq(const struct session *s, const struct request *r, uint32_t i)
{
	return &s->seqs[s->order[r->first + i]];
}

/* What finds live requests by their handles, for one who looks for many. */
struct request_finder {
	struct request *requests;
	uint32_t first, n; /* the upper halves of their handles: [first, first + n) */
};

static inline struct request_finder request_finder(const struct session *s)
{
	return (struct request_finder){ s->requests, s->tag << 16, (uint32_t)s->model.max_batch };
}

/* NULL: there is none. */
static inline struct request *request_live(struct request_finder f, uint64_t handle)
{
	uint32_t place = (uint32_t)(handle >> 32) - f.first;
	struct request *r = &f.requests[place];

	if (place >= f.n || (uint32_t)handle != r->generation || r->phase == PHASE_NONE)
		return NULL;
	return r;
}

/* Chain of group @g in point @p. */
static inline struct page_chain *point_chain(const struct session *s, const struct point *p, uint32_t g)
{
	return &s->point_pages[(uint64_t)(p - s->points) * s->n_groups + g];
}

#endif
