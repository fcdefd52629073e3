/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h - what broker and client say to each other
 *
 * Handshake: one seqpacket message each way on the socket (hello, welcome),
 * the welcome with file descriptors. Then everything travels in the session's
 * ring pair: commands one way, replies the other, each a header of 32 bytes and
 * a payload right behind it, in whole 64-byte slots. All fields are fixed width
 * and little-endian in memory of one machine; reserved fields must be zero.
 */
#ifndef SWAKV_WIRE_H
#define SWAKV_WIRE_H

#include <stdint.h>

#include "atomics.h"
#include "fault.h"
#include "ring.h"
#include "wire_board.h"
#include "wire_pages.h"
#include "wire_token.h"

#define WIRE_MAGIC       0x31766b6177736b76ull
#define WIRE_VERSION_MIN 2
#define WIRE_VERSION_MAX 2

#define WIRE_NAME               32  /* bytes of the name of a broker or pool, NUL included */
#define WIRE_MODEL_NAME         128 /* of a model's */
#define WIRE_TAG                32  /* of what a layer group says of itself */
#define WIRE_TEXT               320 /* bytes of the longest sentence, NUL included */
#define WIRE_MAX_POOLS          4
#define WIRE_MAX_GROUPS         8
#define WIRE_MAX_TABLES         WIRE_MAX_GROUPS
#define WIRE_MAX_STREAMS        64
#define WIRE_MAX_BATCH          4096
#define WIRE_MAX_INLINE_UPDATES 512 /* two for each sequence of a batch of 256: a page that came, and one that left */
#define WIRE_MAX_FDS            8
#define WIRE_STATE_CHUNK        512  /* int32 pairs of bindings in one state reply */
#define WIRE_MAX_PAGES          4096 /* that one command takes or gives */

/* ---- handshake ---------------------------------------------------------- */

enum wire_group_kind { WIRE_GROUP_SLIDING = 1, WIRE_GROUP_FULL, WIRE_GROUP_KIND_COUNT };
#define WIRE_GROUP_KIND_NAMES "none", "sliding", "full"
enum wire_dtype { WIRE_F16 = 1, WIRE_BF16, WIRE_F32, WIRE_FP8, WIRE_DTYPE_COUNT };
#define WIRE_DTYPE_NAMES "f16", "bf16", "f32", "fp8" /* from 1 on */
/* How a page lies in the pool. */
enum wire_form {
	WIRE_SPLIT,  /* its K in the K half, its V as far in the V half */
	WIRE_JOINED, /* all of it in one run of bytes; ids count both halves as one, from the K half on */
	WIRE_FORM_COUNT
};
#define WIRE_FORM_NAMES "split", "joined"
/* In which order a layer of a page has its parts. */
enum wire_order {
	WIRE_ORDER_K_V_EXTRA,
	WIRE_ORDER_EXTRA_K_V,
	WIRE_ORDER_ROWS, /* K and V of a token side by side, then what is extra; joined pages only */
	WIRE_ORDER_COUNT
};
#define WIRE_ORDER_NAMES "k-v-extra", "extra-k-v", "rows"
#define WIRE_MAX_ALIGN   4096 /* bytes; the K half begins at a multiple of it */
enum wire_backend { WIRE_BACKEND_HOST = 1, WIRE_BACKEND_CUDA, WIRE_BACKEND_COUNT };
#define WIRE_BACKEND_NAMES "none", "host", "cuda"
/* Which pages a worker must fill with zeroes before it uses them. */
enum wire_scrub_policy {
	WIRE_SCRUB_NEVER,
	WIRE_SCRUB_OWNER_CHANGE, /* those that another session had bound before */
	WIRE_SCRUB_ALWAYS,       /* those that anybody had bound since they were last given out */
	WIRE_SCRUB_COUNT
};
#define WIRE_SCRUB_NAMES "never", "owner-change", "always"
enum wire_export { WIRE_EXPORT_MEMFD = 1, WIRE_EXPORT_CUDA_IPC, WIRE_EXPORT_CUDA_FD, WIRE_EXPORT_COUNT };
#define WIRE_EXPORT_NAMES "none", "memfd", "cuda-ipc", "cuda-fd"

