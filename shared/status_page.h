/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.h - what a running broker shows to anyone who may read it
 *
 * The POSIX shared memory object "/swakv-NAME" (mode 0640) begins with a
 * status_head; two snapshots follow. The broker fills the one that is not
 * current and flips the index when it is whole, so a reader never waits and a
 * stopped broker leaves the last whole picture. Heartbeats stand outside: one
 * word a thread. The broker holds a write lock on the object while it lives
 * (status_name.h). No handle, key or fd number is ever written here.
 */
#ifndef SWAKV_STATUS_PAGE_H
#define SWAKV_STATUS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomics.h"
#include "cpu_list.h"
#include "status_map.h"
#include "status_name.h"
#include "stay.h"
#include "times.h"
#include "wire.h"
#include "wire_board.h"

#define STATUS_MAGIC   0x7375746174736b76ull
#define STATUS_VERSION 7

enum { STATUS_THREAD_RING, STATUS_THREAD_CONTROL, STATUS_THREAD_DEVICE, STATUS_N_THREADS };
#define STATUS_THREAD_NAMES "ring", "control", "device"
enum {
	STATUS_MAX_CLASSES = 64,
	STATUS_MAX_MODELS = 384,  /* a name a session, names with limits, names that are drained */
	STATUS_MAX_REASONS = 160, /* of refusals */
	STATUS_MAX_SESSIONS = 256,
	STATUS_MAX_TALLIES = 384,
	STATUS_MAX_DENIALS = 4096,
	STATUS_MAX_REQUESTS = 4096,
	STATUS_MAX_SEQUENCES = 8192,
	STATUS_MAX_BINDINGS = 65536,
	STATUS_RANGES = WIRE_RANGES
};
/* first_sequence or first_binding of what did not fit: its counts are true, its entries are not listed. */
#define STATUS_NOT_LISTED UINT32_MAX

enum status_session_state {
	STATUS_ATTACHED = 1,
	STATUS_CLOSING, /* closed by its client; pages wait for proof */
	STATUS_DEAD,    /* connection lost; pages wait for proof */
	STATUS_ENDED,   /* ended by the broker for a protocol violation; pages wait for proof */
	STATUS_SESSION_STATE_COUNT
};
#define STATUS_SESSION_STATE_NAMES "none", "attached", "closing", "dead", "ended"

struct status_class {
	uint64_t page_bytes; /* S, of joined pages T */
	int64_t pages;       /* of its extents: free + leased + quarantined */
	int64_t free;
	int64_t leased;
	int64_t quarantined;
	int64_t available; /* free, plus what unassigned extents would give */
	int64_t num_pages; /* ids it could ever use */
	uint32_t extents;
	uint32_t sessions;
	uint32_t empty; /* extents of it that no live page touches: others may have them */
	uint32_t joined;
	uint64_t moved;             /* pages of it that moved, ever */
	uint32_t emptying;          /* extents of it that are to come empty for others, */
	uint32_t stays[STAY_COUNT]; /* and that were passed over for that, by enum stay */
};

/* What the sessions of one model's name share. */
struct status_model {
	char name[WIRE_MODEL_NAME];
	uint64_t floor, ceiling; /* bytes, K and V; ceiling 0: none */
	uint64_t used;           /* bytes of pages leased and in quarantine */
	uint64_t oldest_wait_ns; /* CLOCK_MONOTONIC since when its first request waits, 0: none does */
	uint32_t sessions;
	uint32_t waiting; /* requests and takes that wait for pages */
	uint32_t claims;  /* 1: the first of them has waited long: pages are kept for it */
	uint32_t drained; /* 1: takes no new sessions and requests, by order of an administrator */
};

/* What a session, or a model's, have done so far. Of what is taken back, or goes back, nothing is taken away here. */
struct status_totals {
	uint64_t prefilled, stepped; /* tokens of all sequences that prefills, and steps, have completed */
	uint64_t pages_taken, pages_returned;
	uint64_t pages_scrubbed; /* that a worker was told to scrub */
	uint64_t pages_moved;    /* out of extents that others wait for */
	uint64_t pages_yielded;  /* of those that it was asked to give since others lacked some */
};

