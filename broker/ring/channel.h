/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.h - one session as the ring thread sees it: rings, timeline, engine session
 *
 * The control thread makes a channel and fills its constant part; from
 * MAIL_ATTACH to MAIL_FORGOTTEN it belongs to the ring thread. All that the
 * worker can write is read here, once, and checked. Whatever it must not do is
 * a violation, which ends the session and nothing else.
 */
#ifndef SWAKV_BROKER_CHANNEL_H
#define SWAKV_BROKER_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "ring.h"
#include "session_memory.h"
#include "status_page.h"
#include "wire.h"

enum channel_state {
	CHANNEL_NEW,
	CHANNEL_ATTACHED,
	CHANNEL_CLOSING,   /* said close; pages wait for its armed words */
	CHANNEL_DEAD,      /* connection gone; pages wait for its armed words, or its process's end */
	CHANNEL_KICKED,    /* ended for a violation; pages wait for its process's end */
	CHANNEL_RECLAIMED, /* nothing left but the name */
};

enum violation {
	VIOLATION_NONE,
	VIOLATION_COMMAND_TAIL,      /* tail of the command ring is impossible */
	VIOLATION_REPLY_HEAD,        /* head of the reply ring is impossible */
	VIOLATION_MESSAGE_SLOTS,     /* a command claims 0 slots, or more than the largest one has */
	VIOLATION_MESSAGE_TRUNCATED, /* fewer slots were published than the command claims */
	VIOLATION_WORD_ABOVE_ARMED,  /* a timeline word was never armed */
	VIOLATION_ARMED_BACKWARDS,   /* an armed word fell */
	VIOLATION_MEMORY_LOST,       /* none of the worker's: pages of its session memory are gone */
	VIOLATION_COUNT
};
#define VIOLATION_NAMES                                                                                                \
	"none", "impossible tail in the command ring", "impossible head in the reply ring",                            \
		"command with an impossible number of slots", "command published in part",                             \
		"timeline word above its armed value", "armed value moved backwards",                                  \
		"pages of its session memory are gone"

/* Whether its worker is to be woken (ring_wake.h). */
enum waking {
	WAKING_NOT,
	WAKING_NOTED, /* it got something in this round */
	WAKING_DUE,   /* and sleeps */
};

/* A step that has begun (tally.h). */
enum { TALLY_STEPS = 8 };
struct tally_step {
	uint64_t handle; /* of the request that its command named first, 0: none */
	uint64_t since_ns;
};

struct channel {
	/* ---- constant from MAIL_ATTACH on ---- */
	uint32_t id;         /* index of the session, from 1; reused */
	uint32_t generation; /* of that index */
	uint32_t tag;        /* mixed into its handles */
	pid_t pid;
	uid_t uid;
	uint64_t attached_ns;
	char model_name[WIRE_MODEL_NAME];
	struct model model;
	struct geometry geometry[WIRE_MAX_GROUPS];
	struct session_memory memory;
	int doorbell; /* eventfd the worker rings; edge-triggered, never read */
	bool events;  /* it may wait for its socket */
	int socket;   /* that, with events: a descriptor of the channel's own */
	void *owner;  /* the control thread's object */

	/* ---- further processes of the session (session/members.h): the control thread's ---- */
	shm_u32 members;                      /* that are not proven to be through */
	shm_u32 member_pids[WIRE_MAX_JOINED]; /* of those; 0: in another pid namespace */
	shm_u32 ended;                        /* the ring thread's: nobody joins any more */

	/* ---- set as it attaches ---- */
	uint64_t declared_otherwise; /* by engine_declared_otherwise() */

	/* ---- the ring thread's ---- */
	TAILQ_ENTRY(channel) link;
	enum channel_state state;
	enum waking waking;
	TAILQ_ENTRY(channel) in_waking;
	bool event_due; /* with WAKING_DUE: its socket is to become readable */
	struct session *session;
	struct ring_consumer_spsc commands;
	struct ring_producer_spsc replies;
	struct wire_line *lines;
	struct wire_wait *wait;
	struct wire_board *boards;  /* [n_groups] */
	struct wire_ranges *ranges; /* [n_groups] */
	uint32_t n_waiting;         /* begins and takes that wait: their answers have their room in the reply ring: */
	uint32_t waiting_slots;     /* so many slots */
	bool may_begin;   /* its worker may begin a step yet: nothing but its process's end proves that it does not */
	bool drained;     /* takes no new requests, by order of an administrator */
	bool device_lost; /* or because the device is lost */
	uint32_t blocked_slots; /* reply slots a command waits for, 0: not blocked */
	bool looks;             /* it was promised a look at its ring, and may not ring */
	uint64_t silent_since;  /* its work was there, and it is expected to ring (ring_bell.h); 0: it is not */
	bool at_work;           /* its command is being executed */
	bool left;              /* its command was too much for a pause: until the next round */
	int violated;           /* enum violation that it is to be ended for, when there is time; 0: none */
	bool listed;            /* in the ring thread's list and its epoll set */
	uint64_t words[WIRE_MAX_STREAMS];
	uint64_t armed[WIRE_MAX_STREAMS];
	uint64_t *begun_ns; /* [max_batch]: when the request that last took the slot began */