/*
 * One layer group of a model, as the client declares it. It says heads or bytes;
 * heads are a short cut (page_shape.h): what is not 0 of the one is 0 of the other.
 */
struct wire_group {
	uint32_t kind;        /* enum wire_group_kind */
	uint32_t page_tokens; /* P */
	int64_t window;       /* W, tokens; of a full group 0 */
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t k_head_dim; /* elements */
	uint32_t v_head_dim;
	uint32_t dtype;       /* enum wire_dtype */
	uint32_t k_bytes;     /* of one token and layer */
	uint32_t v_bytes;     /* may be 0 */
	uint32_t extra_bytes; /* of a page and layer, beside K and V: scales, say */
	uint32_t align;       /* of each part of a page: a power of two up to WIRE_MAX_ALIGN, 0: 1 */
	uint32_t form;        /* enum wire_form */
	uint32_t order;       /* enum wire_order */
	char tag[WIRE_TAG];   /* what the bytes are: compared and shown, never interpreted */
	uint32_t flags;       /* WIRE_GROUP_MOVABLE */
	uint32_t reserved[8];
};
_Static_assert(sizeof(struct wire_group) == 128, "wire_group");

enum {
	WIRE_HELLO_CHUNK_MAPPED = 1, /* an extend binds every page of its chunk; else: only the final window */
	WIRE_HELLO_EVENTS = 2,       /* it will wait for the socket: see "sleep and wake" */
	WIRE_HELLO_JOINABLE = 4,     /* further processes may join: the welcome has the key */
	WIRE_HELLO_JOIN = 8,         /* joins the session of `join`, whose model is the same: no rings are used */
};

/*
 * Client to broker, first message, from the process that connected. Carries one
 * pidfd of that process by SCM_RIGHTS: a broker whose kernel (before Linux 6.5)
 * does not tell it knows its worker by nothing else.
 */
struct wire_hello {
	uint64_t magic;
	uint32_t size; /* sizeof(struct wire_hello) */
	uint16_t version_min, version_max;
	/* sizes of what will travel later, so that skew shows before any mapping */
	uint16_t size_welcome, size_command, size_reply, size_ring_control;
	uint32_t flags; /* WIRE_HELLO_* */
	uint32_t n_groups;
	uint32_t n_streams;
	uint32_t max_batch;  /* slots, rows of every table */
	int64_t max_seq;     /* tokens a sequence may reach */
	int64_t max_advance; /* 0: any (the default rule) */
	uint32_t in_flight;
	uint32_t max_rewind;
	char pool[WIRE_NAME];        /* empty: the broker's only pool */
	char model[WIRE_MODEL_NAME]; /* its limits are found by it: model_name.h */
	struct wire_token join;      /* with JOIN */
	uint64_t reserved[3];
	struct wire_group groups[WIRE_MAX_GROUPS];
};

struct wire_pool {
	char name[WIRE_NAME];
	uint32_t backend; /* enum wire_backend */
	uint32_t export_kind;
	uint8_t device_uuid[16];   /* zero on the host backend */
	uint8_t ipc_handle[64];    /* CUDA IPC only: a key, never shown or stored */
	uint64_t bytes;            /* of the whole allocation */
	uint64_t table_area_bytes; /* [0, table_area_bytes) of the allocation */
	uint64_t half_bytes;       /* K half begins at table_area_bytes, V half at + half_bytes */
	int32_t fd_index;          /* into the fds of the welcome, -1: none */
	uint32_t reserved;
	char device[64]; /* name, for people */
};

enum { WIRE_LAYOUT_WIDE = 1 /* page id times page stride, in elements, does not fit 32 bits */ };

