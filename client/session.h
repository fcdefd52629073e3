/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - inside of a session, shared by the files of this folder
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
#include "call_answer.h"
#include "call_collect.h"
#include "call_send.h"
#include "clock.h"
#include "connect.h"
#include "pool_import.h"
#include "process.h"
#include "ring.h"
#include "stream/stream.h"
#include "wire.h"

#define SESSION_ERROR 512

struct mapping {
	void *p; /* NULL: not mapped */
	size_t bytes;
};

/* What the library knows of one row of a device table. */
struct row {
	uint32_t delivered; /* version of the last delivery that named it */
	uint32_t held;      /* version of the host row that the device row was last made from */
	uint32_t mark;      /* of the delivery being checked: names it */
	bool unsure;        /* an apply failed: the device row may not be what the mirror says */
};

/* Where the updates of a slot go, and where its last ones went. */
struct slot {
	uint8_t stream;  /* of its last request */
	uint8_t applied; /* stream that the last updates of its row were given to */
	uint64_t until;  /* value of that stream's line that proves them done; 0: none yet */
};

/*
 * One group's page table: where it lies, and what the device's copy holds once
 * its streams have got there. Rows and cells are counted over all groups.
 */
struct table {
	const struct stream_target *target;
	uint32_t first_row, first_cell;
	uint32_t width;
	const int32_t *host;              /* broker's truth, read-only */
	const struct wire_row_head *rows; /* read-only */
	int32_t *mirror;                  /* K ids, [max_batch][width] */
	struct row *state;                /* [max_batch] */
	int32_t *row_scratch;             /* [width] */
	/* of the delivery under way: those of stream k lie at [starts[k], starts[k + 1]) once they are sorted */
	struct swakv_update *updates;
	struct swakv_update *sorted; /* room for as many */
	size_t n_updates, cap_updates;
	size_t starts[WIRE_MAX_STREAMS + 1];
};

struct swakv_session {
	uint32_t incarnation; /* of the process that attached */
	int sock;
	int doorbell;
	struct wire_welcome welcome; /* checked; keys wiped */
	struct wire_group groups[WIRE_MAX_GROUPS];
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
	shm_u32 *wait_word;
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
	bool unscrubbed; /* a scrub failed: the broker counts pages as clean that are not */
	bool gone;
	char gone_why[SESSION_ERROR];
	char error[SESSION_ERROR];
};

struct swakv_request {
	LIST_ENTRY(swakv_request) link;
	struct swakv_session *session;
	uint64_t handle;
	uint32_t refs; /* the caller's, and one a call in flight */
	uint32_t stream;
	bool valid;
	bool ending;  /* a finish or abandon is in flight */
	bool dropped; /* the caller has freed it */
	/* between a prepare and its complete, when it is counted in its stream's n_prepared */
	uint16_t pending; /* the op that completes it, 0: none is pending */
	uint64_t before;  /* the stream's last mark before the step's work could be enqueued */
	/* of a pending compaction; map is NULL when none is */
	int32_t *map; /* [n], then scratch [n] */
	int32_t new_batch;
	uint32_t compact_flags;
	uint32_t n; /* sequences */
	int32_t slots[];
};

/* Why session_enter() refuses. */
int session_refuse(struct swakv_session *s);
/*
 * 0, and no sentence is left of an earlier call; or SWAKV_EFORKED or SWAKV_EGONE
 * with the sentence set: the first line of every call. @s NULL: SWAKV_EINVALID.
 */
