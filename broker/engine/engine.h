/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the page engine: sessions, requests, leases and page tables; all that its driver calls
 *
 * A plain library: no I/O, no clock, no thread, no device call. Commands come
 * in, table updates and statuses go out (spec sections 2 to 5). Whoever drives
 * it tells it what only the outside can know: which values the timeline words
 * have reached, and when a dead session's pages are proven idle.
 *
 * Results: 0, or a code of <swakv/error.h> with *fault filled in. A refused
 * call changed nothing, but for what spec section 3 says (LIMIT).
 */
#ifndef SWAKV_ENGINE_H
#define SWAKV_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "begin.h"
#include "check.h"
#include "compact.h"
#include "decode.h"
#include "delivery.h"
#include "emptying.h"
#include "fault.h"
#include "givers.h"
#include "lifecycle.h"
#include "managed.h"
#include "model.h"
#include "moves.h"
#include "prefill.h"
#include "press.h"
#include "query.h"
#include "reserve.h"
#include "rewind.h"
#include "totals.h"
#include "turn.h"
#include "weight.h"
#include "wire.h"

struct engine;  /* one pool's pages */
struct session; /* one attached worker's share of it */

#define ENGINE_MAX_CLASSES 64 /* page sizes in use at a time */

/* A pool of two halves of half_bytes each, lent to page classes in extents. */
struct engine_config {
	uint64_t half_bytes;
	uint64_t extent_bytes; /* of each half; 0 < extent_bytes <= half_bytes */
	uint32_t scrub;        /* enum wire_scrub_policy */
	bool fresh_is_dirty;   /* memory that nobody had yet may hold anything, too */
	uint64_t stamps_a_ms;  /* how many stamps (engine_stamp()) make a millisecond; 0: 1 */
	uint64_t wait_claim;   /* how long a request waits, in stamps, until it claims (claim.h) */
	uint64_t claim_hold;   /* so long it claims while no page joins; 0: no bound */
	uint64_t claim_max;    /* so long at most; 0: no bound */
};

/* NULL when memory is short or the configuration is impossible. */
struct engine *engine_new(const struct engine_config *config);
/* Every session must have been freed. Returns NULL. */
struct engine *engine_free(struct engine *e);
/*
 * Returns at most @budget extents that no live page touches to the pool; how
 * many. For times with nothing else to do: whoever needs such an extent takes
 * it anyway, and the class that had it may want it again.
 */
uint32_t engine_trim(struct engine *e, uint32_t budget);

/* ---- long work ---------------------------------------------------------- */

/* Operations (of pages, cells, rows) that the engine does before it lets its driver glance at others. */
#define ENGINE_SLICE 384
/* And those between two of its looks at all others: what is more than that is long. */
#define ENGINE_LONG 4096

/*
 * From now on @pause is called after at most @slice operations (0: ENGINE_SLICE)
 * in the middle of a call. It may make any call about other sessions than the one
 * whose call it is (session_busy()); a longer one is not cut again. All accounts
 * hold meanwhile: what the call will still take is taken from the counts already,
 * and what it gives back returns bit by bit. NULL: nobody is called.
 */
void engine_on_pause(struct engine *e, uint32_t slice, void (*pause)(void *arg), void *arg);
/* True while a call about @s is in the middle of its work. */
bool session_busy(const struct session *s);
/* The driver looks at all others now: operations count from here. */
void engine_looked(struct engine *e);
/* The driver itself has done @n operations, ENGINE_SLICE / 8 at most: it may be called, too. */
void engine_spend(struct engine *e, uint32_t n);
/* Operations since it last looked; the most that there ever were, but for what cannot be cut (slice.h); how often it
 * was called. */
uint32_t engine_spent(const struct engine *e);
uint32_t engine_longest(const struct engine *e);
uint64_t engine_pauses(const struct engine *e);

/* ---- sessions ----------------------------------------------------------- */

/* Memory the host tables live in: written by the engine, read by the client. Borrowed until session_free(). */
struct session_tables {
	int32_t *cells;             /* [max_batch][2][width], [max_batch][1][width] of a joined group; filled with -1 by
				       session_new() */
	struct wire_row_head *rows; /* [max_batch], zeroed by session_new() */
};

/*
 * A session of @m on @e; @tag (0 to 65535) is mixed into its handles so that
 * another session's are refused. NULL when memory is short. The model must have
 * passed model_check().
 */
struct session *session_new(struct engine *e, const struct model *m, const struct session_tables *tables, uint32_t tag);
/*
 * From now on the session shares the limits and the queue of the model @name;
 * until then those of "". It has no request yet. 0, or SWAKV_ENOPAGES: memory is short.
 */
int session_join(struct session *s, const char *name);
/* The session must be reclaimed (session_end(), then session_reclaim()). Returns NULL. */
struct session *session_free(struct session *s);
/*
 * The same in two parts each. What is large, the tables and their like, is made
 * and freed without the engine, by any thread; entering and leaving take no time.
 * @g is what model_check() derived from @m and the pool that it will enter.
 * session_enlist() false: memory is short, or there are too many page classes;
 * nothing has changed.
 */