/*
 * Where the pages of a group lie: address of (page, layer, token) = base + page *
 * page_stride + layer * layer_stride + token * token_stride; base is k_base for K
 * ids and v_base for V ids, which of a joined group are the same ids. All but the
 * counts are bytes.
 */
struct wire_layout {
	uint32_t pool; /* index into pools */
	int32_t num_pages;
	int32_t private_pages;
	int32_t width;        /* columns of a row */
	uint64_t page_stride; /* S, one page's K (or V); T, a joined page */
	uint64_t layer_stride;
	uint64_t k_token_stride, v_token_stride;
	uint64_t base;                 /* where page 0 begins; this and the others are offsets in the allocation */
	uint64_t k_base;               /* where its K begins, in layer 0 */
	uint64_t v_base;               /* such that V id = K id + num_pages; may lie below k_base; joined: v_first */
	uint64_t v_first, extra_first; /* where V and extra bytes of page 0 begin, in layer 0 */
	uint64_t flags;                /* WIRE_LAYOUT_* */
	uint64_t reserved[2];
};

struct wire_table {
	uint32_t group;
	uint32_t pool;
	uint64_t device_offset; /* in the allocation; int32 [max_batch][2][width], of a joined group
				   [max_batch][1][width] */
	uint64_t host_offset;   /* in the tables memory; the same layout */
	uint64_t rows_offset;   /* in the tables memory; struct wire_row_head [max_batch] */
};

struct wire_ring {
	uint64_t control_offset; /* in the session memory */
	uint64_t slots_offset;
	uint32_t n_slots;
	uint32_t reserved;
};

enum wire_fd { WIRE_FD_SESSION, WIRE_FD_TABLES, WIRE_FD_DOORBELL, WIRE_FD_POOLS /* first of the pools' */ };

/* Broker to client. code != 0: refused, `fault` and `text` say why, no fds come with it and the socket closes. */
struct wire_welcome {
	uint64_t magic;
	uint32_t size;
	uint16_t version;
	uint16_t n_fds;
	int32_t code;
	uint32_t session_id;
	uint32_t session_generation;
	uint32_t max_message_slots; /* largest command or reply, in slots */
	uint8_t boot_id[16];        /* of this broker process: fresh at each start */
	struct fault fault;
	char text[WIRE_TEXT];
	uint32_t n_pools;
	uint32_t n_groups;
	uint32_t n_tables;
	uint32_t n_streams;
	uint64_t session_bytes; /* of WIRE_FD_SESSION: rings and timeline lines, writable */
	uint64_t tables_bytes;  /* of WIRE_FD_TABLES: host tables, read-only */
	uint64_t lines_offset;  /* in the session memory; struct wire_line [n_streams] */
	uint64_t wait_offset;   /* in the session memory; struct wire_wait: see "sleep and wake" */
	struct wire_ring commands;
	struct wire_ring replies;
	struct wire_pool pools[WIRE_MAX_POOLS];
	struct wire_layout layouts[WIRE_MAX_GROUPS];
	struct wire_table tables[WIRE_MAX_TABLES];
	uint64_t spin_ns;       /* how long the broker spins before it sleeps: a hint */
	uint64_t scrub;         /* enum wire_scrub_policy: which pages the deliveries call dirty */
	uint64_t boards_offset; /* in the session memory; struct wire_board [n_groups] */
	uint8_t key[WIRE_KEY];  /* with JOINABLE */
	uint64_t beside;        /* 1 + a CPU that shares the last-level cache with the ring thread's; 0: nobody knows */
	uint64_t ranges_offset; /* in the session memory; struct wire_ranges [n_groups]; 0: there are none */
	uint64_t reserved[1];
};

/* ---- session memory ----------------------------------------------------- */

/* What the client waits by. */
struct wire_wait {
	shm_u32 word;  /* futex */
	shm_u32 event; /* set by the client: the next answer or want is to make its socket readable */
	shm_u64 ask;   /* set by the client: when it would like its commands to be looked at, though it has not rung */
	shm_u64 look;  /* set by a broker that sleeps: when it looks at the latest; 0: when it is rung for.
			  CLOCK_MONOTONIC */
};

