/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_memory.h - the two memories a session shares with its worker
 *
 * "session": rings, timeline lines, wait word; both sides write. "tables": the
 * host page tables; the worker gets a descriptor that it can only read, and the
 * memory is sealed against any further writable mapping. Both are sealed
 * against shrinking and growing, and every page of them is there before a
 * descriptor leaves the broker. Where things lie is computed and kept privately
 * in struct session_layout and never read back from shared memory.
 */
#ifndef SWAKV_BROKER_SESSION_MEMORY_H
#define SWAKV_BROKER_SESSION_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "atomics.h"
#include "engine/engine.h"
#include "wire.h"

struct session_layout {
	uint32_t n_groups;
	uint32_t n_streams;
	uint32_t max_batch;
	uint32_t n_rows;            /* of the tables of all groups */
	uint32_t max_command_slots; /* largest message of each direction */
	uint32_t max_reply_slots;
	uint32_t ring_slots; /* of each ring: a power of two, twice the largest message at least */
	/* bytes, in the session memory */
	uint64_t commands_control, commands_slots;
	uint64_t replies_control, replies_slots;
	uint64_t lines;
	uint64_t wait;
	uint64_t boards;
	uint64_t ranges;
	uint64_t session_bytes;
	/* bytes, in the tables memory and (cells only) in each device table */
	uint64_t cells[WIRE_MAX_GROUPS];
	uint64_t rows[WIRE_MAX_GROUPS];
	uint64_t cells_bytes[WIRE_MAX_GROUPS];
	uint64_t tables_bytes;
};

struct session_memory {
	struct session_layout layout;
	unsigned char *session; /* mapped, layout.session_bytes */
	unsigned char *tables;  /* mapped writable, layout.tables_bytes */
	int session_fd;
	int tables_fd; /* opened read-only */
	shm_u32 lost;  /* 1: pages of `session` are gone, zeroes are in their place */
};

/* Slots of a message with @payload bytes behind its header of 32. */
static inline uint32_t message_slots(uint64_t payload)
{
	return (uint32_t)((32 + payload + RING_SLOT - 1) / RING_SLOT);
}

/* @m has passed model_check(), which filled @g. */
void session_layout_init(struct session_layout *l, const struct model *m, const struct geometry *g);

/*
 * Makes both memories, zeroed, with a descriptor of each, which may be closed once
 * it has been sent. 0, or a negative errno with nothing left behind; -ENOSPC and
 * -ENOMEM: memory is short.
 */
int session_memory_init(struct session_memory *m, const struct session_layout *l);
/* Unmaps and closes. Safe to repeat. */
void session_memory_deinit(struct session_memory *m);

#endif
