/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - commands in flight
 *
 * A call is made and filled, sent (call_send.h), answered (call_answer.h) and
 * collected (call_collect.h). One whose waiter gave up becomes an orphan: its
 * answer still takes effect, because the broker's tables have changed, and then
 * it is freed. A call's ticket is the
 * user_data of the command: index in the low 16 bits, a count above, so that an
 * old ticket names nothing. Answers take effect in the order they come,
 * whichever call is being waited for.
 */
#ifndef SWAKV_CLIENT_CALL_H
#define SWAKV_CLIENT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "fault.h"
#include "wire.h"

struct call;

/* Entry @i of the caller's list, whose entries are @size bytes apart; all members of version 1 are there. */
static inline struct swakv_step *step_at(struct swakv_step *steps, uint32_t size, uint32_t i)
{
	return (struct swakv_step *)(void *)((char *)steps + (size_t)i * size);
}

static inline struct swakv_turn *turn_at(struct swakv_turn *turns, uint32_t size, uint32_t i)
{
	return (struct swakv_turn *)(void *)((char *)turns + (size_t)i * size);
}

/*
 * What an answer does in the library; called once, for refusals too (then
 * c->result is set). Returns the call's result. @payload has @len bytes, a
 * private copy.
 */
typedef int call_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			const unsigned char *payload, size_t len);

/* One request that the call is about. */
struct call_entry {
	struct swakv_request *request; /* referenced */
	int16_t result;                /* of a turn: of what it asks for besides a complete */
	int16_t completed;             /* of a turn: of the complete */
	uint8_t what;                  /* of a turn: enum swakv_turn_what */
	bool done;                     /* complete: the caller says that the device has finished */
};

enum call_state { CALL_FREE, CALL_MADE, CALL_SENT, CALL_ANSWERED };

struct call {
	swakv_ticket ticket; /* index in the table, and the count of its latest use */
	enum call_state state;
	bool orphan; /* nobody will collect it */
	uint16_t op;
	int result;
	uint32_t n_entries;
	call_effect *effect;
	struct call_entry *entries;
	struct call_entry one;      /* storage of entries when there is one */
	struct swakv_step *steps;   /* caller's, written when collected */
	struct swakv_turn *turns;   /* the same of a turn */
	uint32_t step_size;         /* distance between them */
	uint32_t told;              /* entry of which the sentence is; UINT32_MAX: of none */
	struct swakv_request **out; /* caller's, written when collected */
	int32_t *map;               /* owned: pending compaction's mapping, and scratch of the same size */
	void *answer;               /* caller's buffer for the payload of a query */
	uint32_t wait_ms;           /* that the broker may keep the command, before it answers */
	bool held;                  /* a begin that was granted, and waits for its slots */
	bool ticketed;              /* the caller has its ticket */
	bool ready;                 /* counted by events.h */
	/* ---- the above is empty in a free call; the rest is kept, or set with one of the above ---- */
	uint32_t n_map;
	int32_t new_batch;
	uint32_t flags;
	uint32_t n_more;
	uint64_t device_mapping;
	uint64_t wait_until; /* with wait_ms: when that time is up */
	size_t answer_size;
	uint32_t *answer_count;  /* gets the reply's element count, with the answer */
	struct call_entry *more; /* storage of entries when there are several; kept for the next use */
	struct call *next_free;
	char why[WIRE_TEXT]; /* the sentence, when the result is not 0 */
};

struct call_table {
	struct call **calls;
	struct call *free;
	uint32_t n; /* made so far */
	uint32_t n_sent;
	uint64_t count; /* of tickets given out */
};

/* A call of @op about @n requests; the caller names them by request_entry() (request.h). NULL with the sentence set. */
struct call *call_new(struct swakv_session *s, uint16_t op, uint32_t n, call_effect *effect);
/* The call of @ticket that is under way or not collected; NULL: there is none. */
struct call *call_find(struct swakv_session *s, swakv_ticket ticket);
/* Drops a call that is not in flight. */
void call_free(struct swakv_session *s, struct call *c);
/* Frees all calls, whatever their state. */
void calls_deinit(struct swakv_session *s);

#endif
