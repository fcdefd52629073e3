/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - one virtual process after another: it attaches, works, and ends one way or another
 *
 * Its connection, its process and what its device does end independently of one
 * another; the broker may know it for long after.
 */
#ifndef SWAKV_SIM_WORKER_H
#define SWAKV_SIM_WORKER_H

#include "gpu.h"
#include "hold.h"
#include "member.h"
#include "sim.h"
#include "turn.h"

#define WORKER_QUIET_NS (100 * NS_PER_MS) /* between two of its looks, when nobody asks for anything */

enum worker_state {
	WORKER_OUT,       /* no process yet */
	WORKER_CONNECTED, /* and has not said hello */
	WORKER_ATTACHING,
	WORKER_LIVE,
	WORKER_CLOSING, /* has said close */
	WORKER_ENDED,   /* takes no more part: closed, refused, or hung up on, and still running */
	WORKER_DEAD,    /* its process has ended; its device may not have noticed yet */
};

enum life_state { LIFE_NONE, LIFE_BEGINNING, LIFE_ADMITTED, LIFE_EXECUTING, LIFE_FINISHING, LIFE_ENDING };

struct life_seq {
	uint32_t uid;
	int32_t slot;
	int64_t end, high; /* tokens: settled, and the most that it ever had */
	int64_t next;      /* tokens with the pending step */
};

/* A request as its worker sees it. */
struct life {
	enum life_state state;
	uint64_t handle;
	uint32_t stream;
	uint32_t n;
	struct life_seq seqs[SIM_BATCH];
	int64_t capacity;
	bool called;   /* a command of it is under way */
	bool early;    /* another stream still works on its slots: it is given back */
	bool step;     /* the device has work of a prepared step; */
	bool extends;  /* which is no plain decode, */
	bool declared; /* and lies within what the model declared */
	bool compacting;
	bool move;
	bool pinned; /* its pages stay where they are; */
	bool lost;   /* one was not copied with its step, which must fail */
	int32_t map[SIM_BATCH], new_batch;
	uint64_t beyond;     /* value of the last step beyond what was declared: until then it may lack pages */
	uint64_t fence;      /* value of the step's mark */
	uint64_t open[8];    /* values of completed steps that may be open */
	uint64_t since;      /* of the begin */
	uint64_t room_since; /* so long there has been room for it beyond all doubt, 0: there is none */
	uint64_t wait_ns;    /* how long it may wait */
};

/* A command under way. Of a step, bits say for which lives. */
struct call {
	uint16_t op;
	bool used;
	bool waits;     /* a begin or take that may wait: its answer may take its time; */
	uint64_t order; /* else it is answered after the one before it, 0: out of turn */
	uint64_t sent;  /* when */
	uint64_t ticket;
	bool withdrawn; /* it has been said that it is to wait no longer */
	uint32_t lives;
	int32_t accepted[SIM_BATCH][SIM_BATCH]; /* of life, of sequence */
	bool misuse;                            /* names a request that is no more: it must be refused */
	uint8_t entries[SIM_BATCH];             /* life of each entry */
	uint32_t n_entries;
	int64_t value;
	bool failed[SIM_BATCH]; /* the fence of that life said so, or of a give (the first) */
	struct hold_call hold;
	struct turn_call turn;
};

enum { WORKER_CALLS = 16 };

