/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emptying.h - extents that are to come empty for another class (spec section 13)
 *
 * Chosen anew again and again while a class lacks pages: those with the fewest
 * live pages, all of which can move; then, as far as these do not make up for it,
 * such with pages that their sessions manage and may be asked for. Nothing is kept
 * for anybody by that: only, new pages come from such extents last, pages of
 * requests in them are moved (moves.h), and who manages others is told which
 * (givers.h).
 */
#ifndef SWAKV_ENGINE_EMPTYING_H
#define SWAKV_ENGINE_EMPTYING_H

#include <stdbool.h>
#include <stdint.h>

#include "stay.h"

struct engine;
struct seq;
struct session;

/* A request that has prepared nothing for so long, in milliseconds, is idle: its pages are not waited for. */
#define EMPTYING_IDLE_MS 1000
/* So often, in milliseconds, it is decided anew, at least. */
#define EMPTYING_AGAIN_MS 20
/* Pages looked at in one decision, whether they can move. */
#define EMPTYING_LOOKS (1 << 18)

struct emptying {
	uint64_t due;         /* stamp: when it is decided anew, if nothing happens before: */
	uint64_t lacking;     /* another class lacks pages than these, a bit each, */
	uint64_t hands;       /* or an extent changes hands, of which there were so many changes (pool.h), */
	uint64_t askable;     /* or others may be asked for pages than those of this digest (givers.h) */
	uint64_t round;       /* counts how often that began with no extent that was to come empty */
	uint64_t sight;       /* a digest of what can be asked of it below, as decided last */
	uint64_t moved;       /* pages, ever, */
	uint64_t moved_bytes; /* K and V; */
	uint64_t unplaced;    /* and how often there was no place for one */
	uint64_t decisions;   /* so far; */
	bool decided;         /* the last one was for a lack */
};

/* What can be asked of it. */
struct emptying_counts {
	uint32_t extents;           /* that are to come empty, */
	uint32_t stays[STAY_COUNT]; /* and that the last decision passed over, by enum stay */
	uint64_t moved, moved_bytes, unplaced;
	uint64_t decisions; /* so far */
};
void engine_count_emptying(const struct engine *e, struct emptying_counts *out);
/* The same of class @index, which there is: its extents, and pages. */
void engine_count_class_emptying(const struct engine *e, uint32_t index, struct emptying_counts *out);
/* True when extent @extent is to come empty. */
bool engine_extent_emptying(const struct engine *e, uint32_t extent);

/* Of a session, as decided last. */
struct due_counts {
	int64_t to_move;            /* pages of its requests that are to move with their steps, */
	uint32_t stays[STAY_COUNT]; /* and extents that were passed over for pages of its own */
};
void session_count_due(const struct session *s, struct due_counts *out);
/* Pages of its requests in @group that moved, ever. */
uint64_t session_moved_pages(const struct session *s, uint32_t group);

/* Inside the engine: */

#define TENANT_LEAVES UINT32_MAX /* of a page: nobody's any more, it waits for its step */

/*
 * Of each class @lacks[index] pages are lacking beyond what is free, or on its
 * way; NULL: none is. Which extents are to come empty for that.
 */
void emptying_review(struct engine *e, const int64_t *lacks);
/* @n becomes part of the digest @sum. */
static inline void sight_add(uint64_t *sum, uint64_t n)
{
	*sum = (*sum ^ n) * 0x100000001b3;
}
/* To whom a page is leased; never 0. */
uint32_t emptying_tenant(const struct session *s, const struct seq *q);

#endif
