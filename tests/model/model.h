/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - the reference model: what the page engine must do, written a second time
 *
 * A command goes to the engine and to the model; the model says the code, the
 * table updates and the state that the engine must show. What it learns from
 * the engine is checked: which pages came from a class (ref_learn, and those
 * that a step lacked), which extents a class holds (ref_extents_learn), and
 * which of them a claim has chosen (claim.c). From there on every page id is
 * predicted, and in pools of up to 8 extents who is admitted: by every way to
 * share them out (room.c). In larger ones the engine is heard where it depends
 * on which extents several classes take (`said`).
 */
#ifndef SWAKV_TEST_MODEL_H
#define SWAKV_TEST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include "lifecycle.h"
#include "wire.h"

enum {
	REF_GROUPS = WIRE_MAX_GROUPS,
	REF_BATCH = 16,            /* largest max_batch */
	REF_WIDTH = 64,            /* largest width of a row */
	REF_HELD = 3 * REF_WIDTH,  /* most pages of a sequence in one group: a row, as many staged (a step takes pages
				      only when it lacks more than that), and what a reserve adds */
	REF_STREAMS = 4,           /* largest n_streams */
	REF_SESSIONS = 6,          /* at once */
	REF_CLASSES = 32,          /* page sizes in one pool */
	REF_EXTENTS = 64,          /* in one pool */
	REF_NOWHERE = REF_EXTENTS, /* where the page over the middle of the pool lies: in no extent that anybody has */
	REF_PAGES = 4096,          /* ids of one class */
	REF_REQUESTS = 16,         /* live in one session: at most max_batch */
	REF_QUOTAS = 4,            /* names of models */
	REF_WAITS = REF_SESSIONS * REF_BATCH,
	REF_ASKED = 1024, /* refusals that are known again */
	REF_POINTS = 512, /* open at once in one request */
	REF_MOVED = WIRE_MAX_MOVES,
	REF_TAILS = 8192,    /* pages of ended requests behind points, in one session */
	REF_GRAIN = 16,      /* bytes: every page size is a multiple */
	REF_GRAINS = 1 << 18 /* of one half */
};

/* ---- pool --------------------------------------------------------------- */

enum ref_page { REF_FREE, REF_LEASED, REF_QUARANTINED };
#define REF_OTHERS UINT32_MAX

struct ref_class {
	uint64_t page_bytes; /* of a half, or of a joined page */
	bool joined;
	int32_t num_pages;                         /* floor(half / S), of joined ones floor(2 half / T) */
	int32_t most;                              /* of these, all but the one over the middle */
	uint32_t sessions;                         /* that have a group of it, counted by groups */
	uint8_t page[REF_PAGES];                   /* enum ref_page */
	uint8_t first[REF_PAGES], last[REF_PAGES]; /* extents that it touches */
	const struct ref_session *user[REF_PAGES]; /* of a page that is not free */
	uint32_t line[REF_PAGES];                  /* of a quarantined page */
	uint32_t writer[REF_PAGES];                /* name of who bound it last, 0: nobody yet, REF_OTHERS: many may */
	bool written[REF_PAGES];                   /* bound since it was given out last */
	uint8_t taken[REF_PAGES];                  /* 1 + the group for which its user took it itself, 0: it did not */
	uint64_t given[REF_PAGES];                 /* the command that gave it out */
	int64_t wanted;                            /* pages that this command has given out */
	/* how many there are, as of the pool's `change` */
	uint64_t tallied;
	int64_t n[3];      /* usable pages, by enum ref_page */
	int64_t open;      /* the free ones, but for those that touch a chosen extent */
	int64_t available; /* free pages that could be had: of open extents, with all that nobody has, or that are empty
			    */
};

/* What is kept for the first of a queue. */
struct ref_claim {
	const struct ref_session *session; /* NULL: nothing */
	uint64_t ticket;                   /* of its begin */
	uint64_t since, moved;             /* stamps */
	uint64_t vain_begin; /* stamp: since when claims in vain have overlapped, one into the other, until it */
	bool joined;         /* a page came free in its extents */
	int32_t class_of[REF_EXTENTS + 1]; /* for which class it has chosen the extent, -1: it has not */
	int64_t kept[REF_CLASSES];         /* free pages elsewhere */
};