/* Begins, or takes. */
struct status_admissions {
	uint64_t admitted, waited, refused; /* those that waited are among the others when they are decided */
};

/* A model's name over the lives of all its sessions, those that have ended included. */
struct status_tally {
	char model[WIRE_MODEL_NAME];
	struct status_totals totals;
	struct status_admissions begins, takes;
	struct times prepare; /* from when the broker has seen a prepare to its answer */
	struct times step;    /* from there to the complete of that step */
	struct times wait;    /* of a begin or take that waited */
};

/* Why so many of a tally's begins, or takes, were refused. */
struct status_denial {
	uint32_t tally;  /* index into tallies */
	uint16_t takes;  /* 1: takes */
	uint16_t reason; /* enum fault_reason */
	uint64_t n;
};

/* One layer group of a session's model. */
struct status_group {
	uint32_t kind; /* enum wire_group_kind */
	uint32_t class_index;
	int64_t window; /* 0 of a full group */
	uint32_t page_tokens;
	int32_t private_pages;                   /* of a sequence that may reach max_seq */
	int64_t held;                            /* pages, leased or in quarantine */
	int64_t quarantined;                     /* of these */
	int64_t unbound;                         /* and of the leased ones: reserved for sequences, and in no row */
	char tag[WIRE_TAG];                      /* what its worker says that the bytes are, "": nothing */
	int64_t managed;                         /* of these: taken by the session itself; */
	int64_t offered;                         /* and so many of them it could give, as it says */
	int64_t wanted;                          /* pages that it is asked to give */
	uint64_t wanted_ns;                      /* CLOCK_MONOTONIC since when, 0: it is not */
	uint64_t moved;                          /* pages of its requests that moved, ever */
	uint32_t movable;                        /* 1: they can */
	uint32_t n_ranges;                       /* of the wanted pages: those to come first, */
	struct page_range ranges[STATUS_RANGES]; /* these ids */
};

struct status_session {
	uint32_t id;
	uint32_t generation;
	int32_t pid;
	uint32_t uid;
	uint32_t state; /* enum status_session_state */
	uint32_t poisoned;
	char model[WIRE_MODEL_NAME];
	uint32_t n_groups; /* 1 to WIRE_MAX_GROUPS */
	uint32_t n_requests;
	uint32_t n_sequences;
	uint32_t n_streams;
	uint32_t max_batch;
	uint32_t open_points;
	struct status_group groups[WIRE_MAX_GROUPS];
	int64_t leased; /* pages of all groups, as the two below */
	int64_t quarantined;
	int64_t behind_points;
	int64_t unbound;  /* of the leased: reserved for sequences, and not in their rows */
	uint32_t waiting; /* requests and takes that wait for pages */
	uint32_t reserved;
	uint32_t last_op; /* enum wire_op */
	int32_t last_code;
	uint64_t last_ns;         /* CLOCK_MONOTONIC of the last command, 0: none */
	uint64_t attached_ns;     /* CLOCK_MONOTONIC */
	uint64_t oldest_lease_ns; /* begin of its oldest live request, 0: none */
	uint64_t ended_ns;        /* when it left state attached, 0: not yet */
	uint64_t oldest_point_ns; /* when its oldest open completion point was opened, 0: none is open */
	uint64_t commands;
	uint64_t refused;
	uint64_t rounds_blocked; /* rounds its reply ring was full */
	uint64_t asked;          /* times that it was asked for pages that others lacked, */
	uint64_t unanswered;     /* and that this was over before it had given any */
	struct status_totals totals;
	uint64_t longest_wait;            /* rounds that one of its commands waited at most, from 1 */
	uint32_t n_members;               /* further processes of it that are not proven to be through */
	int32_t members[WIRE_MAX_JOINED]; /* their pids, 0: in another pid namespace */
	int64_t to_move;                  /* pages of its requests that are to move with their next steps, */
	uint32_t stays[STAY_COUNT];       /* and extents that were passed over for pages of its own, by enum stay */
};

