/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one attachment to a broker: its memory, tables, streams and calls
 *
 * Names that begin with swakv_ are the public API; everything else is private
 * to the library.
 */
#ifndef SWAKV_CLIENT_SESSION_H
#define SWAKV_CLIENT_SESSION_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "call.h"
#include "connect.h"
#include "cpu_list.h"
#include "events.h"
#include "incarnation.h"
#include "rhythm.h"
#include "ring.h"
#include "stream/stream.h"
#include "table.h"
#include "wants.h"
#include "wire.h"

struct pool_import;

#define SESSION_ERROR 512

struct mapping {
	void *p; /* NULL: not mapped */
	size_t bytes;
};

struct swakv_session {
	uint32_t incarnation; /* of the process that attached */
	int sock;
	int doorbell;
	struct wire_welcome welcome;                  /* checked; keys wiped */
	char near_cpus[CPU_LIST_TEXT];                /* beside the broker's ring thread; empty: nobody knows */
	struct swakv_layout layouts[WIRE_MAX_GROUPS]; /* [welcome.n_groups], derived at attach (layout.h) */
	uint32_t max_batch;
	char broker[SOCKET_PATH_SIZE]; /* as in struct connection, and so is the next */
	int broker_pid;                /* 0: not of this pid namespace */
	char look[CONNECTION_COMMAND];

	struct mapping memory;        /* rings and lines */
	struct mapping tables_memory; /* host tables, read-only */
	struct pool_import *pool;
	bool registered; /* memory is registered with the driver */

	struct ring_producer_spsc commands;
	struct ring_consumer_spsc replies;
	struct wire_wait *wait;
	struct events events;
	struct rhythm rhythm;
	struct wire_board *boards;  /* [welcome.n_groups] */
	struct wire_ranges *ranges; /* [welcome.n_groups]; NULL: the broker has none */
	struct wants wants;
	uint64_t spin_ns;
	uint64_t timeout_ns;
	uint64_t looked_ns; /* last look at the socket */

	struct table tables[WIRE_MAX_GROUPS]; /* [welcome.n_groups] */
	struct stream_target targets[WIRE_MAX_GROUPS];
	uint32_t mark;      /* of the last delivery checked */
	struct slot *slots; /* [max_batch] */
	struct stream streams[WIRE_MAX_STREAMS];
	LIST_HEAD(, swakv_request) requests;
	struct call_table calls;
	unsigned char *reply; /* one reply, copied out of the ring before it is looked at */
	unsigned char
		*command; /* a command of several slots, behind `reply`: put together before it is copied to the ring */

	void (*on_updates)(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n);
	void *on_updates_arg;
	struct swakv_session_counters counters;
	uint64_t scrubbed[WIRE_MAX_STREAMS]; /* value of each line behind its last scrub of a take; 0: none */
	bool unscrubbed;                     /* a scrub failed: the broker counts pages as clean that are not */
	bool lost_pages;                     /* some request has (request.h) */
	bool gone;
	bool joinable;
	bool joined; /* the session is another process's: no commands */
	char gone_why[SESSION_ERROR];
	char error[SESSION_ERROR];
};

/* Why session_enter() refuses. */
int session_refuse(struct swakv_session *s);
/* 0, or SWAKV_EINVALID: @group is none of the model's. */
int session_group(struct swakv_session *s, uint32_t group);
/*
 * 0, and no sentence is left of an earlier call; or SWAKV_EFORKED or SWAKV_EGONE
 * with the sentence set: the first line of every call. @s NULL: SWAKV_EINVALID.
 */
static inline int session_enter(struct swakv_session *s)
{
	if (!s || !incarnation_is_current(s->incarnation) || s->gone)
		return session_refuse(s);
	s->error[0] = '\0';
	return 0;
}
/*
 * 0 when a list of @n elements of @size bytes, which goes behind @head bytes of
 * others, was given and can travel; whether @n is right is the broker's to say,
 * since only it knows whether something else comes first. @what: "lengths".
 */
int session_list(struct swakv_session *s, const char *what, const void *list, uint32_t n, size_t size, size_t head);
/* Sets the sentence of swakv_session_error(); returns @code. */
int session_error(struct swakv_session *s, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The session is over: every call in flight gets SWAKV_EGONE and the sentence. Returns SWAKV_EGONE. Safe to repeat. */
int session_break(struct swakv_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Frees everything that attach made so far; for streams that could not be waited for, memory stays. */
void session_release(struct swakv_session *s);

/* The table that row @row of all groups lies in. @row is below max_batch * n_groups. */
static inline struct table *session_row_table(struct swakv_session *s, uint32_t row)
{
	return &s->tables[s->welcome.n_groups == 1 ? 0 : row / s->max_batch];
}

#endif
