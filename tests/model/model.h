/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - the reference model: what the page engine must do, written a second time
 *
 * A command goes to the engine and to the model; the model says the code, the
 * table updates and the state that the engine must show. The only thing it
 * learns from the engine is which pages a begin was given (ref_begin_learn)
 * and which extents a class holds (ref_extents_learn); both are checked. From
 * there on every page id is predicted.
 */
#ifndef SWAKV_TEST_MODEL_H
#define SWAKV_TEST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include "lifecycle.h"
#include "wire.h"

enum {
	REF_BATCH = 16,      /* largest max_batch */
	REF_WIDTH = 64,      /* largest width of a row */
	REF_STREAMS = 4,     /* largest n_streams */
	REF_SESSIONS = 6,    /* at once */
	REF_CLASSES = 8,     /* page sizes in one pool */
	REF_EXTENTS = 64,    /* in one pool */
	REF_PAGES = 4096,    /* ids of one class */
	REF_REQUESTS = 16,   /* live in one session: at most max_batch */
	REF_POINTS = 512,    /* open at once in one request */
	REF_GRAIN = 16,      /* bytes: every page size is a multiple */
	REF_GRAINS = 1 << 18 /* of one half */
};

/* ---- pool --------------------------------------------------------------- */

enum ref_page { REF_FREE, REF_LEASED, REF_QUARANTINED };

struct ref_class {
	uint64_t page_bytes;
	int32_t num_pages; /* floor(half / S) */
	uint32_t sessions;
	uint8_t page[REF_PAGES];                   /* enum ref_page */
	const struct ref_session *user[REF_PAGES]; /* of a page that is not free */
	uint32_t line[REF_PAGES];                  /* of a quarantined page */
	uint32_t writer[REF_PAGES];                /* name of the session that bound it last, 0: nobody yet */
	bool written[REF_PAGES];                   /* bound since it was given out last */
	/* derived from the extents, refreshed by ref_extents_learn() */
	bool usable[REF_PAGES];    /* in held extents */
	bool reachable[REF_PAGES]; /* would be, if every unassigned extent were given to this class */
};

struct ref_pool {
	uint64_t half, extent;
	uint32_t scrub; /* enum wire_scrub_policy */
	bool fresh_is_dirty;
	uint32_t names; /* given out to sessions */
	uint32_t n_extents;
	int32_t holder[REF_EXTENTS]; /* class index, -1: unassigned */
	struct ref_class classes[REF_CLASSES];
	uint32_t n_classes;
	uint8_t grain[REF_GRAINS]; /* owners of each grain of a half: at most 1 */
	char error[512];           /* the first thing found wrong, empty: none */
};

/* ---- sessions ----------------------------------------------------------- */

struct ref_staged {
	int32_t page;
	uint64_t value; /* returns when the request's line has reached this */
};

struct ref_seq {
	int32_t slot;
	uint32_t generation;
	int64_t endpoint;
	int64_t pending_endpoint; /* -1: none */
	int32_t length;
	int32_t pending_map;     /* -2: no compaction pending */
	int32_t row[REF_WIDTH];  /* page by logical page, -1: none */
	int32_t free[REF_WIDTH]; /* reserved pages, the last is bound next */
	int32_t n_free;
	struct ref_staged staged[REF_WIDTH]; /* oldest first */
	int32_t n_staged;
};

struct ref_request {
	bool live;
	uint64_t handle;
	uint32_t stream;
	enum phase phase;
	enum transition transition;
	int32_t n_seqs;
	struct ref_seq seqs[REF_BATCH];
	int64_t max_tokens;    /* a sequence's capacity */
	int32_t reservation;   /* pages of each sequence */
	int32_t pending_batch; /* -1: none */
	uint32_t compact_flags;
	uint64_t points[REF_POINTS]; /* values of open completion points, oldest first */
	int32_t n_points;
	uint64_t last_value; /* greatest it was ever given */
};

/* A page whose sequence has left it behind an open completion point. */
struct ref_tail {
	int32_t page;
	uint32_t line;
	uint64_t value;
};

struct ref_slot {
	int32_t owner; /* index of a request, -1: none */
	uint32_t generation;
	uint32_t stream;  /* of the last owner */
	uint64_t blocked; /* other streams wait until that stream's line has reached this */
	uint32_t version;
	int32_t device[REF_WIDTH];      /* what the client's table shows */
	int32_t bound_first, bound_end; /* columns that this command has bound */
	bool dirty;                     /* one of those pages is */
};