struct status_request {
	uint32_t session; /* index into sessions */
	uint32_t phase;
	uint32_t transition;
	uint32_t stream;
	uint64_t handle;
	uint32_t first_sequence; /* index into sequences: one a sequence and group, or STATUS_NOT_LISTED */
	uint32_t n_sequences;
	uint32_t open_points;
	uint32_t reserved;
	uint64_t begun_ns;
};

struct status_sequence {
	int32_t slot;
	uint32_t generation;
	int64_t endpoint;
	int64_t pending_endpoint;
	int32_t retained_begin;
	int32_t retained_end;
	uint32_t n_bound, n_reserved, n_retiring, n_staged;
	uint32_t first_binding; /* index into bindings: n_bound + n_retiring of them; or STATUS_NOT_LISTED */
	uint32_t group;         /* all groups of a sequence follow each other */
};

struct status_snapshot {
	uint64_t number;       /* counts up; set by status_writer_commit(), 0 while it is being written */
	uint64_t published_ns; /* CLOCK_MONOTONIC; set by status_writer_commit() when left 0 */
	/* bytes, both halves: of the classes' usable pages, of extents that no class has, and of extents beside pages
	 */
	uint64_t pool_total, pool_held, pool_free, pool_unusable, extent_bytes;
	uint64_t table_area_bytes, table_area_used;
	uint64_t attaches, detaches, deaths, kicked, refused_attaches, reclaimed_pages;
	uint64_t commands, refusals, rounds, sleeps, wakeups, late, rescues, timer_polls;
	uint64_t refusals_by[STATUS_MAX_REASONS]; /* of commands, entries of steps and attaches, by enum fault_reason */
	uint32_t n_classes, n_models, n_sessions, n_requests, n_sequences, n_bindings, n_tallies, n_denials;
	uint32_t truncated;      /* 1: more requests, sequences or bindings exist than fit */
	uint32_t drained;        /* 1: the whole broker is, by order of an administrator */
	uint64_t device_lost_ns; /* CLOCK_MONOTONIC since when its device is lost, 0: it is not */
	uint64_t events_ever;    /* the last STATUS_MAX_EVENTS of them are in the ring (status_event_place()) */
	uint32_t pool_extents;   /* of which are listed: */
	uint32_t n_extents;
	uint64_t moved_pages, moved_bytes; /* out of extents that others waited for, K and V, ever; */
	uint64_t unplaced;                 /* and how often there was no place for one */
	struct status_class classes[STATUS_MAX_CLASSES];
	struct status_model models[STATUS_MAX_MODELS];
	struct status_session sessions[STATUS_MAX_SESSIONS];
	struct status_tally tallies[STATUS_MAX_TALLIES];
	struct status_denial denials[STATUS_MAX_DENIALS];
	struct status_request requests[STATUS_MAX_REQUESTS];
	struct status_sequence sequences[STATUS_MAX_SEQUENCES];
	struct wire_binding bindings[STATUS_MAX_BINDINGS];
	struct status_extent extents[STATUS_MAX_EXTENTS];
	struct status_event events[STATUS_MAX_EVENTS];
};

struct status_head {
	shm_u64 magic; /* stored last when the page is made; 0 before */
	uint32_t version;
	uint32_t head_bytes;     /* offset of snapshot 0 */
	uint64_t snapshot_bytes; /* offset of snapshot 1 is head_bytes + snapshot_bytes */
	uint8_t boot_id[16];
	int32_t pid;
	uint32_t uid;
	uint64_t started_ns;            /* CLOCK_MONOTONIC */
	int64_t started_unix;           /* seconds */
	uint64_t heartbeat_interval_ns; /* longest silence of a healthy thread */
	char instance[WIRE_NAME];
	char pool[WIRE_NAME];
	char backend[16];
	char device[64];
	char device_uuid[48]; /* text, empty on the host backend */
	char export_kind[16];
	char socket_path[108];
	char version_text[32];
	char ring_cpus[CPU_LIST_TEXT]; /* that the ring thread keeps to, "any": to none */
	char machine[160];             /* CPUs and caches, for people */
	_Alignas(CACHELINE)
		shm_u64 current; /* number of the whole snapshot: it is in snapshot (current & 1); 0: none yet */
	_Alignas(CACHELINE) struct {
		_Alignas(CACHELINE) shm_u64 heartbeat_ns; /* CLOCK_MONOTONIC of its last sign of life */
	} threads[STATUS_N_THREADS];
};

