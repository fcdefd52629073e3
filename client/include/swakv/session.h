/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - attach to a broker, learn what it decided, collect answers
 * (man 3 swakv_session_attach, man 3 swakv_poll; <swakv/swakv.h> has the rules of all calls)
 */
#ifndef SWAKV_SESSION_H
#define SWAKV_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct swakv_session swakv_session;
typedef struct swakv_request swakv_request;

/* Names a call in flight. Valid until its answer has been collected. */
typedef uint64_t swakv_ticket;

/* ---- what a model declares ---------------------------------------------------- */

enum swakv_group_kind { SWAKV_SLIDING = 1, SWAKV_FULL = 2 };
enum swakv_dtype { SWAKV_F16 = 1, SWAKV_BF16 = 2, SWAKV_F32 = 3, SWAKV_FP8 = 4 };

/* How a page lies in the pool. Spec section 1. */
enum swakv_form {
	SWAKV_SPLIT,  /* its K in the K half, its V as far in the V half; it has two ids */
	SWAKV_JOINED, /* all of it in one run of bytes; it has one id */
};
/* In which order a layer of a page has its parts. */
enum swakv_order {
	SWAKV_K_V_EXTRA, /* of a split page: K, extra; and V in the other half */
	SWAKV_EXTRA_K_V,
	SWAKV_ROWS, /* K and V of a token side by side, then what is extra; joined pages only */
};

/*
 * One layer group: layers that share a window, a head count and a head size.
 * Spec section 1. What the broker needs are bytes: a group whose rows are not
 * heads times elements says k_bytes and v_bytes, and leaves kv_heads, head_dim,
 * v_head_dim and dtype 0.
 */
struct swakv_group {
	uint32_t size; /* sizeof(struct swakv_group), in each of a list */
	enum swakv_group_kind kind;
	int64_t window;       /* tokens, the current one included; 0 for a full group, which keeps every token */
	uint32_t page_tokens; /* tokens a page, power of two from 16 to 256; 0: 128 */
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t head_dim;   /* elements, of K and, if v_head_dim is 0, of V */
	uint32_t v_head_dim; /* 0: as K */
	enum swakv_dtype dtype;
	uint32_t k_bytes;     /* of one token and layer */
	uint32_t v_bytes;     /* may be 0 */
	uint32_t extra_bytes; /* of a page and layer, beside K and V: scales, say */
	uint32_t align;       /* of each part of a layer, in bytes: a power of two up to 4096; 0: 1 */
	enum swakv_form form;
	enum swakv_order order;
	/* what the bytes are, up to 31 printable ASCII characters; shown, never interpreted; NULL: "" */
	const char *tag;
	uint64_t flags; /* SWAKV_GROUP_*, or 0 */
};
enum {
	/*
	 * Where another page size waits for memory, a step of a request may find pages elsewhere: the
	 * library copies them and writes the new ids to the tables, before the step's own work. For
	 * whoever reads ids from the tables in each step; swakv_request_pin() is for a while in which
	 * something else holds them.
	 */
	SWAKV_GROUP_MOVABLE = 1,
};

/* Which pages an extend binds. Spec section 3. */
enum swakv_chunk {
	SWAKV_CHUNK_RETAINED, /* those of the final window: attention within the chunk uses its own K and V */
	SWAKV_CHUNK_MAPPED,   /* also those of every token of the chunk, until its complete; may keep a part */
};

struct swakv_model {
	uint32_t size;     /* sizeof(struct swakv_model) */
	uint32_t n_groups; /* 1 to 8 */
	/*
	 * The key of the model's floor and ceiling, and shown in status and logs: 1
	 * to 127 printable ASCII characters, no blank first or last; NULL or "":
	 * "unnamed". Sessions of one name share one floor and one ceiling, so give
	 * different models different names.
	 */
	const char *name;
	const struct swakv_group *groups; /* each has a table, page ids and a reservation of its own */
	int64_t max_seq;                  /* tokens one sequence may reach */
	uint32_t max_batch;               /* slots, 1 to 4096 */
	/*
	 * Steps prepared and not yet seen complete; 0: 2. They cost no pages, except on
	 * streams that keep no order (swakv_stream_set_unordered()).
	 */
	uint32_t in_flight;
	/*
	 * What sliding groups reserve for a sequence follows from these (spec section
	 * 2). 0 (any): pages for a chunk of any length. n: pages for steps of up to n
	 * tokens; a longer extend takes what it lacks when it is prepared, if there is any.
	 */
	int64_t max_advance;
	uint32_t max_rewind; /* how many tokens below its longest a sequence may go back */
	enum swakv_chunk chunk;
};