/* What the sessions of one model's name share. */
struct ref_quota {
	uint64_t floor, ceiling; /* bytes of K and V; a ceiling of 0 is none */
	uint32_t sessions;
	/* a sequence of max_seq, as the session that came last declared it: how a floor is split */
	uint32_t n_shares;
	struct ref_share {
		uint64_t page_bytes, pages;
		bool joined;
	} shares[REF_GROUPS];
	uint64_t used, counted; /* bytes, as of the pool's `change` */
	struct ref_claim claim;
};

/* A take of pages that the session manages itself. */
struct ref_take {
	uint32_t group, flags, min, max;
	uint64_t wait, ticket;
};

/* A begin, or a take, that waits for pages. */
struct ref_wait {
	struct ref_session *session;
	uint64_t ticket, since, deadline;
	uint32_t stream, n;
	int64_t max_tokens;
	bool unordered, pinned;
	int32_t slots[REF_BATCH];
	bool takes; /* then: */
	struct ref_take take;
	bool withdrawn;        /* it is refused */
	bool overdue;          /* it may claim, and be overtaken */
	uint64_t paused_until; /* stamp */
	uint64_t turn;         /* stamp: since when it waits for its turn to claim */
};

struct ref_pool {
	uint64_t half, extent;
	uint32_t scrub; /* enum wire_scrub_policy */
	bool fresh_is_dirty;
	uint32_t names;   /* given out to sessions */
	uint64_t command; /* counts them */
	uint64_t change;  /* counts what page and extent states change */
	uint32_t n_extents;
	int32_t holder[REF_EXTENTS + 1]; /* class index, -1: unassigned */
	/* the same before claims chose: one that fails may move some after another has chosen */
	int32_t held[REF_EXTENTS + 1];
	int32_t former[REF_EXTENTS];   /* class that held it last, -1: none yet */
	int32_t live[REF_EXTENTS + 1]; /* pages that touch it and are not free */
	struct ref_class classes[REF_CLASSES];
	uint32_t n_classes;
	struct ref_quota quotas[REF_QUOTAS];
	struct ref_wait waits[REF_WAITS]; /* oldest first */
	uint32_t n_waits;
	uint64_t stamp, wait_claim, claim_hold, claim_max;
	uint64_t pause_end;         /* stamp: until when nobody claims after claims in vain */
	uint64_t n_lost;            /* requests that ended in the middle of a step with which pages had moved */
	bool emptying[REF_EXTENTS]; /* what lives there is to move, */
	uint64_t emptying_seen;     /* as of this command */
	const struct ref_quota *chosen[REF_EXTENTS + 1]; /* by whose claim; NULL: by none */
	uint64_t waited[REF_EXTENTS + 1];                /* stamp at which a claim gave it up with pages in it */
	bool counting;                                   /* what an answer of the engine is compared with */
	/* refusals that hang on who gets which extents; those where there was a way; and which were counted */
	uint64_t n_rooms, n_missed, asked[REF_ASKED];
	uint8_t grain[2 * REF_GRAINS]; /* owners of each grain of the K half, then of the V half: at most 1 */
	char error[512];               /* the first thing found wrong, empty: none */
};

/* ---- sessions ----------------------------------------------------------- */

struct ref_staged {
	int32_t page;
	uint64_t value; /* returns when the request's line has reached this */
};

/* What a sequence holds in one group. */
struct ref_part {
	int32_t row[REF_WIDTH]; /* page by logical page, -1: none */
	int32_t free[REF_HELD]; /* reserved pages, the last is bound next */
	int32_t n_free;
	struct ref_staged staged[REF_HELD]; /* oldest first */
	int32_t n_staged;
};

struct ref_seq {
	int32_t slot;
	uint32_t generation;
	int64_t endpoint;
	int64_t highest;          /* endpoint it ever settled */
	int64_t pending_endpoint; /* -1: none */
	int32_t length;
	int32_t pending_map; /* -2: no compaction pending */
	struct ref_part parts[REF_GROUPS];
};

struct ref_moved {
	uint32_t group;
	int32_t page;
};

struct ref_request {
	bool live;
	bool pinned;
	uint64_t stepped;                  /* stamp of its last prepare */
	struct ref_moved moved[REF_MOVED]; /* pages that the pending step has replaced */
	int32_t n_moved;
	uint64_t handle;
	uint32_t stream;
	enum phase phase;
	enum transition transition;
	int32_t n_seqs;
	bool unordered;                  /* its steps may run beside each other */
	int64_t max_tokens;              /* a sequence's capacity */
	int32_t reservation[REF_GROUPS]; /* pages of each sequence */
	int32_t more[REF_GROUPS];        /* by so many did its begin or last reserve raise that */
	int32_t pending_batch;           /* -1: none */
	uint32_t compact_flags;
	uint64_t points[REF_POINTS]; /* values of open completion points, oldest first */
	int32_t n_points;
	uint64_t last_value; /* greatest it was ever given */
	struct ref_seq seqs[REF_BATCH];
};