struct session *session_make(const struct model *m, const struct geometry g[], const struct session_tables *tables,
			     uint32_t tag);
bool session_enlist(struct session *s, struct engine *e);
/* Frees what that has left over: by the thread that made the session, while another one may use it. */
void session_settle(struct session *s);
void session_leave(struct session *s);
struct session *session_discard(struct session *s);
/* True between the two. */
bool session_enlisted(const struct session *s);

/*
 * Line @line has reached @word. Pages staged behind values up to it return. The
 * caller has checked that the word is not above the armed value. Moving
 * backwards is ignored.
 */
void session_reach(struct session *s, uint32_t line, uint64_t word);
/*
 * Points opened from here on carry @stamp: a number that only rises and that
 * means something to the caller, say a time.
 */
void engine_stamp(struct engine *e, uint64_t stamp);
/*
 * The stamp of the oldest completion point of the session that is open, and the
 * line it waits for; false when none is.
 */
bool session_oldest_point(const struct session *s, uint64_t *stamp, uint32_t *line);
/* True when a completion point of the session is open (on @line, or on any when @line is negative). */
bool session_has_open(const struct session *s, int line);
/*
 * True when the worker may begin work without asking again: a request is between a
 * prepare and its complete, or it has pages that it manages itself.
 */
bool session_at_work(const struct session *s);

/*
 * The session takes no more commands: every request is abandoned, and all pages
 * it holds count as quarantined until session_reclaim(). Its rows stay as they
 * are. Safe to repeat.
 */
void session_end(struct session *s);
/* Proof is there that no device work of the session can touch its pages: all return. Returns how many pages. */
int64_t session_reclaim(struct session *s);

/* ---- limits --------------------------------------------------------------- */

/*
 * Limits of the model @name, in bytes of K and V, over all groups and sessions;
 * NULL: as it was. @floor: always there for it; @ceiling: no more, 0: no limit.
 * Below what is in use nothing is taken away. 0; SWAKV_EINVALID: a floor above
 * the ceiling, or floors that are not there together, in bytes or in whole extents
 * (floor_extents.h), when it is raised; SWAKV_EBUSY: limits of too many models that have no
 * session; SWAKV_ENOPAGES: memory is short.
 */
int engine_limit(struct engine *e, const char *name, const uint64_t *floor, const uint64_t *ceiling, struct fault *f);
/*
 * What sequences of a model with limits will take, as long as none of it has
 * attached: said before its limits are set, so that its floor is counted in its
 * pages. 0, a code of model_check(), or SWAKV_ENOPAGES: memory is short.
 */
int engine_introduce(struct engine *e, const char *name, const struct model *m, struct fault *f);

/*
 * Bytes of a sequence of max_seq as the model @name was declared last, when that
 * was with other layer groups, or more or fewer pages a sequence, than @m and its
 * geometry @g; 0: it was not, or never before.
 */
uint64_t engine_declared_otherwise(const struct engine *e, const char *name, const struct model *m,
				   const struct geometry g[]);

struct quota_counts {
	char name[WIRE_MODEL_NAME];
	uint64_t floor, ceiling; /* bytes */
	uint64_t used;           /* bytes of pages leased and in quarantine */
	uint32_t sessions;
	uint32_t waiting; /* requests */
	uint64_t oldest;  /* stamp since which the first of them waits */
	bool claims;      /* pages are kept for that one, */
	uint64_t since;   /* from this stamp on */
	/* As it was declared last, bytes; 0: it never was. */
	uint64_t least;    /* of the smallest request: a page in each group */
	uint64_t sequence; /* of one sequence of max_seq */
};
/* False when there is no model @index. */
bool engine_quota_count(const struct engine *e, uint32_t index, struct quota_counts *out);
/* What is kept for the claim of the model @name: the class for which extent @extent is (-1: it is not), */
int32_t engine_claim_extent(const struct engine *e, const char *name, uint32_t extent);
/* ... and free pages of class @index outside of these. */
int64_t engine_claim_kept(const struct engine *e, const char *name, uint32_t index);
/*
 * From now on @look is called whenever the claims have been looked at: those that
 * are over have ended, those that may have chosen, and of what that frees nothing
 * is given out yet. It changes nothing. NULL: nobody is called.
 */
void engine_on_claims(struct engine *e, void (*look)(void *arg), void *arg);
/* False, and *@out is left alone, when no model of that name has a session or a limit. */
bool engine_quota_of(const struct engine *e, const char *name, struct quota_counts *out);
/* Bytes at least of the floor of model @name that it has not, and that others hold: a floor raised late fills up. */
uint64_t engine_floor_lacks(struct engine *e, const char *name);

/* ---- waiting -------------------------------------------------------------- */

/* Requests of a session that may wait at a time. */
#define ENGINE_MAX_WAITS(max_batch) ((uint32_t)(max_batch) < 256 ? (uint32_t)(max_batch) : 256)