struct ref_session {
	bool attached;
	bool ended;
	bool poisoned;
	uint32_t name; /* never another session's */
	struct ref_pool *pool;
	struct ref_class *class;
	uint32_t class_index;
	int64_t window, page_tokens, max_seq;
	int32_t max_batch, width, private_pages;
	uint32_t n_streams;
	uint64_t word[REF_STREAMS];
	int64_t spare; /* completion points that may still be promised: set before each command */
	struct ref_slot slots[REF_BATCH];
	struct ref_request requests[REF_REQUESTS];
	struct ref_tail tails[REF_PAGES];
	int32_t n_tails;
	uint64_t *ended_handles;
	uint32_t n_ended, cap_ended;
};

struct ref_model {
	uint32_t n_streams;
	int32_t max_batch;
	int64_t max_seq;
	int64_t max_advance;
	uint32_t max_rewind;
	uint32_t n_groups;
	struct wire_group group;
};

/* The updates that must travel: the difference of host and device in the rows that may go with this call. */
struct ref_delivery {
	int32_t n_updates;
	bool row[REF_BATCH];
	int32_t scrub_first[REF_BATCH], scrub_n[REF_BATCH]; /* columns that must be scrubbed, n 0: none */
	int32_t page[REF_BATCH][REF_WIDTH];                 /* new content, REF_SAME: does not travel */
};
enum { REF_SAME = -2 };
enum { REF_PROMISE = 2 }; /* points that a transition may open when it completes */

/* ---- arithmetic (spec section 2) ---------------------------------------- */

int64_t ref_retained_end(int64_t endpoint, int64_t page_tokens);
int64_t ref_retained_begin(int64_t endpoint, int64_t window, int64_t page_tokens);
int64_t ref_private_pages(int64_t window, int64_t page_tokens, int64_t max_seq);

/* ---- pool --------------------------------------------------------------- */

uint64_t ref_page_bytes(const struct wire_group *g);
void ref_pool_init(struct ref_pool *p, uint64_t half, uint64_t extent);
/* Remembers the first complaint. */
void ref_complain(struct ref_pool *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Which class holds each extent now. Complains when a change is none that spec
 * and command allow: only a begin of class @taker (-1: none) that did not find
 * @need pages free may take extents, and none beyond what it needs.
 */
void ref_extents_learn(struct ref_pool *p, const int32_t *holder, int32_t taker, int64_t need);
/* Usable pages in @state. */
int64_t ref_count(const struct ref_class *c, enum ref_page state);
/* Pages that could be admitted now: free ones and those that unassigned extents would give. */
int64_t ref_available(const struct ref_class *c);

/* A leased or quarantined page of @s is free again. */
void ref_release(struct ref_session *s, int32_t id);

/* ---- commands: each gives the code the engine must give, and applies itself -- */

int ref_model_check(const struct ref_model *m, uint64_t half);
void ref_attach(struct ref_session *s, struct ref_pool *p, const struct ref_model *m);
void ref_end(struct ref_session *s);
/* Returns the number of pages that come back. */
int64_t ref_reclaim(struct ref_session *s);
void ref_detach(struct ref_session *s);
void ref_reach(struct ref_session *s, uint32_t line, uint64_t word);

int ref_begin(struct ref_session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots, uint32_t n,
	      struct ref_request **out);
/* @pages: what the engine reserved for sequence @seq, next to be bound first. */
void ref_begin_learn(struct ref_session *s, struct ref_request *r, int32_t seq, const int32_t *pages);
int ref_prefill_prepare(struct ref_session *s, uint64_t handle, const int32_t *lengths, uint32_t n,
			struct ref_delivery *d);
int ref_prefill_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed);
/* codes[n]: one an entry. */
int ref_step_prepare(struct ref_session *s, const struct wire_step_entry *e, uint32_t n, int *codes,
		     struct ref_delivery *d);
int ref_step_complete(struct ref_session *s, const struct wire_step_entry *e, uint32_t n, const uint64_t *armed,
		      int *codes);
int ref_compact_begin(struct ref_session *s, uint64_t handle, const int32_t *map, uint32_t n, int32_t new_batch,
		      uint32_t flags, struct ref_delivery *d);
int ref_compact_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed,
			 struct ref_delivery *d);
int ref_finish(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed);
int ref_abandon(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed);
int ref_shutdown(struct ref_session *s, const struct wire_fence *f, uint32_t n, const uint64_t *armed);

/* ---- what can be seen ---------------------------------------------------- */

bool ref_has_ended(const struct ref_session *s, uint64_t handle);
struct ref_request *ref_find(struct ref_session *s, uint64_t handle);
/* Requests that have begun and not ended. */
int32_t ref_live(const struct ref_session *s);
/* K ids that the host row of @slot must show, by logical page; NULL: all empty. */
const int32_t *ref_row(const struct ref_session *s, int32_t slot);
/* Pages [begin, end) in the row: bound by the pending transition, and staged by it. */
void ref_new_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, int64_t *begin,
		   int64_t *end);
void ref_retiring_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q,
			int64_t *begin, int64_t *end);

#endif