/* A page that its sequence, or the session, has left behind open completion points. */
struct ref_tail {
	uint32_t group;
	int32_t page;
	uint64_t until[REF_STREAMS]; /* values of the lines, 0: it does not wait for that one */
};

/* A row of one group. */
struct ref_line {
	uint32_t version;
	int32_t device[REF_WIDTH]; /* what the client's table shows */
	int32_t bound_end;         /* behind the last column that this command has bound */
	int32_t fresh_first;       /* the first one whose page was not bound since it was given out */
	int32_t dirty_first;       /* the first one whose page is dirty */
	bool dirty;                /* there is one */
};

struct ref_slot {
	int32_t owner; /* index of a request, -1: none */
	bool waiting;  /* held by a begin that waits */
	uint32_t generation;
	uint32_t stream;  /* of the last owner */
	uint64_t blocked; /* other streams wait until that stream's line has reached this */
	struct ref_line lines[REF_GROUPS];
};

struct ref_group {
	struct ref_class *class;
	uint32_t class_index;
	bool full, movable;
	int64_t window, page_tokens;
	int32_t width;
	uint32_t name;        /* of who binds pages: never another's */
	const int32_t *shown; /* the host table: [max_batch][2][width] */
};

struct ref_session {
	bool attached;
	bool ended;
	bool poisoned;
	struct ref_pool *pool;
	struct ref_quota *quota;
	uint32_t n_groups;
	struct ref_group groups[REF_GROUPS];
	int64_t max_seq, max_advance, max_rewind, in_flight;
	bool chunk_mapped;
	int32_t max_batch;
	uint32_t n_streams;
	uint64_t word[REF_STREAMS];
	int64_t spare;               /* completion points that may still be promised: set before each command */
	bool doubtful[REF_STREAMS];  /* pages in quarantine wait for this line, whatever theirs is */
	uint64_t refused_until;      /* stamp: till then it counts as one that lacks pages */
	uint64_t prefilled, stepped; /* tokens */
	uint64_t leased;             /* pages, ever */
	struct ref_slot slots[REF_BATCH];
	struct ref_tail tails[REF_TAILS];
	int32_t n_tails;
	uint64_t *ended_handles;
	uint32_t n_ended, cap_ended;
	struct ref_request requests[REF_REQUESTS]; /* large: set when they begin */
};

struct ref_model {
	uint32_t n_streams;
	int32_t max_batch;
	int64_t max_seq;
	int64_t max_advance; /* 0: any */
	uint32_t max_rewind, in_flight;
	bool chunk_mapped;
	uint32_t n_groups;
	struct wire_group groups[REF_GROUPS];
};

/* The updates that must travel: the difference of host and device in the rows that may go with this call. */
struct ref_row {
	bool goes;
	int32_t scrub_first, scrub_n; /* columns that must be scrubbed, n 0: none */
	int32_t fresh_first, end;     /* those that may be: where an extent was only tried in another class, too */
	int32_t page[REF_WIDTH];      /* new content, REF_SAME: does not travel */
};
struct ref_delivery {
	int32_t n_updates;
	struct ref_row rows[REF_GROUPS][REF_BATCH];
};
enum { REF_SAME = -2 };
enum { REF_PROMISE = 2 }; /* points that a transition may open when it completes */

/* A step's entries, and the counts that they list. */
struct ref_step {
	const struct wire_step_entry *entries;
	const int32_t *counts;
	uint32_t n, n_counts;
	const struct ref_moves *moves; /* of a prepare: */
};
/* Pages that the engine has moved with it. */
struct ref_moves {
	bool some;
	uint32_t n;
	const struct wire_move *list; /* those in rows; and of those that are reserved now: */
	int32_t (*reserved)(void *arg, const struct ref_request *r, int32_t seq, uint32_t g, int32_t *pages);
	void *arg;
};