/* One a row of a host table. `sequence` is odd while the row is written; `version` is that of the last delivery. */
struct wire_row_head {
	shm_u32 sequence;
	shm_u32 version;
};

/*
 * ---- sleep and wake -------------------------------------------------------
 *
 * The client sleeps on the wait word (a futex between processes, never
 * FUTEX_PRIVATE): it reads the word, announces need_wakeup on the reply ring
 * (and need_space on the command ring when it starves), looks at both rings
 * again, and then waits for the word to change, at most 250 ms at a time. The
 * broker, after publishing replies to a client with need_wakeup and after giving
 * back command slots to one with need_space, adds 1 to the word and wakes it.
 *
 * A client that said WIRE_HELLO_EVENTS may wait for its socket instead, in an
 * event loop: it reads away what lies there, sets the event word, and looks at
 * reply ring and boards. The broker, after publishing replies or wants, takes the
 * word back and sends a byte that means nothing; so one is under way at most.
 *
 * The broker sleeps on the doorbell (an eventfd that it never reads): the client
 * adds 1 to it after publishing to a broker with need_wakeup on the command ring,
 * and after giving back reply slots to one with need_space on the reply ring,
 * which it has only while a command of the client's waits for room to be answered.
 *
 * A client that needs no answer for a while need not ring when it reads, after
 * publishing and a fence, a `look` that is soon enough: the broker sets it before it
 * sleeps, from what the client asks for, and keeps to it. Awake, it stores 0 there, and
 * looks at all rings before it sleeps again.
 *
 * Every command is answered, CLOSE too: it is the last answer of a session. A
 * BEGIN or TAKE that waits is answered after commands that came later, or not at all
 * when the session ends before.
 *
 * A producer that does not place messages beside the position (ring.h) stores an
 * express_tail that differs from each tail that it publishes.
 */

/* ---- rings -------------------------------------------------------------- */

enum wire_op {
	WIRE_OP_NOP = 1,
	WIRE_OP_BEGIN,
	WIRE_OP_PREFILL_PREPARE,
	WIRE_OP_PREFILL_COMPLETE,
	WIRE_OP_STEP_PREPARE,
	WIRE_OP_STEP_COMPLETE,
	WIRE_OP_COMPACT_BEGIN,
	WIRE_OP_COMPACT_COMPLETE,
	WIRE_OP_FINISH,
	WIRE_OP_ABANDON,
	WIRE_OP_SHUTDOWN,
	WIRE_OP_CLOSE,
	WIRE_OP_QUERY_PAGES,
	WIRE_OP_QUERY_REQUEST,
	WIRE_OP_QUERY_STATE,
	WIRE_OP_REWIND,
	WIRE_OP_RESERVE,
	WIRE_OP_WITHDRAW,
	WIRE_OP_TAKE,
	WIRE_OP_GIVE,
	WIRE_OP_STEP_TURN,
	WIRE_OP_PIN,
	WIRE_OP_UNPIN,
	WIRE_OP_COUNT
};
#define WIRE_OP_NAMES                                                                                                  \
	"none", "nop", "begin", "prefill-prepare", "prefill-complete", "step-prepare", "step-complete",                \
		"compact-begin", "compact-complete", "finish", "abandon", "shutdown", "close", "query-pages",          \
		"query-request", "query-state", "rewind", "reserve", "withdraw", "take", "give", "step-turn", "pin",   \
		"unpin"

/* Header of a command. `n` counts the payload's elements; the payload follows at once. */
struct wire_command {
	uint16_t op;
	uint16_t n_slots;
	uint32_t n;
	uint64_t user_data; /* comes back in the reply */
	uint64_t request;   /* handle, 0 where the op has none */
	uint64_t reserved;
};
_Static_assert(sizeof(struct wire_command) == 32, "wire_command");