/* What became of a begin that was told SWAKV_EAGAIN. */
struct admission {
	struct session *session;
	uint64_t ticket; /* of its begin, or take */
	int code;        /* 0: admitted; else a code of request_begin(): refused after all, with the fault */
	bool took;       /* it is a take: */
	uint32_t most;   /* pages that it asked for at most, */
	uint32_t n_pages;
	const int32_t *pages; /* and those that it got, as of pages_take(); valid until the next call into the engine */
	uint64_t handle;
	const int32_t *slots; /* valid until the next call into the session */
	uint32_t n_slots;
	uint64_t waited; /* stamps */
	struct fault fault;
};
/*
 * The next begin that has waited and is decided now, as of the last
 * engine_stamp(): because pages came back, or its time is up. False: none is.
 */
bool engine_admit(struct engine *e, struct admission *out);
/* How many wait. */
uint32_t engine_waiting(const struct engine *e);
/*
 * Moves when engine_admit() or engine_press() has changed what nobody is answered: what is claimed or asked for, and
 * which class holds an extent.
 */
uint64_t engine_shifts(const struct engine *e);
/* The stamp at which engine_admit() is to be asked at the latest; 0: none wait. */
uint64_t engine_due(const struct engine *e);
/*
 * The begin of @ticket is to wait no longer: true when it waited, and now is
 * decided. What was kept for it is open at once.
 */
bool session_withdraw(struct session *s, uint64_t ticket);
/* All that wait in the session are decided: refused with @reason. */
void session_refuse_waiting(struct session *s, enum fault_reason reason);

/* ---- lifecycle (spec section 3) ----------------------------------------- */

/*
 * Fence kind POINT (of finish and abandon only): the pages return at the request's
 * last completion point. 0, also when it has ended before; SWAKV_EGONE;
 * SWAKV_EINVALID: the handle or the fence; SWAKV_EPHASE: a transition is pending;
 * SWAKV_EPOISONED: the fence says that the work failed.
 */
int request_finish(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed, struct fault *f);
/* As finish, also with a transition pending: then POINT means everything armed so far on the request's line. */
int request_abandon(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
		    struct fault *f);
/*
 * Retries the completion of quarantined work: @fences and @armed have one entry a
 * stream. 0, SWAKV_EGONE; SWAKV_EPOISONED: it failed again; SWAKV_EINVALID: a fence, or how many
 * they are; SWAKV_EPENDING: one has not been reached; SWAKV_EBUSY: nothing is in
 * quarantine, and requests are active.
 */
int session_shutdown(struct session *s, const struct wire_fence *fences, uint32_t n, const uint64_t *armed,
		     struct fault *f);

/* Stream of a live request, -1 for a handle that is not live. */
int request_stream(const struct session *s, uint64_t handle);

/* ---- queries ------------------------------------------------------------ */

/*
 * Pages of the class of @group that could be admitted now: free ones and those
 * that unassigned extents and empty ones of other classes would give.
 */
int64_t session_free_pages(const struct session *s, uint32_t group);

/* Page counts of a class: free + leased + quarantined = pages. */
struct class_counts {
	uint64_t page_bytes; /* S, or T of joined pages */
	bool joined;
	int64_t pages; /* usable pages of the extents it holds */
	int64_t free;
	int64_t leased;
	int64_t quarantined;
	int64_t available; /* free, plus what unassigned extents and empty ones of other classes would give */
	int64_t num_pages; /* ids it could ever use */
	uint32_t extents;
	uint32_t empty; /* of these: no live page touches them */
	uint32_t sessions;
};
/* In bytes over both halves: held + free + unusable = total. */
struct engine_counts {
	uint64_t total;
	uint64_t held;     /* the usable pages of all classes */
	uint64_t free;     /* extents that no class holds */
	uint64_t unusable; /* of extents that a class holds: part of none of its usable pages */
	uint64_t extent_bytes;
	uint32_t n_classes;
};
struct session_counts {
	int64_t leased; /* pages of all groups, bound + reserved + staged */
	int64_t quarantined;
	uint64_t bytes;        /* of all of these, K and V */
	int64_t unbound;       /* of the leased: reserved for sequences, and not in their rows */
	int64_t behind_points; /* of the leased: waiting for an open completion point */
	uint32_t requests;
	uint32_t sequences;
	uint32_t open_points;
	bool poisoned;
	bool ended;
};
void engine_count(const struct engine *e, struct engine_counts *out);
/* Class that holds extent @extent of both halves, -1: none. */
int32_t engine_extent_class(const struct engine *e, uint32_t extent);
/* False when there is no class @index. */
bool engine_class_count(const struct engine *e, uint32_t index, struct class_counts *out);
void session_count(const struct session *s, struct session_counts *out);
/* Index of the page class of @group in engine_class_count(). */
uint32_t session_class(const struct session *s, uint32_t group);
/* Pages of @group that the session holds, leased or in quarantine. */
int64_t session_held_pages(const struct session *s, uint32_t group);
/* Of these: in quarantine; and reserved for sequences, and in no row. */
int64_t session_quarantined_pages(const struct session *s, uint32_t group);
int64_t session_unbound_pages(const struct session *s, uint32_t group);

/* Walks the live requests: sets *handle to the next after *handle (0: first); false at the end. */
bool session_next_request(const struct session *s, uint64_t *handle);

#endif