/* Parts of steps that come together: what each entry asks for, and with what. */
enum { REF_COMPLETE = 1, REF_PREPARE = 2, REF_FINISH = 4, REF_BEGIN = 8 };
struct ref_turn_entry {
	uint32_t what;
	struct wire_step_entry step;
	const int32_t *accepted, *tokens; /* where the step lists them */
};
struct ref_turn {
	const struct ref_turn_entry *entries;
	uint32_t n;
	bool well_formed;              /* all that it lists is there */
	const struct ref_moves *moves; /* that came with it */
};

/* ---- arithmetic (spec sections 2 and 3) --------------------------------- */

int64_t ref_retained_end(int64_t endpoint, int64_t page_tokens);
int64_t ref_retained_begin(int64_t endpoint, int64_t window, int64_t page_tokens);
/* First page that a sequence of group @g keeps whose highest endpoint is @highest. */
int64_t ref_begin_of(const struct ref_session *s, uint32_t g, int64_t highest);
int64_t ref_end_of(const struct ref_session *s, uint32_t g, int64_t endpoint);
/* Pages of group @g that are reserved for a sequence of at most @tokens tokens; @unordered: steps may overlap. */
int32_t ref_reservation(const struct ref_session *s, uint32_t g, int64_t tokens, bool unordered);

/* ---- pool --------------------------------------------------------------- */

