/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operation.h - all that the ring thread knows of an operation, in one table
 *
 * An opcode is looked up once, when its command has been taken from the ring
 * (operation_decode()). Its number and its name are in wire.h. A new operation
 * that is not in the table does not compile.
 */
#ifndef SWAKV_BROKER_OPERATION_H
#define SWAKV_BROKER_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "commands.h"
#include "fault.h"
#include "wire.h"

/* Its fences, and when they look at a line. */
enum fences {
	FENCES_NONE,
	FENCES_IF_ANY, /* of a complete: unless all say "done" */
	FENCES_ALL,    /* of an end: always, as requests have points of their own */
};

/* What follows the header of its answer, when it was not refused. */
enum answer {
	ANSWER_HEADER, /* nothing */
	ANSWER_DELIVERY,
	ANSWER_REQUEST,
	ANSWER_SEQUENCE,
	ANSWER_PAGES,
};

/* What its header counts. */
enum counted {
	COUNTED_NOTHING,
	COUNTED_SEQUENCES,
	COUNTED_ENTRIES,
	COUNTED_STREAMS,
	COUNTED_PAGES,
	COUNTED_PAGES_ASKED,
	COUNTED_PARTS, /* of a turn, whose `request` counts two things (wire_turn.h) */
};

/* A turn lists so many counts for each sequence: accepted, and tokens or slots. */
#define TURN_COUNTS 2

struct operation {
	/* The payload of its command: bytes, and so many more for each of what the header counts. */
	uint16_t fixed, each;
	uint16_t listed; /* and for each of what the header's `request` counts: of a step, counts; of a give, fences */
	uint8_t counted; /* enum counted */
	bool is_step;    /* counted are entries */
	uint8_t fences;  /* enum fences */
	uint8_t answer;  /* enum answer */
	/* Of a command whose size is right: clears w->formed, with w->fault, unless the header is right; NULL: it is.
	 */
	void (*check)(struct workspace *w, const struct channel *c);
	/* Returns 0, or a code with w->fault. */
	int (*execute)(struct workspace *w, struct channel *c, uint64_t now_ns);
	/* Counts what it has come to (tally.h); NULL: it is not counted. */
	void (*tally)(struct channel *c, const struct workspace *w, uint64_t now_ns);
	/* How much it may be (command_weight.h); NULL: next to nothing. */
	uint64_t (*weight)(const struct workspace *w, const struct channel *c);
};
extern const struct operation operations[WIRE_OP_COUNT];

/* The most that the header of @o may count in a session of so many sequences and streams. */
uint32_t operation_most(const struct operation *o, uint32_t max_batch, uint32_t n_streams);
/* The same of its `request`, where that counts something. */
uint32_t operation_most_listed(const struct operation *o, uint32_t max_batch, uint32_t n_streams);

/* NULL: there is none. */
static inline const struct operation *operation_of(uint32_t op)
{
	return op >= WIRE_OP_NOP && op < WIRE_OP_COUNT ? &operations[op] : NULL;
}

/* Bytes of the payload of a command that counts @n, without what its `request` counts. */
static inline uint64_t operation_payload(const struct operation *o, uint32_t n)
{
	return o->fixed + (uint64_t)n * o->each;
}

/* Looks at the command of @c in w->message, once: which operation it is, and whether its payload can be read. */
void operation_decode(struct workspace *w, const struct channel *c);
/* True when it looks at a line, which must be fresh then, even when no point is open yet. */
bool operation_reads_lines(const struct workspace *w);
/*
 * Executes the command of @c in w->message, which has been decoded; fills the outcome. May be repeated
 * when code is not 0. SWAKV_EAGAIN: a begin or take that waits, to be answered
 * later, by commands_answer(), in w->room slots.
 */
void operation_execute(struct workspace *w, struct channel *c, uint64_t now_ns);

/*
 * Slots of the largest answer to operation @op whose header counts @n, in a session
 * of @n_rows rows; also to one that is unknown.
 */
uint32_t reply_slots(uint32_t op, uint32_t n, uint32_t n_rows);
/* Slots of the answer to a begin or take (of so many pages) that has waited. */
uint32_t waited_slots(bool took, uint32_t most);

/* Its entries are requests, each of which may be refused. */
static inline bool is_over_requests(const struct operation *o)
{
	return o->is_step || o->counted == COUNTED_PARTS;
}

#endif