/* ---- attach and close ----------------------------------------------------------- */

/* One page-table entry that changes: `page` moves in, `old_page` was there; -1 is empty. K ids. Never changes. */
struct swakv_update {
	int32_t slot;
	int32_t column; /* logical page */
	int32_t page;
	int32_t old_page;
};

enum {
	SWAKV_ATTACH_EVENTS = 1,   /* swakv_session_fd() is to give a descriptor */
	SWAKV_ATTACH_JOINABLE = 2, /* further processes may join: swakv_session_get_token() */
};

/* Names a session, and is the right to join it: only for processes that may. Never changes. */
struct swakv_token {
	uint8_t bytes[32];
};

/* Set the size and what matters, the rest to 0. Everything is copied. */
struct swakv_attach_options {
	uint32_t size;            /* sizeof(struct swakv_attach_options) */
	uint32_t n_streams;       /* 0: 1; at most 64 */
	const char *broker;       /* instance name; NULL: $SWAKV_BROKER, else "default" */
	const char *socket;       /* socket path; NULL: from the name */
	const char *pool;         /* NULL: the broker's only pool */
	const char *cuda_library; /* driver to load; NULL: $SWAKV_CUDA_LIBRARY, else libcuda.so.1 */
	uint32_t timeout_ms;      /* of attach, of each synchronous call and of swakv_wait(); 0: 30,000 */
	uint32_t spin_us;         /* how long a waiting call spins before it sleeps; 0: 50 */
	/*
	 * Called just before the updates of an answer to the table of layer group
	 * @group are enqueued on @stream, in order, from the thread that collects an
	 * answer; once for each stream and layer group, also when the answer named rows by
	 * reference. The stream's line is armed already, so it may enqueue work of
	 * its own on that stream, swakv_stream_launch_host() included; it must make
	 * no other call into the session.
	 */
	void (*on_updates)(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n);
	void *on_updates_arg;
	/*
	 * How long attach may wait for a broker that is not there yet, or is about to
	 * be replaced, before timeout_ms of its own begin; 0: not at all.
	 */
	uint32_t wait_ms;
	uint32_t flags; /* SWAKV_ATTACH_*, or 0 */
	/*
	 * Not NULL: joins the session of this token, as a further process of the same
	 * user. The model, and the number of streams, must be the same. It has the pool,
	 * the tables, and the lines: layouts, host tables, streams and marks; each stream
	 * belongs to one process. Every command is SWAKV_EINVALID: only the first process
	 * gives them. The session's pages return when all its processes are proven to be
	 * through. Without flags.
	 */
	const struct swakv_token *join;
};

/*
 * Attaches this process as one session. @options may be NULL. On success *@out
 * is owned by the caller until swakv_session_close(); on failure it is NULL and,
 * when @why is not NULL, @why gets the sentence (at most @why_size bytes,
 * terminated). Spec sections 1 and 2.
 * Errors: SWAKV_EINVALID, SWAKV_EDENIED, SWAKV_EGONE, SWAKV_ENEVER, SWAKV_ENOPAGES, SWAKV_EVERSION, SWAKV_EDEVICE,
 * SWAKV_EUNSUPPORTED, SWAKV_ESYSTEM, SWAKV_ENOMEM, SWAKV_ETIMEDOUT.
 */
int swakv_session_attach(const struct swakv_attach_options *options, const struct swakv_model *model,
			 swakv_session **out, char *why, size_t why_size);

/*
 * The token of a session that was attached with SWAKV_ATTACH_JOINABLE. It is for
 * whoever is to join: by a pipe, or in memory that both have, never by a command
 * line or a file that others read.
 * Errors: SWAKV_EINVALID (also attached otherwise, or joined), SWAKV_EGONE, SWAKV_EFORKED.
 */
int swakv_session_get_token(swakv_session *s, struct swakv_token *out);

/*
 * Ends the session and frees everything that came from it, requests included.
 * Waits for the streams, whose memory it is about to unmap; when one cannot be
 * waited for, that memory stays mapped. Always succeeds; NULL is ignored. In a
 * child of the process that attached it frees only the child's copy.
 */