struct worker {
	struct world *world;
	uint32_t index, number; /* place in the world, and incarnation */
	uint32_t model_index;
	const struct model *model;
	enum worker_state state;
	bool stopped, sleeps, poisoned;
	bool leaves;         /* begins nothing any more, and closes */
	uint64_t deaf_until; /* it does not read answers */
	bool woken, late;    /* from its sleep; it slept too long beside an answer */
	bool in_loop;        /* its sleep is a wait for its socket */
	struct event step, hello, news, bell, cont, hang_up, exit, gone;
	uid_t uid;
	struct process *process;
	struct connection *connection;
	struct shared *shared; /* NULL: it has not been welcomed */
	struct ring_producer_spsc commands;
	struct ring_consumer_spsc replies;
	struct gpu gpu;
	uint64_t armed[SIM_STREAMS], marked[SIM_STREAMS];
	uint64_t tickets;
	uint64_t ordered, answered; /* commands that are answered in their order: sent, and answered */
	struct call calls[WORKER_CALLS];
	uint32_t n_calls;
	struct life lives[SIM_BATCH];
	bool slot_used[SIM_BATCH];
	struct worker_slot {
		uint32_t stream;  /* that it was admitted on last */
		uint32_t applied; /* that the last updates of its rows were given to, */
		uint64_t until;   /* and the value of its line that proves them done; 0: none */
	} slots[SIM_BATCH];
	uint32_t held[SIM_GROUPS][SIM_BATCH]; /* version of the row that was read or delivered last */
	uint64_t ended_handle;                /* of a request that is no more */
	uint32_t n_nops;                      /* commands under way that ask for nothing */
	uint64_t hears_since;                 /* it has read its answers as they came */
	bool must_be_ended;                   /* it was caught lying */
	bool is_gone;                         /* nothing of it runs any more, on the device neither */
	bool joinable;                        /* others may join its session */
	bool events;                          /* it may wait for its socket */
	struct member members[SIM_MEMBERS];
	struct hold hold;
};

struct worker *worker_new(struct world *w, uint32_t index);
void worker_free(struct worker *v);
/* The next incarnation starts now: it attaches soon. */
void worker_start(struct worker *v);
/* The broker lets go of the memory @s, which was @v's: nothing may use it any more. */
void worker_check_forgotten(struct worker *v, const struct shared *s);
/* Somebody woke it from its sleep on the wait word. */
void worker_woken(struct worker *v);
/* Its socket became readable. */
void worker_noticed(struct worker *v);
/* It goes on, if it was stopped, and reads its answers. */
void worker_heal(struct worker *v);
/* It takes no more part; its process ends some time. */
void worker_retire(struct worker *v, uint64_t within_ns);
void worker_exit_at(struct worker *v, uint64_t date);
/* Its process ends here and now. */
void worker_die(struct worker *v);
/* True when nothing of its last incarnation runs. */
bool worker_is_out(const struct worker *v);
/* Something was published: the broker is woken if it sleeps, after a moment. */
void worker_ring(struct worker *v, bool must);

/* ---- hello.c: what it says first ---------------------------------------------------- */

void hello_say(struct worker *v);
/* What a process says that joins the session of @v, which has been welcomed. */
void hello_join(const struct worker *v, struct wire_hello *h);

/* ---- lie.c ----------------------------------------------------------------------------- */

/* Writes what is not so. Caught or not, it does nothing sensible any more, and ends. */
void lie(struct worker *v);

/* ---- life.c: what it asks the broker for ----------------------------------------- */

/* Sends a command, if one comes to mind and there is room. */
void life_act(struct worker *v);
/* Reads all answers that are there. False: they are nonsense. */
bool life_read(struct worker *v);
/* All work has ended, and every request: nothing is left to do. */
bool life_is_over(const struct worker *v);
/* Some request may go on now. */
bool life_has_work(const struct worker *v);

/* ---- fair.c: who waits though there is room ------------------------------------------ */

/* Looks at all begins and takes that wait: none may do so for longer than the bound while there is room for it. */
void fair_check(struct world *w);
/* A begin or take of @v that was sent at @sent has got its pages: it has overtaken none that nobody may overtake. */
void fair_check_admitted(struct worker *v, uint64_t sent);

/* ---- talk.c: messages --------------------------------------------------------------- */

struct message {
	_Alignas(8) unsigned char bytes[16384];
	size_t n; /* bytes, header included */
};

/* A command of @op about @request begins. */
void message_begin(struct message *m, uint16_t op, uint64_t request);
void message_add(struct message *m, const void *bytes, size_t n);
/* Sends it; the call that waits for its answer, or NULL: there is no room now. @n as in the header. */
struct call *message_send(struct worker *v, struct message *m, uint32_t n);
/* @c, which was just sent, may be answered after what is sent later. */
void call_may_wait(struct worker *v, struct call *c);
/* As many commands that ask for nothing as there is room for, at most @n. */
void message_flood(struct worker *v, uint32_t n);
/* The next answer, if there is one: header in @m's first bytes. 0: none, negative: the ring is broken. */
int message_receive(struct worker *v, struct message *m);

#endif
