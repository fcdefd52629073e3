/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - one engine and one reference model that are given the same commands
 *
 * A command names requests by label (the number of their begin in this world),
 * fences by how they relate to the armed value, so a list of commands still
 * means something when some of them are taken out.
 */
#ifndef SWAKV_TEST_WORLD_H
#define SWAKV_TEST_WORLD_H

#include <stdio.h>

#include "engine.h"
#include "model.h"

enum op {
	OP_ATTACH,  /* session, value: which model */
	OP_MODEL,   /* value: which field of a model is odd */
	OP_END,     /* session */
	OP_RECLAIM, /* session: proof is there that its device work has ended */
	OP_ARM,     /* session, stream: work is enqueued, and a write of the next value behind it */
	OP_REACH,   /* session, stream: of the values that are armed but not written all but `value` are written */
	OP_BEGIN,   /* session, request, stream, value: max_tokens, list[n]: slots, new_batch: how long it may wait,
		       flags: 1, its steps may overlap; 2, it is pinned */
	OP_PREFILL_PREPARE,  /* session, request, list[n]: lengths */
	OP_PREFILL_COMPLETE, /* session, request, fence */
	OP_STEP_PREPARE,     /* session, entries[n], counts[n_counts] */
	OP_STEP_COMPLETE,    /* session, entries[n], counts[n_counts] */
	OP_REWIND,           /* session, request, list[n]: tokens */
	OP_RESERVE,          /* session, request, value: max_tokens */
	OP_COMPACT_BEGIN,    /* session, request, list[n], new_batch, flags */
	OP_COMPACT_COMPLETE, /* session, request, fence */
	OP_FINISH,           /* session, request, fence */
	OP_ABANDON,          /* session, request, fence */
	OP_SHUTDOWN,         /* session, list[n]: one fence mode a stream */
	OP_LIMIT,            /* value: which quota, list[0]: floor, list[1]: ceiling, negative: as it was */
	OP_PASS,             /* value: so much time passes */
	OP_WITHDRAW,         /* session, value: the label of a begin that may wait */
	OP_TRIM,             /* value: how many empty extents may be given up */
	OP_QUERY, /* session, request, list[0]: sequence, list[1]: generation, 0 any, 1 right, 2 stale, list[2]: group
		   */
	OP_TAKE,  /* session, request, value: group, list[0]: pages at least, list[1]: at most, new_batch: how long it
		     may wait, flags: WIRE_TAKE_* */
	OP_GIVE,  /* session, value: group, list[0]: how many of those that it has taken, list[1]: from which one on,
		     flags: enum wrong_page, entries[n]: fences of the streams `request` */
	OP_OFFER, /* session, value: group, list[0]: so many it says that it could give */
	OP_PIN,   /* session, request, flags: 1 it is pinned, 0 no longer */
	OP_PRESS, /* it is decided who is asked for pages that others lack */
	OP_TURN,  /* session, entries[n], counts[n_counts], and for the begin among them what OP_BEGIN has, new_batch:
		     its  slots, flags: 2, all are denied, 4, it would wait, 8, a detail too many */
	OP_COUNT
};

enum fence_mode {
	FENCE_DONE,
	FENCE_NEW,   /* arms a value and names it */
	FENCE_ARMED, /* the last armed value */
	FENCE_OLD,   /* the last but one */
	FENCE_POINT,
	FENCE_FAILED,
	FENCE_LINE,   /* another stream's line */
	FENCE_BEYOND, /* a value that was never armed */
	FENCE_KIND,   /* no such kind */
	FENCE_COUNT
};

/* One of the pages of a give is another. */
enum wrong_page { WRONG_NONE, WRONG_TWICE, WRONG_OTHER, WRONG_RANGE };

enum { STEP_ENTRIES = 6, STEP_COUNTS = 2 * REF_BATCH, WORLD_MODELS = 4, WORLD_COMMANDS = 4096 };

struct command {
	uint8_t op, session, n, fence, n_counts;
	int32_t request; /* label; negative: never given out */
	int64_t value;
	uint32_t stream, flags;
	int32_t new_batch;
	int32_t list[REF_BATCH + 2];
	struct {
		int32_t request, tokens, accepted;
		uint32_t fence, what; /* of a turn: WIRE_TURN_* */
	} entries[STEP_ENTRIES];
	int32_t counts[STEP_COUNTS]; /* of the entries that list them, in order */
};

/* What a world is made of; drawn from the seed. */
struct setup {
	uint64_t half, extent;
	uint32_t scrub; /* enum wire_scrub_policy */
	bool fresh_is_dirty;
	uint64_t wait_claim, claim_hold, claim_max;
	uint32_t slice; /* operations between two pauses of the engine, 0: none */
	uint32_t n_models;
	struct ref_model models[WORLD_MODELS];
	uint32_t quotas[WORLD_MODELS]; /* of each model: the name under which its sessions attach */
};

/* The engine's side of a session, and what its client would see. */
struct side {
	struct session *session;
	struct session_tables tables[REF_GROUPS];
	int32_t *at_end[REF_GROUPS]; /* the host tables as they were when the session ended; NULL before */
	uint64_t armed[REF_STREAMS];
	uint64_t offered[REF_GROUPS]; /* what it has said last */
	uint64_t scrubbed;            /* pages that it was told to scrub */
	int32_t device[REF_GROUPS][REF_BATCH][REF_WIDTH];
	uint32_t version[REF_GROUPS][REF_BATCH];
	struct {
		uint64_t change, print; /* of the last state seen of a sequence in this slot */
	} seen[REF_GROUPS][REF_BATCH];
	uint32_t model;
};

struct label {
	uint64_t handle;
	uint32_t session;
};

