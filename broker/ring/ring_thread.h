/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_thread.h - the one thread that owns all page state
 *
 * It polls the sessions' rings, executes commands and answers; it takes no
 * lock, makes no driver call, writes no log, waits for no worker. The control
 * thread talks to it by mailbox.
 */
#ifndef SWAKV_BROKER_RING_THREAD_H
#define SWAKV_BROKER_RING_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "atomics.h"
#include "channel.h"
#include "commands.h"
#include "drained.h"
#include "engine/engine.h"
#include "mailbox.h"
#include "ring_edge.h"
#include "status/events.h"
#include "status/map.h"
#include "status_page.h"
#include "tally.h"

/* Limits of a model at the start; orders of an administrator may change them. */
struct ring_limit {
	const char *name;
	uint64_t floor, ceiling;   /* bytes, 0: none */
	const struct model *model; /* what its sequences take, NULL: not known */
};

struct ring_options {
	const struct ring_limit *limits; /* until ring_thread_init() returns */
	uint32_t n_limits;
	struct engine_config engine;
	uint64_t spin_ns;
	uint64_t watchdog_ns;   /* a completion point open for longer is reported; 0: none is */
	uint32_t budget;        /* commands of one session, then others are looked at */
	uint32_t shared_budget; /* the same while others give commands, too; 0: as that */
	uint32_t slice;         /* see engine_on_pause(); 0: ENGINE_SLICE, which is the most */
	uint32_t max_sessions;
	uint64_t table_area_bytes; /* for the status page */
	cpu_set_t cpus;            /* that its thread keeps to; empty: any */
	uint32_t beside;           /* 1 + a CPU whose last-level cache they share; 0: none is known */
};

struct ring_counters {
	uint64_t attaches, detaches, deaths, kicked, reclaimed_pages;
	uint64_t commands, refusals, rounds, sleeps, wakeups, late, rescues, timer_polls;
	uint64_t refusals_by[FAULT_REASON_COUNT]; /* of commands and of entries of steps */
};

struct ring_thread {
	struct ring_options options;
	struct engine *engine;
	struct workspace *workspace;
	struct workspace *spare;      /* of commands that are executed in the middle of another one */
	struct status_writer *status; /* borrowed */
	struct mailbox *inbox;        /* from the control thread */
	struct mailbox *outbox;       /* to it */
	struct ring_edge edge;
	int epoll; /* of the real edge */
	bool running;
	bool stop;
	pthread_t thread;
	TAILQ_HEAD(channel_list, channel) channels;
	struct channel_list noted;         /* got something in this round */
	struct channel_list to_wake;       /* who sleep, and whose turn to be woken it is not yet */
	const struct channel *served_last; /* only to tell it from others: it may be gone */
	uint64_t shared_until;             /* round: several sessions give commands */
	struct channel *next_glance;       /* where the next one begins, NULL: at the first */
	bool in_pause;                     /* in the middle of a command: only short ones are executed */
	bool had_long;                     /* in this round */
	uint64_t n_long;                   /* counts rounds in the middle of a command: it is long */
	struct channel *long_channel;      /* whose it was, NULL: nobody's */
	uint32_t n_silent;                 /* sessions that are expected to ring */
	struct ring_counters counters;
	struct tallies tallies;
	struct drained drained; /* for the status page, as the next four */
	struct event_ring events;
	uint64_t events_shown; /* of them: that many have been */
	struct extent_map *map;
	uint64_t device_lost_ns; /* since when the device is lost, 0: it is not */

	/* ---- time, CLOCK_MONOTONIC ---- */
	uint64_t now;
	uint64_t last_work;
	uint64_t starved_until; /* somebody waits for pages */
	uint64_t poll_interval;
	uint64_t next_poll;
	uint64_t next_watch;
	uint64_t next_boards;
	uint64_t next_snapshot;
	uint64_t idle_snapshot;        /* at the latest */
	int32_t credit;                /* turns until the next look at the clock */
	bool worked;                   /* since the last look */
	uint64_t shifts;               /* engine_shifts(), as of the last look */
	bool snapshot_due, boards_due; /* something has changed since the last was begun */

	/* ---- written by the control thread, shown on the status page ---- */
	shm_u64 refused_attaches;
	shm_u64 refused_attaches_by[FAULT_REASON_COUNT];
	shm_u64 table_area_used;
};

/*
 * Makes engine, mailboxes and thread. @status is borrowed until
 * ring_thread_deinit(). 0 or a negative errno; -ERANGE: a limit is impossible,
 * and *@f says why.
 */
int ring_thread_init(struct ring_thread *t, const struct ring_options *o, struct status_writer *status,
		     struct fault *f);
/* The same but for the thread: the caller takes the turns (ring_round.h). @edge is copied; NULL: the world itself. */
int ring_thread_make(struct ring_thread *t, const struct ring_options *o, struct status_writer *status,
		     const struct ring_edge *edge, struct fault *f);
/* Stops the thread, if there is one, and frees all it owns; channels stay their owners'. Safe to repeat. */
void ring_thread_deinit(struct ring_thread *t);

/* What the status page and the boards show has changed. */
static inline void ring_changed(struct ring_thread *t)
{
	t->snapshot_due = true;
	t->boards_due = true;
}

/* So has what the engine decides by itself. */
static inline void ring_look_for_shifts(struct ring_thread *t)
{
	uint64_t now = engine_shifts(t->engine);

	if (now != t->shifts)
		ring_changed(t);
	t->shifts = now;
}

#endif
