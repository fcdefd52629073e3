/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - from a command in private memory to the engine, and its reply
 *
 * A command that is well-formed as a message but wrong in itself (unknown
 * operation, sizes that do not agree, reserved fields) is refused like any
 * other invalid argument: the ring stays in step, so the session lives on.
 */
#ifndef SWAKV_BROKER_COMMANDS_H
#define SWAKV_BROKER_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "channel.h"
#include "crash/ring_trace.h"

struct operation;

/* Private memory a command is copied to, checked in and answered from; one is enough for all sessions. */
struct workspace {
	unsigned char *message; /* room for the largest command of any session, cache-line aligned */
	struct ring_trace trace;
	/* ---- what operation_decode() found ---- */
	const struct operation *operation; /* NULL: unknown */
	bool formed;                       /* well-formed as a message: its payload can be read; else fault says why */
	/* ---- the outcome of operation_execute() ---- */
	int code;
	struct fault fault; /* when code is not 0 */
	uint64_t value;
	uint32_t n;    /* elements of the payload */
	uint32_t room; /* slots of the answer, when it comes later */
	uint32_t n_faults, n_begun;
	bool starved; /* refused, whole or an entry, for want of pages */
	bool closed;  /* the session said close */
	struct delivery delivery;
	struct wire_request_state request;
	struct wire_sequence_state sequence;
	struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
	struct wire_row rows[WIRE_MAX_BATCH * WIRE_MAX_GROUPS];
	struct wire_scrub scrubs[WIRE_MAX_BATCH * WIRE_MAX_GROUPS];
	struct wire_move moves[WIRE_MAX_MOVES];
	struct wire_entry_fault faults[WIRE_MAX_BATCH];
	struct wire_begun begun[WIRE_MAX_BATCH];
	struct wire_binding bindings[WIRE_STATE_CHUNK];
	int32_t pages[WIRE_MAX_PAGES];
};

/* NULL when memory is short. */
struct workspace *workspace_new(void);
/* Returns NULL; NULL is ignored. */
struct workspace *workspace_free(struct workspace *w);

/* The command in w->message, and what follows its header. */
static inline const struct wire_command *command_head(const struct workspace *w)
{
	return (const struct wire_command *)w->message;
}

static inline const void *command_payload(const struct workspace *w)
{
	return w->message + sizeof(struct wire_command);
}

/* Writes the outcome to the reply ring, where room was found before, and publishes it. */
void commands_reply(struct workspace *w, struct channel *c);
/* Answers a begin or take of @c that has waited. */
void commands_answer(struct channel *c, const struct admission *a, uint64_t now_ns);

#endif
