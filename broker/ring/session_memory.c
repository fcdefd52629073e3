/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_memory.c - see session_memory.h
 *
 * Order matters for the tables: the broker maps them writable first, then seals
 * future writes (mappings and write(2) alike), then opens them again read-only
 * through /proc/self/fd; that second descriptor is what the worker gets. A
 * worker that opens it for writing by its own /proc entry still cannot map or
 * write it.
 */
#include "session_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"
#include "crash/memory_guard.h"
#include "engine/bug.h"
#include "operation.h"
#include "process/sealed_memfd.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { MIN_RING_SLOTS = 256, MAP_ALIGN = 4096 };

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* Largest message of each direction. */
static void layout_messages(struct session_layout *l)
{
	uint64_t payload = 0;

	l->max_reply_slots = 0;
	for (uint32_t op = WIRE_OP_NOP; op < WIRE_OP_COUNT; op++) {
		const struct operation *o = operation_of(op);
		uint32_t n = operation_most(o, l->max_batch, l->n_streams);
		uint64_t listed = (uint64_t)operation_most_listed(o, l->max_batch, l->n_streams) * o->listed;

		payload = max_u64(payload, operation_payload(o, n) + listed);
		l->max_reply_slots = (uint32_t)max_u64(l->max_reply_slots, reply_slots(op, n, l->n_rows));
	}
	l->max_command_slots = message_slots(payload);
	/* One limit both ways: a client that fills a command up to it has made no lie, at most a mistake to be told. */
	l->max_command_slots = (uint32_t)max_u64(l->max_command_slots, l->max_reply_slots);
	l->ring_slots = MIN_RING_SLOTS;
	while (l->ring_slots < 2 * l->max_command_slots || l->ring_slots < 2 * l->max_reply_slots)
		l->ring_slots *= 2;
	MUST(l->max_reply_slots <= l->ring_slots && l->max_command_slots <= l->ring_slots);
}

void session_layout_init(struct session_layout *l, const struct model *m, const struct geometry *g)
{
	uint64_t at = 0, ring;

	*l = (struct session_layout){ .n_groups = m->n_groups,
				      .n_streams = m->n_streams,
				      .max_batch = (uint32_t)m->max_batch,
				      .n_rows = (uint32_t)m->max_batch * m->n_groups };
	layout_messages(l);
	ring = (uint64_t)l->ring_slots * RING_SLOT;
	l->commands_control = at;
	l->replies_control = l->commands_control + sizeof(struct ring_control);
	l->wait = l->replies_control + sizeof(struct ring_control);
	l->lines = l->wait + CACHELINE;
	l->boards = l->lines + m->n_streams * sizeof(struct wire_line);
	l->ranges = l->boards + m->n_groups * sizeof(struct wire_board);
	l->commands_slots = align_up(l->ranges + m->n_groups * sizeof(struct wire_ranges), MAP_ALIGN);
	l->replies_slots = l->commands_slots + ring;
	l->session_bytes = align_up(l->replies_slots + ring, MAP_ALIGN);
	for (uint32_t i = 0; i < m->n_groups; i++) {
		l->cells_bytes[i] = (uint64_t)m->max_batch * shape_id_rows(g[i].shape.joined) * (uint64_t)g[i].width *
				    sizeof(int32_t);
		l->cells[i] = at;
		l->rows[i] = align_up(at + l->cells_bytes[i], CACHELINE);
		at = align_up(l->rows[i] + (uint64_t)m->max_batch * sizeof(struct wire_row_head), MAP_ALIGN);
	}
	l->tables_bytes = at;
}

/* The same memory, opened for reading only. */
static int reopen_read_only(int fd)
{
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = open(path, O_RDONLY | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

int session_memory_init(struct session_memory *m, const struct session_layout *l)
{
	AUTO_CLOSE int tables = -1;
	int r;

	*m = (struct session_memory){ .layout = *l, .session_fd = -1, .tables_fd = -1 };
	r = sealed_memfd("swakv-session", l->session_bytes, F_SEAL_SEAL, &m->session);
	if (r < 0)
		return r;
	m->session_fd = r;
	memory_guard_add(m->session, l->session_bytes, &m->lost);
	tables = sealed_memfd("swakv-tables", l->tables_bytes, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, &m->tables);
	r = tables < 0 ? tables : reopen_read_only(tables);
	if (r < 0) {
		session_memory_deinit(m);
		return r;
	}
	m->tables_fd = r;
	return 0;
}

void session_memory_deinit(struct session_memory *m)
{
	close_fd(&m->session_fd);
	close_fd(&m->tables_fd);
	memory_guard_remove(m->session);
	if (m->session)
		munmap(m->session, m->layout.session_bytes);
	if (m->tables)
		munmap(m->tables, m->layout.tables_bytes);
	m->session = NULL;
	m->tables = NULL;
}
