/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h - what is checked of a hello, and what the welcome says
 *
 * Pure: bytes in, verdict out. Nothing here touches a socket or allocates.
 */
#ifndef SWAKV_BROKER_HANDSHAKE_H
#define SWAKV_BROKER_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "device/backend.h"
#include "engine/engine.h"
#include "ring/session_memory.h"
#include "wire.h"

/* What a valid hello came to. */
struct handshake {
	struct wire_hello hello; /* the private copy */
	uint16_t version;        /* agreed on */
	struct model model;
	struct geometry geometry[WIRE_MAX_GROUPS];
};

/* Why not: the fault, and a sentence that may say more than it. */
struct refusal {
	struct fault fault;
	char text[WIRE_TEXT];
};

/*
 * Checks the @bytes of @message in the order magic, version, sizes, reserved
 * fields, names, pool, model. 0 and *@h filled; else the code, and *@r says why.
 */
int handshake_check(struct handshake *h, const void *message, size_t bytes, const struct backend_pool *pool,
		    struct refusal *r);

/* Fills *@r with a reason whose sentence needs no more than its values. Returns the code. */
int refusal_set(struct refusal *r, enum fault_reason reason, int64_t got, int64_t want);
/* As refusal_set(), with a sentence that says more than the reason's. */
int refusal_text(struct refusal *r, enum fault_reason reason, int64_t got, int64_t want, const char *text);

/* A welcome that says no. */
void welcome_refuse(struct wire_welcome *w, const struct refusal *r, const uint8_t boot_id[16]);

/*
 * A welcome that says yes: everything but the session's identity, which the
 * caller fills. @table_offsets: of each group's device table in the allocation.
 */
void welcome_fill(struct wire_welcome *w, const struct handshake *h, const struct session_layout *l,
		  const struct backend_pool *pool, const uint64_t *table_offsets);

#endif