/* ---- writer (broker) ------------------------------------------------------ */

struct status_writer {
	struct status_head *head;
	struct status_snapshot *draft; /* private memory: the next snapshot in the making */
	struct status_head shown;      /* private copy of the head, as readers got it first */
	size_t bytes;
	int fd;
	char name[STATUS_NAME];
	shm_u32 lost;    /* set to 1 by whoever finds that memory behind @head is gone and puts private memory there */
	int next;        /* the object of a renewal under way, -1: none */
	shm_u32 offered; /* 1 + it, until it is mapped */
};

/*
 * Makes the page of @instance (a name that instance.h allows) and locks it; the page of a dead broker is replaced.
 * -EINVAL: the name; other negative errno: as status_name_take(), or the system
 * call's. Sizes, version, pid, uid, start times, instance and first heartbeats
 * are filled in; the caller fills the other head fields, then calls
 * status_writer_ready(). On failure @w is closed.
 */
int status_writer_open(struct status_writer *w, const char *instance);
/* Readers may come: stores the magic. */
void status_writer_ready(struct status_writer *w);
/* The snapshot to fill, its counts and counters 0. Its array entries hold what they held last: assign them whole. */
struct status_snapshot *status_writer_begin(struct status_writer *w);
/*
 * It is whole: copies it (the used parts) to where no reader looks, then flips.
 * Counts too large are cut (truncated).
 */
void status_writer_commit(struct status_writer *w);
/*
 * False: the object has been cut short or overwritten, lost memory or lost its
 * name, and is to be renewed. True, too, while a renewal is under way. This and the next are for
 * one thread, which need not be the one that commits.
 */
bool status_writer_sound(struct status_writer *w);
/*
 * Makes a new object under the name, for the same group; it is used from the next status_writer_begin()
 * on. 0, or a negative errno as of status_name_take().
 */
int status_writer_renew(struct status_writer *w);
/*
 * A descriptor of the page that can be read only, for somebody who cannot open it by name; the caller closes it. For
 * the thread of the two above. -EBADF: there is no page; other negative errno: the system call's.
 */
int status_writer_share(const struct status_writer *w);
/* Unlinks the page (only while the name still means it), unmaps, drops the lock. Safe to repeat. */
void status_writer_close(struct status_writer *w);

/* ---- reader (tools) --------------------------------------------------------- */

struct status_reader {
	struct status_head head; /* private copy, as of status_reader_open(); valid when that returned 0 */
	int fd;
	uint32_t version; /* of the page; 0: it is not finished, or no status page at all */
	uint32_t owner;   /* of the object: a uid */
};

/*
 * 0; -ENOENT: no such page; -EPROTO: not a page of this version, not finished or
 * cut short; -EPERM: the page is not its broker's: it is owned by another user
 * than it names, or than has made the sockets of that name; -EINVAL: an
 * impossible instance name; other negative errno: the system call's. After
 * -EPROTO status_reader_alive() still tells whether a broker lives; @r is to be
 * closed in any case.
 */
int status_reader_open(struct status_reader *r, const char *instance);
/*
 * The same of a page that came as a descriptor, now owned by @r: whoever passed it stands for it, so nothing is said of
 * its owner. -EPROTO as above.
 */
int status_reader_adopt(struct status_reader *r, int fd);
/* Safe to repeat. */
void status_reader_close(struct status_reader *r);
/* True while some broker holds the page's lock. */
bool status_reader_alive(const struct status_reader *r);
/*
 * Copies the current snapshot to @out (only the used parts of its arrays) and
 * checks that it was not overwritten meanwhile. 0; -EAGAIN: none yet, or torn
 * eight times in a row; -EPROTO: its counts or indices are impossible, or the
 * page has been cut short. After 0
 * every index in @out lies inside the array that it points into (or is
 * STATUS_NOT_LISTED) and every text is terminated.
 */
int status_reader_copy(const struct status_reader *r, struct status_snapshot *out);

#endif