static inline int session_enter(struct swakv_session *s)
{
	if (!s || !process_is(s->incarnation) || s->gone)
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
/* Stream @index, bound (on the host backend binds it); NULL with the sentence set, and the code in *@r. */
struct stream *session_stream(struct swakv_session *s, uint32_t index, int *r);
/* Frees everything that attach made so far; for streams that could not be waited for, memory stays. */
void session_release(struct swakv_session *s);

/* The table that row @row of all groups lies in. @row is below max_batch * n_groups. */
static inline struct table *session_row_table(struct swakv_session *s, uint32_t row)
{
	return &s->tables[s->welcome.n_groups == 1 ? 0 : row / s->max_batch];
}

/* ---- scrub.c ---------------------------------------------------------------- */

/* 0, or SWAKV_EGONE when a scrub lies outside the tables. */
int scrub_check(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n);
/* Enqueues them, once the mirrors have the rows. On failure the sentence is set. */
int scrub_deliver(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n);
/* Refuses what would bind pages, once that has failed. */
int scrub_refuse(struct swakv_session *s);

/* ---- wait.c ---------------------------------------------------------------- */

/* Rings the broker's doorbell. */
void session_wake_broker(struct swakv_session *s);
/*
 * Waits until an answer is there, or space for @want command slots (0: not
 * wanted), or @deadline has passed, or the session has broken. Spurious returns
 * are allowed: the caller looks again.
 */
void session_wait(struct swakv_session *s, uint32_t want, uint64_t deadline);
/* The error of a wait whose time is up: for how long the broker has not done @what, and what to do about it. */
int session_late(struct swakv_session *s, const char *what);
/*
 * Looks at the socket, @at_once or at most every 250 ms; its end breaks the
 * session after the last answers were taken.
 */
void session_look(struct swakv_session *s, uint64_t now, bool at_once);

/* ---- delivery.c -------------------------------------------------------------- */

/*
 * Takes the payload of an answered prepare, complete or compaction: entry
 * faults go to @c->entries, updates to the streams. Arms the streams of the
 * entries that succeeded when @arms is set. 0, SWAKV_EDEVICE (a stream failed)
 * or SWAKV_EGONE (the broker's answer is impossible; nothing was applied).
 */
int delivery_take(struct swakv_session *s, struct call *c, const unsigned char *payload, size_t len, bool arms);

/* ---- request.c ---------------------------------------------------------------- */

/* Entry @i of @c, which is empty, is about @r; @done: its device work has ended. */
static inline void request_entry(struct call *c, uint32_t i, struct swakv_request *r, bool done)
{
	r->refs++;
	c->entries[i] = (struct call_entry){ .request = r, .done = done };
}

void request_unref(struct swakv_request *r);
/* The broker no longer knows it. */
void request_lost(struct swakv_request *r);
/* It is between a prepare and @complete, the op that will settle that; 0: no longer. */
void request_set_pending(struct swakv_request *r, uint16_t complete);
/* The step of @e has been completed. With SWAKV_DONE the stream's word catches up, unless another step is under way. */
void request_completed(struct call_entry *e);
/* The first lines of a call on @r: as session_enter(), and @r must not be NULL. */
int request_enter(struct swakv_request *r);
/* Why fence_is_old(): value, line and @before. */
#define FENCE_IS_OLD                                                                                                   \
	"fence value %" PRIu64 " of stream %" PRIu32 " is no proof: the step was prepared behind mark %" PRIu64        \
	", so mark the stream behind the step's work and give that fence"
/* True when @fence of op @complete was marked before the pending step of @r could enqueue anything. */
static inline bool fence_is_old(const struct swakv_request *r, uint16_t complete, struct swakv_fence fence)
{
	/*
	 * In the wrong phase, or with another's line, there is something else to
	 * be said first, and the broker says it.
	 */
	return r->pending == complete && fence.kind == SWAKV_FENCE_LINE && fence.line == r->stream &&
	       fence.value <= r->before;
}
/* 0, or SWAKV_EINVALID with the sentence set when it is old. */
int fence_check(struct swakv_request *r, uint16_t complete, struct swakv_fence fence);
/* Brings @fence to wire form. 0 or SWAKV_EINVALID with the sentence set. */
int fence_to_wire(struct swakv_session *s, struct swakv_fence fence, struct wire_fence *out);
/* A call of @op about @r alone, NULL with the sentence set. */
struct call *request_call(struct swakv_request *r, uint16_t op, call_effect *effect);
/* A complete of one request, with its fence. */
int request_complete(struct swakv_request *r, uint16_t op, call_effect *effect, struct swakv_fence fence,
		     swakv_ticket *ticket);

#endif