/* Pages of a session, as of a `change` of the pool. */
struct page_counts {
	uint64_t change;
	int64_t leased, quarantined, bytes;
	int64_t taken[REF_GROUPS]; /* leased ones that it has taken itself */
};

struct world {
	struct setup setup;
	struct engine *engine;
	struct ref_pool pool;
	struct ref_session sessions[REF_SESSIONS];
	struct side sides[REF_SESSIONS];
	struct label labels[WORLD_COMMANDS];
	uint64_t n_commands;
	struct page_counts counted[REF_SESSIONS];
	int32_t holder[REF_EXTENTS];   /* of each extent before this command */
	int code;                      /* of the last command; of a step: of its first entry that was refused */
	int entry_codes[STEP_ENTRIES]; /* of the last step */
	uint64_t reasons[FAULT_REASON_COUNT];
	uint64_t codes[32]; /* how often each code was seen, by its negative */
	uint64_t n_updates, n_references, n_scrubs;
	uint64_t n_pauses, n_claims;
	uint64_t n_waited;         /* begins that waited and were admitted */
	uint64_t n_asked;          /* times that somebody was asked for pages */
	uint64_t n_managed;        /* pages that sessions took themselves */
	uint64_t n_turns;          /* entries of turns */
	uint64_t n_taken, n_moved; /* pages that steps asked their classes for, extents that left a class */
	struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
	struct wire_row rows[REF_GROUPS * REF_BATCH];
	struct wire_scrub scrubs[REF_GROUPS * REF_BATCH];
	struct wire_move moves[WIRE_MAX_MOVES];
	uint64_t n_page_moves, n_emptying; /* pages that moved, extents that were to come empty */
	uint64_t n_told;                   /* ranges of pages that sessions were told to give first */
	uint64_t decisions;                /* which extents are to come empty: seen so far */
	struct ref_delivery expected;
};

struct world *world_new(const struct setup *setup);
/* Ends what is left and frees all; NULL is ignored. Returns NULL. */
struct world *world_free(struct world *w);
/* Gives @c to both sides and compares. False: w->pool.error says what differs. */
bool world_run(struct world *w, const struct command *c);
/* Compares everything, and asks the engine to check itself. */
bool world_scan(struct world *w);

/* Name of the models that share quota @quota. */
const char *quota_name(uint32_t quota);
/* The handle that a label stands for, or one that was never given out. */
uint64_t handle_of(const struct world *w, int32_t label);
/* Completion points that the session may still promise: what the engine has open is its word. */
void count_spare(struct world *w, uint32_t session);

/* Stream of a live request. */
uint32_t stream_of(struct world *w, uint32_t session, uint64_t handle);
/* Room for what an answer brings. */
struct delivery delivery_of(struct world *w);

struct wire_fence fence_of(struct world *w, uint32_t session, uint32_t mode, uint32_t stream);

/* ---- manage.c -------------------------------------------------------------- */

void run_take(struct world *w, const struct command *c);
void run_give(struct world *w, const struct command *c);
void run_offer(struct world *w, const struct command *c);
void run_press(struct world *w);
/* A take got these pages. */
void learn_taken(struct world *w, uint32_t session, const struct ref_take *t, const int32_t *pages, uint32_t n);

/* ---- run_turn.c ------------------------------------------------------------ */

void run_turn(struct world *w, const struct command *c);

/* ---- run_moves.c ------------------------------------------------------------ */

void run_pin(struct world *w, const struct command *c);
/* Reads which extents are to come empty. */
void see_emptying(const struct world *w, bool *emptying);
/* Of which pages in them those are told that manage them. */
void see_ranges(struct world *w, const bool *emptying);
/* What moves with a command. */
struct moves_seen {
	struct world *w;
	uint32_t session;
	uint64_t before; /* so many pages had moved */
	struct ref_moves ref;
};
void moves_before(struct world *w, uint32_t session, struct moves_seen *m);
/* What the model is told of it; @d: the answer, NULL: none. */
const struct ref_moves *moves_after(struct world *w, struct moves_seen *m, const struct delivery *d);

/* ---- admission.c ----------------------------------------------------------- */

void run_begin(struct world *w, const struct command *c);
/* The request @r of command @label got @handle: its pages are learned. */
void admitted(struct world *w, uint32_t session, int32_t label, struct ref_request *r, uint64_t handle);
void run_reserve(struct world *w, const struct command *c);
void run_withdraw(struct world *w, const struct command *c);
void run_limit(struct world *w, const struct command *c);
/* The engine has looked at its claims; @arg: the world. */
void look_at_claims(void *arg);
/* Begins that have waited and are answered now; none may be left that should be. */
void answer_waiting(struct world *w);

/* ---- compare.c ------------------------------------------------------------- */

/* Name of a reason, without the FAULT_. */
const char *reason_name(uint32_t reason);
void compare_code(struct world *w, const char *call, int got, int want, const struct fault *f);
/* Applies the engine's delivery to the client's table and compares it with the model's. */
void compare_delivery(struct world *w, uint32_t session, const struct delivery *d);
void compare_session(struct world *w, uint32_t session);
void compare_request(struct world *w, uint32_t session, struct ref_request *r);
void compare_counts(struct world *w);
/* Reads which extents each class holds; @taker, @trim: see ref_extents_learn(). */
void compare_extents(struct world *w, const struct ref_session *taker, int64_t trim);

/* ---- scenario.c -------------------------------------------------------------- */

const char *command_name(enum op op);
/* One line of a log. */
void command_print(FILE *out, const struct setup *setup, const struct command *c);
/*
 * The commands as a scenario file, as far as its grammar can say them, with
 * what must hold at the end. Leaves its world behind: it may be broken.
 */
void scenario_write(FILE *out, const struct setup *setup, const struct command *list, uint32_t n, const char *why);

#endif
