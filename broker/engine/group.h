/* SPDX-License-Identifier: Apache-2.0 */
/* group.h - one layer group of a session */
#ifndef SWAKV_ENGINE_GROUP_H
#define SWAKV_ENGINE_GROUP_H

#include "page_key.h"
#include "page_range.h"
#include "page_table.h"
#include "window.h"
#include "wire_board.h"

struct page_class;
struct session;
struct span;

struct group {
	struct page_class *class;
	struct page_class *spare; /* made in case that it is new, or one that it has replaced; NULL: none */
	uint32_t index;           /* in the session */
	struct page_key key;
	uint32_t class_index;
	bool movable;         /* pages of its requests can move (moves.h) */
	uint64_t n_moved;     /* pages that did, ever */
	uint32_t serial;      /* names the group to the page class, for as long as the engine lives */
	struct window window; /* what is retained: W and max_rewind; of a full group everything */
	struct page_table table;
	int32_t most_reserved; /* for any sequence */
	int64_t n_held;        /* pages leased or in quarantine */
	uint64_t n_taken;      /* pages that came from the class, ever; those that it does not hold went back */
	uint64_t n_scrubbed;   /* pages that the worker was told to scrub, ever */
	int64_t n_leaving;     /* of these: behind open points, on their way to the class */
	int64_t n_promised;    /* of these: not placed yet (slice.h) */
	int64_t n_managed;     /* of these: taken by the session itself (managed.h), */
	uint64_t *managed;     /* [managed_words()], a bit for each page: which ones */
	uint64_t offered;      /* of the managed ones: so many it could give, as the session says */
	int64_t wanted;        /* pages that it is asked for (press.h), */
	uint64_t wanted_since; /* from this stamp on; */
	uint64_t n_rises;      /* how often they became more, */
	uint64_t given_seen;   /* and what it had given when that began which was decided last */
	int64_t asked;         /* the same while that is decided, */
	uint64_t given_asked;  /* and what it had given when that began */
	uint64_t n_given;      /* pages that it has given, ever; */
	uint64_t n_yielded;    /* and of those that it was asked for; */
	uint64_t given_before; /* when it was asked last */
	uint64_t n_asked;      /* how often that was, */
	uint64_t n_unanswered; /* and how often it was over before it had given any */
	int64_t refused;       /* pages that it was refused last */
	uint32_t n_ranges;     /* of the managed ones: in extents that are to come empty (givers.h), */
	bool ranges_new;       /* they are not what was decided before, and it is to hear of that: */
	uint64_t ranges_sight; /* a digest of them */
	struct page_range ranges[WIRE_RANGES]; /* these */
	int64_t n_unbound;                     /* of these: reserved by sequences, and in no row */
	struct span *spans;                    /* [max_batch], by sequence */
	int32_t *reserved;                     /* [max_batch][most_reserved]: stack of each sequence */
};

/* Number of a slot's row of @g over all groups. */
static inline int32_t group_row(const struct group *g, int32_t slot)
{
	return (int32_t)g->table.first_row + slot;
}

/* Pages of @g that a sequence of up to @capacity tokens reserves; @unordered: on a stream that keeps no order. */
int32_t group_reservation(const struct session *s, const struct group *g, int64_t capacity, bool unordered);

/* Makes the groups that the model of @s declares, with their tables, but not yet in an engine. False: memory is short.
 */
bool groups_init(struct session *s, const struct session_tables *tables);
/* Safe on what groups_init() has made in part. */
void groups_deinit(struct session *s);
/* Each group finds its class in the engine of @s, or makes it. False: out of memory, or of classes; groups_leave()
 * then. */
bool groups_enter(struct session *s);
void groups_leave(struct session *s);
/* Frees what groups_enter() has left over. */
void groups_settle(struct session *s);

#endif