uint64_t ref_page_bytes(const struct wire_group *g);
/* Bytes of a page of the class, K and V. */
uint64_t ref_whole(const struct ref_class *c);
void ref_pool_init(struct ref_pool *p, uint64_t half, uint64_t extent);
/* Remembers the first complaint. */
void ref_complain(struct ref_pool *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Which class holds each extent now. Complains when a change is none that spec
 * and command allow: only a class of @taker (NULL: none) may take extents, those
 * that nobody has or that hold no page in use; and at most @trim that are empty
 * may be given up.
 */
void ref_extents_learn(struct ref_pool *p, const int32_t *holder, const struct ref_session *taker, int64_t trim);
/* After the pages of a command were learned: no class took extents, compared with @before, that it did not need. */
void ref_check_thrift(struct ref_pool *p, const int32_t *before);
/*
 * After that, too: pages came from the fullest extents in use, by the doublings of
 * what they have free, and from empty ones only when these had none.
 */
void ref_check_fullest(struct ref_pool *p);
/* Counts the pages of a class. */
const struct ref_class *ref_tally(struct ref_pool *p, uint32_t index);
/* Pages of it that could be admitted now: beside what is claimed. */
int64_t ref_available(struct ref_pool *p, uint32_t index);
/* A free page of group @g is leased to @s. */
void ref_lease(struct ref_session *s, uint32_t g, int32_t id);
/* A leased or quarantined page of @s is free again. */
void ref_release(struct ref_class *c, struct ref_pool *p, int32_t id);

/* ---- commands: each gives the code the engine must give, and applies itself -- */

int ref_model_check(const struct ref_model *m, uint64_t half);
/* What follows from the model alone. */
void ref_declare(struct ref_session *s, const struct ref_model *m);
void ref_attach(struct ref_session *s, struct ref_pool *p, const struct ref_model *m, uint32_t quota);
void ref_end(struct ref_session *s);
/* All that the session has in quarantine is free again; returns how many pages. */
int64_t ref_release_quarantined(struct ref_session *s);
void ref_detach(struct ref_session *s);
void ref_reach(struct ref_session *s, uint32_t line, uint64_t word);

struct ref_begin {
	uint32_t stream, n;
	int64_t max_tokens;
	bool unordered, pinned;
	const int32_t *slots;
	uint64_t wait, ticket;
};
/* @said: what the engine answered, see ref_admit(). */
int ref_begin(struct ref_session *s, const struct ref_begin *b, int said, struct ref_request **out);
/* What waited under @ticket, *@was, is answered with @said; of a take: with @n pages. */
int ref_answer(struct ref_session *s, uint64_t ticket, int said, uint32_t n, struct ref_request **out,
	       struct ref_wait *was);
/* The begin of @ticket is to wait no longer: whether it did. */
bool ref_withdraw(struct ref_session *s, uint64_t ticket);
/* Whether a begin that waits is sure to be admitted: then it should have been. */
bool ref_should_begin(struct ref_pool *p, struct ref_wait *w);
/* @said: what the engine answered, and with how many pages (@n). */
int ref_take(struct ref_session *s, const struct ref_take *t, int said, uint32_t n);
/*
 * It got these pages; such as are to be scrubbed stand there as their complements.
 * @vague: more may be scrubbed than the model knows of.
 */
void ref_taken(struct ref_session *s, const struct ref_take *t, const int32_t *pages, uint32_t n, bool vague);
struct ref_give {
	uint32_t group, n;
	const int32_t *pages;
	const struct wire_fence *fences;
	uint32_t n_fences;
};
int ref_give(struct ref_session *s, const struct ref_give *g, const uint64_t *armed);
int ref_limit(struct ref_pool *p, uint32_t quota, const uint64_t *floor, const uint64_t *ceiling, int said);
/* Bytes that the sessions of a model hold. */
uint64_t ref_used(struct ref_pool *p, struct ref_quota *q);
/* The first of a model's queue, NULL: none waits. */
struct ref_wait *ref_head(struct ref_pool *p, const struct ref_quota *q);
/* What a claim shows of itself. */
struct ref_claim_seen {
	bool claims;
	uint64_t since;
	int32_t class_of[REF_EXTENTS + 1];
	int64_t kept[REF_CLASSES];
};
/* Those that have waited for long are overdue; claims that are over end. */
void ref_claims_pass(struct ref_pool *p);
/*
 * The engine's claims, one a quota, which it has just looked at: they are those
 * that were there, and of all that may claim, but where nothing would do; new
 * ones keep what they should. Returns how many are new.
 */
uint32_t ref_claims_learn(struct ref_pool *p, const struct ref_claim_seen *seen);
/* They are those that were there when it did, and none is due. */
void ref_claims_check(struct ref_pool *p, const struct ref_claim_seen *seen);
/* Claims in a poisoned session, and such as would exceed the ceiling now, are over. */
void ref_claims_forget(struct ref_pool *p);
/*
 * @pages: all that the engine has reserved for it after a begin or reserve, next
 * to be bound first: r->more[g] more than before.
 */
void ref_learn(struct ref_session *s, struct ref_seq *q, uint32_t g, const int32_t *pages, int32_t n);
int ref_prefill_prepare(struct ref_session *s, uint64_t handle, const int32_t *lengths, uint32_t n,
			struct ref_delivery *d);
int ref_prefill_complete(struct ref_session *s, uint64_t handle, const struct wire_fence *f, uint64_t armed);
/*
 * codes[n]: one an entry; what the engine answered goes in. Pages that a step
 * takes from a class are read from the host table.
 */
int ref_step_prepare(struct ref_session *s, const struct ref_step *step, int *codes, struct ref_delivery *d);
int ref_step_complete(struct ref_session *s, const struct ref_step *step, const uint64_t *armed, int *codes);
/* What is wrong with all of it. */
int ref_turn_check(struct ref_session *s, const struct ref_turn *t);
/* What ends, then (after the begins) what is prepared: a code for each complete, and for what else the entry asks for.
 */
void ref_turn_ends(struct ref_session *s, const struct ref_turn *t, const uint64_t *armed, int *completed, int *result);
void ref_turn_prepares(struct ref_session *s, const struct ref_turn *t, const int *completed, int *result,
		       struct ref_delivery *d);
int ref_rewind(struct ref_session *s, uint64_t handle, const int32_t *tokens, uint32_t n);
int ref_reserve(struct ref_session *s, uint64_t handle, int64_t max_tokens, int said, struct ref_request **out);
int ref_pin(struct ref_session *s, uint64_t handle, bool pinned);
/* Which extents are to come empty, as it was decided just now; @lacking: somebody lacks pages. */
void ref_emptying_learn(struct ref_pool *p, const bool *emptying, bool lacking);
/* The same at other times: as it was, but for those that are empty. */
void ref_emptying_check(struct ref_pool *p, const bool *emptying);
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
/* K ids that the host row of @slot must show in group @g, by logical page; NULL: all empty. */
const int32_t *ref_row(const struct ref_session *s, uint32_t g, int32_t slot);
int32_t ref_in_row(const struct ref_session *s, const struct ref_seq *q, uint32_t g);
/* Pages that the sequence holds in group @g: bound, reserved and staged. */
int32_t ref_held(const struct ref_session *s, const struct ref_seq *q, uint32_t g);
/* Pages [begin, end) that the sequence retains, as it is asked for: those of its bindings, from the prepare on. */
void ref_shown_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
		     int64_t *begin, int64_t *end);
/* Pages [begin, end) in the row: bound by the pending transition, and staged by it. */
void ref_new_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
		   int64_t *begin, int64_t *end);
void ref_retiring_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
			int64_t *begin, int64_t *end);

#endif
