/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - commands in flight
 *
 * A call is made, filled, sent, answered and collected. Its ticket is the
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
	int result;
	bool done; /* complete: the caller says that the device has finished */
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
	struct swakv_request **out; /* caller's, written when collected */
	int32_t *map;               /* owned: pending compaction's mapping, and scratch of the same size */
	void *answer;               /* caller's buffer for the payload of a query */
	uint32_t wait_ms;           /* that the broker may keep the command, before it answers */
	bool held;                  /* a begin that was granted, and waits for its slots */
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

struct part {
	const void *p;
	size_t n;
};

/* A call of @op about @n requests; the caller names them by request_entry() (session.h). NULL with the sentence set. */
/* The call of @ticket that is under way or not collected; NULL: there is none. */
struct call *call_find(struct swakv_session *s, swakv_ticket ticket);
struct call *call_new(struct swakv_session *s, uint16_t op, uint32_t n, call_effect *effect);
/* Drops a call that is not in flight. */
void call_free(struct swakv_session *s, struct call *c);
/*
 * Sends the command with payload @parts and @n elements; waits for space at
 * most the session's time. On failure the call is freed and the sentence set.
 */
int call_send(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, const struct part *parts,
	      size_t n_parts);
/*
 * The parts of call_send(), for a payload of @bytes that is put together by the
 * caller: room for it (on failure the call is freed and the sentence set); where
 * byte @offset of it goes, at any time before; publishing; noting that it was
 * sent, and waking a broker that sleeps. What is done between the last two costs
 * nothing: until the command has left this CPU, looking at the broker's flag waits.
 */
int call_open(struct swakv_session *s, struct call *c, size_t bytes);
void *call_place(struct swakv_session *s, size_t offset);
void call_publish(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, size_t bytes);
void call_sent(struct swakv_session *s, struct call *c);
/* After sending: hands out the ticket, or, when @ticket is NULL, waits and collects. */
int call_return(struct swakv_session *s, struct call *c, swakv_ticket *ticket);
/* A call that needs no broker: its result is there already. */
int call_return_now(struct swakv_session *s, swakv_ticket *ticket);
/* Sends and forgets. */
void call_send_orphan(struct swakv_session *s, struct call *c, uint64_t request, const struct part *parts,
		      size_t n_parts);
/* Most payload bytes one command can carry. */
size_t call_max_payload(const struct swakv_session *s);
/* True when @n elements of @size bytes behind @head bytes can travel in one command. */
bool call_fits(const struct swakv_session *s, size_t head, uint32_t n, size_t size);

/* Takes every answer that is there. */
void calls_drain(struct swakv_session *s);
/* Answers every call in flight with SWAKV_EGONE and @why. */
void calls_fail(struct swakv_session *s, const char *why);
/* Frees all calls, whatever their state. */
void calls_deinit(struct swakv_session *s);

/* An effect for calls that have none: the payload is copied to c->answer. */
call_effect call_effect_answer;
/* A begin that is held (request.c): true when that is over, with its result. */
bool begin_settled(struct swakv_session *s, struct call *c);

#endif