/*
 * A value may not be above the line's armed one. That it is of the step's own
 * mark, and not of an earlier one, is the library's to check: two requests may
 * share a mark, and a line stays armed one value ahead when they do, so the armed
 * value at a prepare may or may not be one that this step's own mark will have.
 */
enum wire_fence_kind {
	WIRE_FENCE_DONE,   /* the empty list: the device is already done */
	WIRE_FENCE_LINE,   /* done when line's word >= value */
	WIRE_FENCE_FAILED, /* completion failed: quarantine and poison */
	WIRE_FENCE_POINT,  /* finish and abandon: the request's own last completion point */
};
struct wire_fence {
	uint32_t kind;
	uint32_t line;
	uint64_t value;
};

/*
 * Payloads, by op. What is not listed has none. `request` of WITHDRAW is the
 * user_data of the begin or take that is to wait no longer; value of the reply: 1
 * when it waited, and then that is answered, too, 0 when it is decided already.
 */
enum {
	WIRE_BEGIN_UNORDERED = 2, /* the stream keeps no order: work of a step may run beside that of the next */
	WIRE_BEGIN_PINNED = 4,    /* its pages do not move, until an UNPIN */
	WIRE_BEGIN_FLAGS = WIRE_BEGIN_UNORDERED | WIRE_BEGIN_PINNED,
};
struct wire_begin { /* BEGIN; then int32 slots[n] */
	uint32_t stream;
	uint32_t flags;     /* WIRE_BEGIN_* */
	int64_t max_tokens; /* 0: not given */
	uint32_t wait_ms;   /* how long the request may wait for pages, 0: not at all */
	uint32_t reserved;
};
/*
 * PREFILL_PREPARE: int32 lengths[n]. REWIND: int32 tokens[n]. RESERVE: int64
 * max_tokens. PREFILL_COMPLETE, COMPACT_COMPLETE, FINISH, ABANDON: struct
 * wire_fence. STEP_TURN: wire_turn.h.
 */
/*
 * STEP_PREPARE (tokens) and STEP_COMPLETE (accepted, fence): [n], then as many
 * int32 counts as the entries list together; the command's `request` says how
 * many. A step of one token for all is a decode, any other an extend.
 */
struct wire_step_entry {
	uint64_t request;
	int32_t tokens;   /* each sequence advances by so many; -k: by the next k counts, one a sequence */
	int32_t accepted; /* so many of each sequence's tokens stay, 0: all; -k: the next k counts say it */
	struct wire_fence fence;
};
_Static_assert(sizeof(struct wire_step_entry) == 32, "wire_step_entry");
enum { WIRE_COMPACT_MOVE_ROWS = 1 };
struct wire_compact { /* COMPACT_BEGIN; then int32 old_to_new[n] */
	int32_t new_batch;
	uint32_t flags;
};
enum { WIRE_TAKE_OVERWRITES = 1 /* no byte of a page is read before it was written */ };
struct wire_take { /* TAKE; `n`: pages at most, up to WIRE_MAX_PAGES */
	uint32_t group;
	uint32_t stream; /* that scrubs */
	uint32_t flags;  /* WIRE_TAKE_* */
	uint32_t min;    /* pages at least */
	uint32_t wait_ms;
	uint32_t reserved;
};
struct wire_give { /* GIVE; then the command's `request` struct wire_fence, and int32 pages[n] */
	uint32_t group;
	uint32_t reserved;
};
/* SHUTDOWN: n fences, one for each stream in order. QUERY_PAGES: none, `n` is the group. */
struct wire_query_state { /* QUERY_STATE */
	int32_t seq;
	uint32_t first;      /* index of the first binding wanted */
	uint32_t generation; /* expected generation of the slot, 0: any */
	uint32_t group;
};

/* Header of a reply. code != 0: the payload is a struct fault. */
struct wire_reply {
	uint16_t op;
	uint16_t n_slots;
	int32_t code;
	uint64_t user_data;
	uint64_t value; /* BEGIN: the handle; QUERY_PAGES: pages that could be admitted now */
	uint32_t n;     /* payload elements, by op; where those are parts of several kinds, 0 */
	uint32_t reserved;
};
_Static_assert(sizeof(struct wire_reply) == 32, "wire_reply");