void swakv_session_close(swakv_session *s);

/*
 * Retries failed completions: synchronises every stream and tells the broker
 * which of them succeeded. 0: the pages in quarantine have returned and the
 * poison is lifted. Waits for the broker. Spec section 3.
 * Errors: common, SWAKV_EPOISONED (a stream failed again, both stay), SWAKV_EBUSY (requests are active, nothing is in
 * quarantine), SWAKV_EPENDING (a stream has not reached its word).
 */
int swakv_session_shutdown(swakv_session *s);

/*
 * The sentence of the session's last call if that was refused, else ""; until
 * its next call. Borrowed. Never NULL, not even for a NULL session.
 */
const char *swakv_session_error(const swakv_session *s);

/*
 * One command there and back that does nothing: is the broker alive, and how far away? @ticket: see swakv_poll().
 * Errors: common.
 */
int swakv_session_ping(swakv_session *s, swakv_ticket *ticket);

/* ---- what the broker decided ------------------------------------------------------ */

/* Where this process mapped the pool, and what it is. Pointers are borrowed from the session. */
struct swakv_session_info {
	uint32_t size; /* sizeof(struct swakv_session_info) */
	uint32_t session_id;
	uint32_t generation;
	uint32_t n_groups;
	uint32_t n_streams;
	bool cuda;            /* false: the host backend */
	const char *device;   /* for people */
	void *pool;           /* host backend: the mapped pool; CUDA: NULL */
	uint64_t pool_device; /* address the kernels use: CUdeviceptr, or the host address */
	uint64_t pool_bytes;
	uint8_t boot_id[16];
	uint8_t device_uuid[16]; /* of the GPU the pool lies on; zero on the host backend */
	/*
	 * CPUs that share the last-level cache with the broker's ring thread, as of taskset -c: a
	 * thread that gives commands is best off there. Empty: it keeps to none (cpu_affinity).
	 */
	const char *near_cpus;
};
/*
 * Zeroes for a NULL session.
 * Errors: SWAKV_EINVALID.
 */
int swakv_session_get_info(const swakv_session *s, struct swakv_session_info *out);

/*
 * How kernels address group @group:
 *   row (page, layer, token) = base + page * page_stride + layer * layer_stride + token * token_stride
 * with base = k_base for K ids and v_base for V ids (V id = K id + num_pages), and k_token_stride or v_token_stride.
 * Of a joined group K and V have the same id, and the table is int32 [max_batch][1][width].
 * Where heads were declared, head h of a row begins at h * head_dim * element_bytes (v_head_dim for V).
 *
 * v_base is where V id 0 would lie, not page 0's V, which no V id below num_pages names: that is v_first. The extra
 * bytes of (page, layer) lie at extra_first + page * page_stride + layer * layer_stride. The table is int32
 * [max_batch][2][width] at `table`: K row, then V row; -1 is empty. Spec section 5.
 */
struct swakv_layout {
	uint32_t size; /* sizeof(struct swakv_layout) */
	int32_t num_pages;
	uint64_t k_base, v_base;            /* addresses the kernels use */
	uint64_t table;                     /* address of the device table */
	uint64_t page_stride, layer_stride; /* bytes */
	/* the broker's host truth, mapped read-only: same layout as the table */
	const int32_t *host_table;
	int32_t width;         /* columns of a row */
	int32_t private_pages; /* pages that a sequence of max_seq reserves: spec section 2 */
	uint32_t page_tokens, layers, kv_heads, head_dim, v_head_dim, element_bytes;
	enum swakv_group_kind kind;
	enum swakv_dtype dtype;
	/* page id times stride, in elements, exceeds 31 bits: a kernel that multiplies in 32 reads elsewhere */
	bool wide_offsets;
	int64_t window;                /* 0 of a full group */
	uint64_t first_page;           /* where page 0 begins: page_stride bytes, of split pages in the K half */
	uint64_t v_first, extra_first; /* where V and extra bytes of page 0 begin, in layer 0; 0: it has none */
	uint64_t k_token_stride, v_token_stride; /* bytes */
	uint32_t k_bytes, v_bytes;               /* of one token and layer, also where heads were declared */
	uint32_t extra_bytes, align;
	enum swakv_form form;
	enum swakv_order order;
	const char *tag; /* "": none; borrowed from the session */
};
/*
 * Asks nobody: the layout never changes. @group: below n_groups.
 * Errors: SWAKV_EINVALID.
 */