	shm_u64 overdue; /* 1 + a line whose completion is long in coming, 0: none; the control thread logs it */

	/* ---- for the status page ---- */
	int32_t shown; /* its place in the snapshot that is being made, -1: none */
	uint32_t last_op;
	int32_t last_code;
	uint64_t last_ns;
	uint64_t ended_ns;
	bool poison_noted;
	uint64_t n_commands;
	uint64_t n_refused;
	uint64_t n_rounds_blocked;
	struct tally *tally; /* of its model, NULL: it counts for none */
	uint32_t left_until; /* of its ring: they were left when a round was over, */
	uint64_t left_ns;    /* at this time */
	struct tally_step steps[TALLY_STEPS];
	uint64_t rounds_waited; /* by what is left in the command ring */
	uint64_t longest_wait;  /* of them all so far, from 1 */
};

/* "word above armed", ...; static. */
const char *violation_name(int violation);

/*
 * Binds rings and lines to @c->memory, which is fresh, and makes the session: all
 * that takes time where tables are large, and nothing of the ring thread's.
 * False: memory is short.
 */
bool channel_make(struct channel *c);
/* Enters the session, made here if channel_make() was not called, into the engine. False: memory is short. */
bool channel_start(struct channel *c, struct engine *e);
/* The session, reclaimed or never used, leaves the engine; its memory stays until channel_stop(). */
void channel_leave(struct channel *c);
/* Does that, and frees what channel_make() made. Safe to repeat. */
void channel_stop(struct channel *c);

/*
 * Reads every timeline line (word first, then armed) and tells the engine. A
 * violation, or VIOLATION_NONE; *@progress is set when a word moved.
 */
enum violation channel_refresh(struct channel *c, bool *progress);
/* True when the worker has taken every answer. */
bool channel_all_taken(struct channel *c);
/* True when every armed word is reached, as of the last channel_refresh(). */
bool channel_idle(const struct channel *c);

/* Why @c may begin no requests and take no pages; FAULT_NONE: it may. */
static inline enum fault_reason channel_closed_for(const struct channel *c)
{
	return c->device_lost ? FAULT_DEVICE_LOST : c->drained ? FAULT_DRAINED : FAULT_NONE;
}

/*
 * Copies the next command to @message (room for memory.layout.max_command_slots
 * slots) if there is one and its largest reply fits now. Returns its slots, which
 * are given back by channel_release(); 0: none, or blocked_slots says what it
 * waits for; negative: a violation.
 */
int channel_take(struct channel *c, unsigned char *message);
void channel_release(struct channel *c, uint32_t n_slots);
/*
 * After replies were published or slots given back, and a fence_store_load() that
 * pairs with the worker's, between its flags and its last look at the rings: true
 * when it may sleep. It says so once a sleep: whoever was told wakes it.
 */
bool channel_sleeps(struct channel *c);
/* The same of its event loop. */
bool channel_wants_event(struct channel *c);
/* The futex it sleeps on, changed: one that is about to sleep on it will not. */
shm_u32 *channel_wake_word(struct channel *c);

/*
 * Announces that this thread will sleep, then looks again: 1: do not sleep, 0:
 * the worker will ring; negative: a violation. Undo with channel_awake().
 */
int channel_prepare_sleep(struct channel *c);
/*
 * Before a sleep: promises its worker a look at its ring when it asks for one, but
 * not within @least of @now, and nothing for later than @most. When that is;
 * UINT64_MAX: nothing was promised.
 */
uint64_t channel_promise_look(struct channel *c, uint64_t now, uint64_t least, uint64_t most);
/* Awake: what was promised is kept now. */
void channel_looks(struct channel *c);
void channel_awake(struct channel *c);
/* The same, and that its replies had room: it has rung, after silent_since. */
void channel_rang(struct channel *c);

#endif