/* The first 8 bytes of a header of either direction in one word: op, n_slots, and `n` or `code`. */
static inline uint64_t wire_head_word(uint16_t op, uint16_t n_slots, uint32_t third)
{
	return op | (uint64_t)n_slots << 16 | (uint64_t)third << 32;
}

/* Payload of a successful TAKE: int32 pages[n]; those to be scrubbed before their use stand there as complements. */

enum {
	WIRE_DELIVERY_BY_REFERENCE = 1,
	WIRE_DELIVERY_MOVE = 256, /* so often: pages that move, up to WIRE_MAX_MOVES */
};
/*
 * Payload of a successful PREFILL_PREPARE, STEP_PREPARE, STEP_COMPLETE, STEP_TURN,
 * COMPACT_BEGIN and COMPACT_COMPLETE: the header, then struct wire_entry_fault
 * [n_faults] (steps only: the entries that were refused, of a turn in any order),
 * wire_update [n_updates], wire_row [n_rows], the rows touched, wire_scrub [n_scrubs]
 * (STEP_COMPLETE has none of the three), of a turn, wire_begun [n_begun], and, of
 * what prepares steps, as many wire_move as the flags say. By reference there are no updates: the client copies those
 * columns from the host tables.
 */
struct wire_delivery {
	uint32_t flags;
	uint32_t n_faults;
	uint32_t n_updates;
	uint32_t n_rows;
	uint32_t n_scrubs;
	uint32_t n_begun;
};
_Static_assert(sizeof(struct wire_delivery) == 24, "wire_delivery");
struct wire_entry_fault {
	uint32_t entry;
	int32_t skipped; /* of a complete in a turn: the code of what else the entry asked for; else 0 */
	struct fault fault;
};
/*
 * Rows and cells are counted over all groups: row `slot` of group g is row
 * g * max_batch + slot, and its column c is cell first(g) + slot * width(g) + c,
 * where first(g) = max_batch * (width(0) + ... + width(g - 1)).
 *
 * The K id in the cell becomes `page` (-1: empty); the V id follows from it.
 */
struct wire_update {
	uint32_t cell;
	int32_t page;
};
struct wire_row {
	uint32_t row;
	uint32_t version;    /* of this delivery: one more than the row's last */
	uint32_t first, end; /* columns that may differ from the last delivery; end 0: any */
};

/* Payload of QUERY_REQUEST. */
struct wire_request_state {
	uint32_t phase;      /* enum phase */
	uint32_t transition; /* enum transition */
	uint32_t stream;
	uint32_t n_seqs;
	uint32_t open_points;
	int32_t pending_batch; /* of a pending compaction, -1: none */
	uint64_t reserved;
};
/*
 * Payload of QUERY_STATE; then struct wire_binding [reply.n] from index `first`
 * on, in the order bound, reserved, new, retiring, staged. `change` differs when
 * anything changed between two chunks.
 */
struct wire_sequence_state {
	int32_t slot;
	uint32_t generation;
	int64_t endpoint;
	int64_t pending_endpoint; /* -1: none */
	int64_t window;
	int32_t page_tokens;
	int32_t retained_begin;
	int32_t retained_end;
	uint32_t n_bound;    /* pages in the row that are not retiring, new ones included */
	uint32_t n_reserved; /* not in the row, ready to be bound */
	uint32_t n_new;      /* subset of bound: bound by the pending transition */
	uint32_t n_retiring; /* in the row, staged by the pending transition */
	uint32_t n_staged;   /* out of the row, behind open completion points */
	int32_t length;      /* input length of the pending or last prefill */
	int32_t pending_map; /* destination in a pending compaction, -1 dropped, -2 none pending */
	uint64_t change;
};
struct wire_binding {
	int32_t logical; /* logical page, -1 for reserved and staged pages */
	int32_t page;
};

#endif