int swakv_session_get_layout(const swakv_session *s, uint32_t group, struct swakv_layout *out);

struct swakv_session_counters {
	uint32_t size; /* sizeof(struct swakv_session_counters) */
	uint64_t commands, replies;
	uint64_t wakeups_sent; /* doorbell rings: 0 while both sides stay awake */
	uint64_t sleeps;       /* futex waits */
	uint64_t row_faults;   /* row versions that did not fit and were read again */
	uint64_t rescues;      /* sleeps that ended by time-out with an answer there: must stay 0 */
	uint64_t moved_pages;  /* pages that the library copied elsewhere for the broker */
};
/*
 * Zeroes for a NULL session.
 * Errors: SWAKV_EINVALID.
 */
int swakv_session_get_counters(const swakv_session *s, struct swakv_session_counters *out);

/* ---- calls in flight -------------------------------------------------------------- */

/*
 * A call with a ticket argument is synchronous when that is NULL. Otherwise it
 * returns once the command is in the ring, and its result comes from
 * swakv_poll() or swakv_wait(). When that result is there, all effects of the
 * call have happened; answers are taken in the order the broker gave them, so
 * effects of one call may happen while another is being collected.
 *
 * Up to 65,536 tickets may be out. A result other than SWAKV_EAGAIN, or
 * SWAKV_ETIMEDOUT of swakv_wait() or swakv_wait_for(), collects the ticket, which then names nothing.
 *
 * A synchronous call that is not answered in time returns SWAKV_ETIMEDOUT. Its
 * outcome is then unknown to the caller, but not lost: a late answer still takes
 * effect on the table and the streams, and a request that begins late is
 * abandoned by the library.
 */
/*
 * Takes what is there and never sleeps.
 * Errors: those of the call, and SWAKV_EAGAIN (no answer yet), SWAKV_EINVALID (no such ticket), SWAKV_EGONE,
 * SWAKV_EFORKED.
 */
int swakv_poll(swakv_session *s, swakv_ticket ticket);
/*
 * Waits for up to timeout_ms of the session.
 * Errors: those of the call, and SWAKV_ETIMEDOUT (the ticket stays as it was), SWAKV_EINVALID (no such ticket),
 * SWAKV_EGONE, SWAKV_EFORKED.
 */
int swakv_wait(swakv_session *s, swakv_ticket ticket);
/*
 * The same for up to @ms milliseconds, for callers that look at something else in between.
 * Errors: those of the call, and SWAKV_ETIMEDOUT (the ticket stays as it was), SWAKV_EINVALID (no such ticket),
 * SWAKV_EGONE, SWAKV_EFORKED.
 */
int swakv_wait_for(swakv_session *s, swakv_ticket ticket, uint32_t ms);

/*
 * A descriptor for poll() or epoll in the caller's own loop, of a session that
 * was attached with SWAKV_ATTACH_EVENTS; borrowed until the session is closed;
 * the same at each call. It is only waited for, never read. Level-triggered: it
 * is readable
 *  - while an answer that a ticket is out for can be collected;
 *  - while an answer is there that nobody has taken (of a call that timed out: its
 *    updates are due): swakv_session_take();
 *  - while the session is asked for more pages of a group than the last swakv_pages_wanted()
 *    of that group has told, if there was one (of a group that manages no pages nobody asks);
 *  - once every millisecond or so, while a begin of a ticket has been granted and
 *    the device has not left its slots;
 *  - for good once the session or the broker has ended: then every ticket can be
 *    collected, and the session is to be closed.
 * It may be readable when nothing is there, until the next swakv_poll() or
 * swakv_session_take(). Calls that wait go on as ever.
 * Errors: common, SWAKV_EINVALID (attached without SWAKV_ATTACH_EVENTS), SWAKV_ESYSTEM, SWAKV_EGONE.
 */
int swakv_session_fd(swakv_session *s);
/*
 * Takes the answers that are there, whosever they are, and never sleeps: their
 * effects happen, and tickets can be collected.
 * Errors: SWAKV_EINVALID, SWAKV_EGONE, SWAKV_EFORKED.
 */
int swakv_session_take(swakv_session *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
