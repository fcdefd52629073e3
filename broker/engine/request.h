/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - a request, from its admission to its end */
#ifndef SWAKV_ENGINE_REQUEST_H
#define SWAKV_ENGINE_REQUEST_H

#include "atomics.h"
#include "engine.h"
#include "row_list.h"

struct session;
struct seq;
struct page_chains;

/* A page among those that a request holds: the sequence, the group, and which in it. */
struct move_place {
	uint32_t seq, group;
	int32_t page;
};

struct request {
	/* ---- what a step inside a page looks at and changes: a cache line ---- */
	_Alignas(CACHELINE) uint32_t generation; /* of the handle; counts up each time the entry is used */
	uint8_t phase;                           /* enum phase; PHASE_NONE: the entry is free */
	uint8_t transition;                      /* enum transition */
	bool move_rows;                          /* of the pending compaction */
	bool unordered;                          /* its stream keeps no order between its steps */
	uint32_t stream;
	uint32_t shared_mask;  /* shared points (shared_point.h) at which it waits, or has: bit i is number */
	uint64_t shared_last;  /* shared_last - i of its line */
	uint64_t steps;        /* decode steps settled since the prefill */
	uint64_t due;          /* the first step that changes more than the count (agenda.h) */
	uint64_t turn;         /* the session's turn that named it last, times WIRE_MAX_BATCH, and in which entry */
	uint64_t last_value;   /* greatest fence value it was given, 0: none */
	struct row_list dirty; /* rows of it that may differ from what was delivered */
	/* ---- the rest ---- */
	uint32_t n_seqs;
	int32_t first_point; /* its own open points, the newest, chained by same_request */
	uint32_t n_points;
	uint32_t first;        /* its sequences: order[first .. first + n_seqs), and the same part of agenda */
	int32_t pending_batch; /* of the pending compaction, else -1 */
	int64_t capacity;      /* tokens of each sequence */
	uint64_t stepped;      /* stamp of its last prepare, or of its begin; only of a session whose pages can move */
	bool pinned;           /* its pages are not to move (moves.h), */
	bool no_copy;          /* from its begin on, as its stream cannot copy; else: */
	bool moves_due;        /* it has some in extents that are to come empty, as far as anybody knows, */
	uint64_t move_round;   /* and in that round of the emptying */
	struct move_place move_at;            /* has looked through those before this one */
	int32_t n_moved;                      /* pages that the pending step has replaced */
	int32_t prev, next;                   /* live requests of the session; `next` also chains free entries */
	int32_t reservation[WIRE_MAX_GROUPS]; /* pages of each sequence */
};

/*
 * The live request of @handle. 0; SWAKV_EGONE: the session has ended; SWAKV_EINVALID:
 * the request has, or it never was.
 */
int request_find(const struct session *s, uint64_t handle, struct request **r, struct fault *f);
/* The handle of @r, which is live. */
uint64_t request_handle(const struct session *s, const struct request *r);

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
