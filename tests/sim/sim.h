/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - a world of virtual workers round the real broker, driven by one seed
 *
 * Real: the page engine, sessions, rings, the round of the ring thread, its
 * polling, sleeping, mail and status snapshots; the control thread's attach,
 * admission, quotas, administrators, ends of sessions and stop. Virtual: time,
 * descriptors, connections, processes, devices and pool memory. One actor runs at
 * a time, in the order of virtual dates, so that a seed repeats to the last step.
 */
#ifndef SWAKV_SIM_H
#define SWAKV_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "control.h"
#include "engine/engine.h"
#include "events.h"
#include "kernel.h"
#include "memory.h"
#include "orders.h"
#include "ring/ring_thread.h"
#include "rng.h"

/* What may go wrong in a run; each can be left out, to find what a failure needs. */
#define SIM_FAULTS(X)                                                                                                  \
	X(DEATHS, "deaths")       /* a process ends at any point, its device works on for a while */                   \
	X(STOPS, "stops")         /* a process is stopped, and goes on later */                                        \
	X(LATE, "late")           /* device work takes long */                                                         \
	X(MISSING, "missing")     /* device work never ends */                                                         \
	X(FORGED, "forged")       /* words, positions and commands that lie */                                         \
	X(FULL, "full")           /* answers are not read for a while */                                               \
	X(STORMS, "storms")       /* many attach at once */                                                            \
	X(LIMITS, "limits")       /* floors and ceilings change */                                                     \
	X(POISON, "poison")       /* completions fail */                                                               \
	X(HALF_OPEN, "half-open") /* a hello that never comes, comes late, twice, or is none */                        \
	X(ORDERS, "orders")       /* administrators drain, disconnect, kill, and leave */                              \
	X(FILES, "files")         /* no descriptor is left for a while */                                              \
	X(STOP, "stop")           /* the broker stops in the middle of it all */                                       \
	/* and what need not be there, though it is no fault */                                                        \
	X(PROCESSES, "processes") /* further processes join a session */                                               \
	X(MOVES, "moves")         /* pages move */                                                                     \
	X(TURNS, "turns")         /* one message a step */                                                             \
	X(TAKES, "takes")         /* workers manage pages themselves */                                                \
	X(JOINED, "joined")       /* pages in one run, groups in bytes */

enum sim_fault {
#define SIM_ENUM(name, text) SIM_##name,
	SIM_FAULTS(SIM_ENUM)
#undef SIM_ENUM
		SIM_FAULT_COUNT
};

struct sim_options {
	uint64_t seed, steps;
	uint32_t without;     /* bits: 1 << enum sim_fault */
	uint32_t max_workers; /* 0: as the seed says */
	uint32_t forbidden;   /* bits: that it happens is a failure */
	bool trace;           /* prints what happens */
};

enum { SIM_MODELS = 4, SIM_WORKERS = 12, SIM_GROUPS = 3, SIM_STREAMS = 3, SIM_BATCH = 6, SIM_USERS = 3 };

/* What the seed decides before anything runs. */
struct plan {
	struct ring_options ring;
	struct config config;
	struct backend_pool pool;
	uint32_t n_uids;
	uid_t uids[SIM_USERS];
	uint32_t n_models, n_workers;
	struct model models[SIM_MODELS];
	struct geometry geometry[SIM_MODELS][WIRE_MAX_GROUPS];
	uint64_t floors[SIM_MODELS];
	uint32_t rate[SIM_FAULT_COUNT]; /* one occasion in so many, 0: never */
	uint64_t think_ns;              /* how long a worker takes between two commands, at most */
	uint64_t kernel_ns;             /* and a kernel */
};

/* What a run counts, and how that is called. */
#define SIM_COUNTS(X)                                                                                                  \
	X(commands, "commands")                                                                                        \
	X(admitted, "begins admitted")                                                                                 \
	X(kernels, "kernels")                                                                                          \
	X(unrung, "sent without a bell")                                                                               \
	X(turns, "turns")                                                                                              \
	X(by_reference, "deliveries by reference")                                                                     \
	X(attached, "attached")                                                                                        \
	X(joined, "joined")                                                                                            \
	X(notices, "notices")                                                                                          \
	X(refused, "refused")                                                                                          \
	X(orders, "orders")                                                                                            \
	X(deaths, "ended")                                                                                             \
	X(kicked, "liars ended")                                                                                       \
	X(reclaimed, "pages reclaimed")                                                                                \
	X(moved, "pages moved")                                                                                        \
	X(taken, "pages taken")                                                                                        \
	X(given, "pages given")                                                                                        \
	X(asks, "decisions who is asked for pages")                                                                    \
	X(asked, "times that somebody saw it")

struct worker;

/* A model's claim, as it was seen last. */
struct claim_seen {
	uint64_t since, last; /* last: 0, it has none */
	uint64_t number;      /* of its begin or take among all that ever waited */
};

/* The last claim that gave nothing. */
struct vain_seen {
	uint64_t since, until;
	uint64_t gone; /* when that was seen: the last of them may have held until then */
};

struct world {
	struct sim_options options;
	struct plan plan;
	struct rng rng;
	uint64_t now, steps;
	struct events events;
	struct memory memory;
	struct ring_thread *ring;
	struct status_writer *status;
	struct kernel kernel;
	struct control control;
	struct listener listener, admin_listener;
	struct gpu_watch watch;
	uint32_t n_kept; /* page sizes that the configuration keeps */
	struct page_key kept[ENGINE_MAX_CLASSES];
	struct administrator administrators[3];
	bool drained[SIM_MODELS], drained_all; /* it may be, by order; */
	uint64_t drained_last[SIM_MODELS];     /* was last, where it is not any more */
	bool ends, stopped;                    /* the broker stops; its control thread has left its loop */
	struct event front;                    /* the control thread's turn, */
	uint64_t front_at;                     /* which is due then */
	struct event turn;                     /* of the ring thread */
	struct event populate;                 /* workers come and go, limits change */
	void *rung[RING_EDGE_EVENTS];
	uint32_t n_rung;
	struct worker *workers[SIM_WORKERS];
	uint32_t incarnations, sequences; /* so many there have been */
	bool quiet;                       /* workers ask for nothing */
	bool healing;                     /* no more faults: all that waits is to be served */
	bool limited[SIM_MODELS];         /* a ceiling may bind this model */
	uint64_t floors[SIM_MODELS];
	struct claim_seen claims[SIM_MODELS];
	struct vain_seen vain;
	uint64_t healed;       /* since when */
	bool computing;        /* the ring thread is in the middle of what it counts the time of */
	uint64_t computing_at; /* pauses until its beginning */
	uint64_t looked;       /* at who waits, last */
	bool lacked, fine;     /* so it was then: somebody lacked pages; nothing had to be asked that was not */
	uint64_t lack_seen, asked_seen; /* somebody lacked pages; all that had to be asked was asked, or nothing had */
#define SIM_FIELD(name, text) uint64_t name;
	SIM_COUNTS(SIM_FIELD)
#undef SIM_FIELD
	char broken[512]; /* the first rule that did not hold */
};

/* Notes that a rule did not hold; the run ends. */
void world_break(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_trace(const struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Runs what is due until @until; false: nothing is left that is. */
bool world_run_next(struct world *w, uint64_t until);
/* The doorbell of @channel (NULL: of the ring thread's mailbox) rings. */
void world_bell(struct world *w, void *channel);
/* True when @f happens now. */
bool world_fault(struct world *w, enum sim_fault f);

static inline uint64_t world_soon(struct world *w, uint64_t most_ns)
{
	return w->now + (uint64_t)rng_between(&w->rng, 1, (int64_t)most_ns);
}

/* Fills @p from the world's seed. */
void plan_make(struct plan *p, struct rng *r, const struct sim_options *o);

/* The world of @o, and its run. False: world.broken says why. */
bool world_run(struct world *w, const struct sim_options *o, struct status_writer *status);

const char *sim_fault_name(enum sim_fault f);

#endif
