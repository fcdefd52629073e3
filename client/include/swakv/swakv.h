/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swakv.h - client library of the swakv KV page broker
 *
 * A worker attaches to a broker, declares its model, and moves batches of
 * sequences through their life: begin, prefill, decode steps, compaction,
 * finish. The broker decides which pages of the shared pool back which tokens;
 * the library keeps the worker's page table on the device up to date in the
 * order of the worker's own stream.
 *
 * Threads: a session and everything that came from it (requests, streams,
 * tickets) may be used by one thread at a time; the caller sees to that.
 * Different sessions are independent. After fork() the child must not use what
 * the parent attached: every call answers SWAKV_EFORKED there, and the child's
 * exit does not end the parent's session.
 *
 * Errors: a call that returns int returns 0 or a negative code of
 * <swakv/error.h>; swakv_session_error() has the sentence that says which
 * argument, which sequence and which value. A refused call changes nothing, but
 * for SWAKV_ELIMIT of a prepare, which turns the request to finishing. A NULL
 * session or request, or NULL for what is to be filled in, is SWAKV_EINVALID where
 * the call returns a code. The others answer NULL too: with what they say below, or
 * a struct of zeros.
 *
 * Arguments are borrowed for the call and copied, unless it says otherwise.
 * Lengths count tokens, sizes count bytes. "Spec section N" is the page
 * shared/spec.md of the sources.
 */
#ifndef SWAKV_H
#define SWAKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define SWAKV_VERSION_MAJOR 0
#define SWAKV_VERSION_MINOR 1

typedef struct swakv_session swakv_session;
typedef struct swakv_request swakv_request;

/* Names a call in flight. Valid until its answer has been collected. */
typedef uint64_t swakv_ticket;

/* ---- attach (man 3 swakv_session_attach) ---------------------------------- */

enum swakv_group_kind { SWAKV_SLIDING = 1, SWAKV_FULL = 2 };
enum swakv_dtype { SWAKV_F16 = 1, SWAKV_BF16 = 2, SWAKV_F32 = 3, SWAKV_FP8 = 4 };

/* One layer group: layers that share a window, a head count and a head size. Spec section 1. */
struct swakv_group {
	enum swakv_group_kind kind;
	int64_t window;       /* tokens, the current one included; 0 for a full group, which keeps every token */
	uint32_t page_tokens; /* tokens a page, power of two from 16 to 256; 0: 128 */
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t head_dim;   /* elements, of K and, if v_head_dim is 0, of V */
	uint32_t v_head_dim; /* 0: as K */
	enum swakv_dtype dtype;
};

/* Which pages an extend binds. Spec section 3. */
enum swakv_chunk {
	SWAKV_CHUNK_RETAINED, /* those of the final window: attention within the chunk uses its own K and V */
	SWAKV_CHUNK_MAPPED,   /* those of every token of the chunk, too, until its completion point; may keep a part */
};

struct swakv_model {
	/*
	 * The key of the model's floor and ceiling, and shown in status and logs: 1
	 * to 127 printable ASCII characters; NULL or "": "unnamed". Sessions of one
	 * name share one floor and one ceiling, so different models want different names.
	 */
	const char *name;
	const struct swakv_group *groups; /* each has a table, page ids and a reservation of its own */
	uint32_t n_groups;                /* 1 to 8 */
	uint32_t max_batch;               /* slots, 1 to 4096 */
	int64_t max_seq;                  /* tokens one sequence may reach */
	/*
	 * What sliding groups reserve for a sequence follows from these. 0 (any):
	 * pages for a chunk of any length. n: pages for steps of up to n tokens; a
	 * longer extend takes what it lacks when it is prepared, if there is any.
	 */
	int64_t max_advance;
	/*
	 * Steps prepared and not yet seen complete; 0: 2. They cost no pages, but on
	 * streams that keep no order (swakv_stream_set_unordered()).
	 */
	uint32_t in_flight;
	uint32_t max_rewind; /* tokens below the longest it ever was that a sequence may go back to */
	enum swakv_chunk chunk;
};

/* One page-table entry that changes: `page` moves in, `old_page` was there; -1 is empty. K ids. */
struct swakv_update {
	int32_t slot;
	int32_t column; /* logical page */
	int32_t page;
	int32_t old_page;
};

/* Zero-initialise, then set what matters. Everything is copied. */
struct swakv_attach_options {
	const char *broker;       /* instance name; NULL: $SWAKV_BROKER, else "default" */
	const char *socket;       /* socket path; NULL: from the name */
	const char *pool;         /* NULL: the broker's only pool */
	const char *cuda_library; /* driver to load; NULL: $SWAKV_CUDA_LIBRARY, else libcuda.so.1 */
	uint32_t n_streams;       /* 0: 1; at most 64 */
	uint32_t timeout_ms;      /* of attach, of each synchronous call and of swakv_wait(); 0: 30,000 */
	uint32_t spin_us;         /* how long a waiting call spins before it sleeps; 0: 50 */
	/*
	 * Called just before the updates of an answer to the table of layer group
	 * @group are enqueued on @stream, in order, from the thread that collects an
	 * answer; once a stream and layer group, also where the answer named rows by
	 * reference. The stream's line is armed already, so it may enqueue work of
	 * its own on that stream, swakv_stream_launch_host() included; it must make
	 * no other call into the session.
	 */
	void (*on_updates)(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n);
	void *on_updates_arg;
};

/*
 * Attaches this process as one session. On success *@out is owned by the caller
 * until swakv_session_close(); on failure it is NULL and, when @why is not NULL,
 * @why gets the sentence (at most @why_size bytes, terminated).
 */
int swakv_session_attach(const struct swakv_attach_options *options, const struct swakv_model *model,
			 swakv_session **out, char *why, size_t why_size);

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
 * poison is lifted. SWAKV_EPOISONED: a stream failed again, both stay.
 */
int swakv_session_shutdown(swakv_session *s);

/*
 * The sentence of the session's last call when that was refused, else ""; until
 * its next call. Never NULL, for no session either.
 */
const char *swakv_session_error(const swakv_session *s);

/* One command there and back that does nothing: is the broker alive, and how far away? @ticket as below. */
int swakv_session_ping(swakv_session *s, swakv_ticket *ticket);

/* What the broker decided and where this process mapped it. Pointers are borrowed from the session. */
struct swakv_session_info {
	uint32_t session_id;
	uint32_t generation;
	uint8_t boot_id[16];
	uint32_t n_groups;
	uint32_t n_streams;
	bool cuda;               /* false: the host backend */
	const char *device;      /* for people */
	uint8_t device_uuid[16]; /* of the GPU the pool lies on; zero on the host backend */
	void *pool;              /* host backend: the mapped pool; CUDA: NULL */
	uint64_t pool_device;    /* address the kernels use: CUdeviceptr, or the host address */
	uint64_t pool_bytes;
};
void swakv_session_get_info(const swakv_session *s, struct swakv_session_info *out);

/*
 * How kernels address group @group:
 *   element (page, layer, token, head, d) = base + page * page_stride + layer * layer_stride
 *                                           + ((token * kv_heads + head) * head_dim + d) * element_bytes
 * with base = k_base for K ids and v_base for V ids (V id = K id + num_pages), and for V v_head_dim in place of
 * head_dim. The table is int32 [max_batch][2][width] at `table`: K row, then V row; -1 is empty. Spec section 5.
 */
struct swakv_layout {
	uint64_t k_base, v_base;            /* addresses the kernels use */
	uint64_t table;                     /* address of the device table */
	uint64_t page_stride, layer_stride; /* bytes */
	int32_t num_pages;
	int32_t width;         /* columns of a row */
	int32_t private_pages; /* pages that a sequence of max_seq reserves: spec section 2 */
	uint32_t page_tokens, layers, kv_heads, head_dim, v_head_dim, element_bytes;
	enum swakv_group_kind kind;
	int64_t window; /* 0 of a full group */
	/* page id times stride, in elements, exceeds 31 bits: a kernel that multiplies in 32 reads elsewhere */
	bool wide_offsets;
	enum swakv_dtype dtype;
	/* the broker's host truth, mapped read-only: same layout as the table */
	const int32_t *host_table;
};
/* SWAKV_EINVALID: @group is not below n_groups. */
int swakv_session_get_layout(const swakv_session *s, uint32_t group, struct swakv_layout *out);

/* ---- streams and completion (man 3 swakv_stream, spec section 6) ----------- */

enum swakv_fence_kind {
	SWAKV_FENCE_DONE,   /* the device has finished already */
	SWAKV_FENCE_LINE,   /* finished when the stream's word reaches value */
	SWAKV_FENCE_FAILED, /* completion failed: quarantine */
};
struct swakv_fence {
	enum swakv_fence_kind kind;
	uint32_t line;  /* index of the stream */
	uint64_t value; /* from swakv_stream_mark() behind the work of this step: an older one is refused */
};
/* For a step that the caller has already waited for. */
#ifdef __cplusplus
#define SWAKV_DONE (swakv_fence{ SWAKV_FENCE_DONE, 0, 0 })
#else
#define SWAKV_DONE ((struct swakv_fence){ SWAKV_FENCE_DONE, 0, 0 })
#endif

/* A stream of the caller's making, for engines with their own and for tests. Each returns 0 or non-zero. */
struct swakv_stream_ops {
	/*
	 * Enqueues the updates of one answer on the table of @group: cell
	 * [slot][0][column] gets `page`, [slot][1][column] gets page + num_pages, or both -1 (spec
	 * section 5). @updates is gone when it returns.
	 */
	int (*apply)(void *arg, uint32_t group, const struct swakv_update *updates, size_t n);
	/* Enqueues an atomic release store of @value to *@word (8 bytes, aligned) behind all earlier work. */
	int (*write_word)(void *arg, uint64_t *word, uint64_t value);
	/* Waits until all work given so far has ended. Non-zero: completion failed. */
	int (*synchronize)(void *arg);
	/* Enqueues a copy of @bytes at @src to address @dst; @src is gone when it returns. NULL: no device mappings. */
	int (*copy)(void *arg, uint64_t dst, const void *src, size_t bytes);
};

/*
 * Each stream starts unbound. On the host backend the first use binds it, not
 * threaded; on the CUDA backend beginning a request on an unbound stream is
 * refused with SWAKV_EPHASE. A stream is bound once and stays so for the life
 * of the session, and so does the writer of its word.
 */
/* Host backend: work runs in order on a thread of the library (@threaded), or at once in the caller. */
int swakv_stream_bind_host(swakv_session *s, uint32_t stream, bool threaded);
/*
 * CUDA backend: @cu_stream is a CUstream (or cudaStream_t) of the device's
 * primary context; borrowed until the session has been closed. NULL: the
 * library makes one.
 */
int swakv_stream_bind_cuda(swakv_session *s, uint32_t stream, void *cu_stream);

/* Who writes the word of a CUDA stream; fixed for the life of the stream. */
enum swakv_writer {
	SWAKV_WRITER_AUTO,         /* a stream write, or a host function where the device has none */
	SWAKV_WRITER_STREAM_WRITE, /* cuStreamWriteValue64: the quickest */
	SWAKV_WRITER_HOST_FUNCTION,
	SWAKV_WRITER_COUNTER, /* a kernel of one thread that counts up: the one that a graph can hold */
};
#define SWAKV_MAX_GRAPH_STEPS 64
/* Zero-initialise, then set what matters. */
struct swakv_cuda_options {
	void *cu_stream; /* as above */
	enum swakv_writer writer;
	uint32_t graph_steps; /* not 0: steps may be replayed, so many in flight; wants SWAKV_WRITER_COUNTER */
	uint64_t reserved[2]; /* 0 */
};
/* As swakv_stream_bind_cuda(), which is this with nothing set but the stream. */
int swakv_stream_bind_cuda2(swakv_session *s, uint32_t stream, const struct swakv_cuda_options *options);

/*
 * A step that is captured once and replayed, on a stream bound with graph_steps.
 * Capture: begin the capture of the stream, call swakv_stream_capture_begin()
 * (the apply of the step's table entries, of all groups), enqueue the step's kernels, call
 * swakv_stream_capture_end() (its mark), end the capture. No other call on the
 * stream's requests may lie between. Replay: after set_replay(on) the entries of
 * each prepare wait for the next replay instead of going on the stream;
 * swakv_stream_replay() arms the line, launches @graph (a CUgraphExec or
 * cudaGraphExec_t) on the stream, and gives the step's fence, as a mark does.
 * Scrubs, and more entries than 500 of a group, go on the stream ahead of the replay. A mark
 * that would leave entries behind is refused with SWAKV_EPHASE. Each replay
 * must hold the two captured calls exactly once.
 */
int swakv_stream_capture_begin(swakv_session *s, uint32_t stream);
int swakv_stream_capture_end(swakv_session *s, uint32_t stream);
int swakv_stream_set_replay(swakv_session *s, uint32_t stream, bool on);
int swakv_stream_replay(swakv_session *s, uint32_t stream, void *graph, struct swakv_fence *fence);

int swakv_stream_bind_custom(swakv_session *s, uint32_t stream, const struct swakv_stream_ops *ops, void *arg);
/*
 * Requests that begin on @stream from now on: @unordered, work of a step may run
 * beside that of the step before it (a custom stream that keeps no order, side
 * streams that wait for nothing). What a step leaves behind then waits for its
 * completion, and a sequence reserves for in_flight steps. Streams are ordered
 * until this says something else.
 */
int swakv_stream_set_unordered(swakv_session *s, uint32_t stream, bool unordered);
/* The CUstream of a CUDA stream, NULL otherwise: of another backend, unbound, or of no session. */
void *swakv_stream_cuda(swakv_session *s, uint32_t stream);

/* Host backend: runs @fn(@arg) in stream order: the counterpart of a kernel launch. */
int swakv_stream_launch_host(swakv_session *s, uint32_t stream, void (*fn)(void *arg), void *arg);

/*
 * Marks the end of the work given to @stream so far: arms the line if that was
 * not done, then enqueues the write of its next value. *@fence is what a
 * complete call wants. Everything that a step enqueues lies before its mark.
 * SWAKV_EDEVICE: the stream refused the write; complete with SWAKV_FENCE_FAILED.
 */
int swakv_stream_mark(swakv_session *s, uint32_t stream, struct swakv_fence *fence);
/* True when @fence has been reached: SWAKV_DONE always, all others never for NULL. Reads one cached word. */
bool swakv_fence_reached(const swakv_session *s, struct swakv_fence fence);
/* Waits until everything given to @stream has ended. SWAKV_EDEVICE: it failed. On an unbound stream: 0. */
int swakv_stream_synchronize(swakv_session *s, uint32_t stream);

/* ---- calls in flight (man 3 swakv_poll) ------------------------------------- */

/*
 * Each call below with a ticket argument is synchronous when that is NULL.
 * Otherwise it returns once the command is in the ring, and its result comes
 * from swakv_poll() or swakv_wait(). When that result is there, all effects of
 * the call have happened; answers are taken in the order the broker gave them,
 * so effects of one call may happen while another is being collected.
 *
 * Up to 65,536 tickets may be out. swakv_poll() never sleeps: SWAKV_EAGAIN, not yet. Any other result collects
 * the ticket, which names nothing afterwards (SWAKV_EINVALID).
 *
 * A synchronous call that is not answered in time returns SWAKV_ETIMEDOUT. Its
 * outcome is then unknown to the caller, but not lost: a late answer still takes
 * effect on the table and the streams, and a request that begins late is
 * abandoned by the library. swakv_wait() that returns SWAKV_ETIMEDOUT leaves the
 * ticket as it was.
 */
int swakv_poll(swakv_session *s, swakv_ticket ticket);
int swakv_wait(swakv_session *s, swakv_ticket ticket);

/* ---- request lifecycle (man 3 swakv_request, spec section 3) ------------------ */

struct swakv_begin_options {
	uint32_t stream;      /* index below n_streams; the request's for life */
	const int32_t *slots; /* one a sequence, unique, in [0, max_batch) */
	uint32_t n_slots;     /* sequences of the batch */
	int64_t max_tokens;   /* length no sequence will exceed, in tokens: fewer pages are reserved; 0: max_seq */
	uint32_t wait_ms;     /* how long the request may wait for pages or slots that are not free, 0: not at all */
};

/*
 * Admits a batch: all its pages, in all groups, or nothing. A wait comes on top
 * of what the session waits for an answer. *@out is NULL unless the result is
 * 0 (with a ticket: it is valid once the ticket's result is 0, and NULL then
 * otherwise). Owned by the caller until swakv_request_free().
 */
int swakv_request_begin(swakv_session *s, const struct swakv_begin_options *options, swakv_request **out,
			swakv_ticket *ticket);
/*
 * The begin of @begin, a ticket, is to wait for pages no longer: its result is
 * SWAKV_ENOPAGES then, and nobody is held up by it. Nothing happens when it is
 * decided already: its result tells which of the two it was, and that is still to
 * be collected. SWAKV_EINVALID: @begin is no begin that is under way.
 */
int swakv_request_withdraw(swakv_session *s, swakv_ticket begin, swakv_ticket *ticket);
/* Frees the caller's handle; a request that is still alive is abandoned, without waiting. NULL is ignored. */
void swakv_request_free(swakv_request *r);
/* False after finish, abandon, a poison that took the request, or the session's end; false for NULL. */
bool swakv_request_valid(const swakv_request *r);
/* Sequences of the request now, 0 for NULL. */
uint32_t swakv_request_batch(const swakv_request *r);
/* Slot of sequence @seq, -1 when out of range, as for NULL. */
int32_t swakv_request_slot(const swakv_request *r, uint32_t seq);

/*
 * @lengths: one a sequence, in tokens, each in [1, max_tokens of begin]. @n: the
 * batch. On success the table updates are enqueued on the request's stream.
 */
int swakv_prefill_prepare(swakv_request *r, const int32_t *lengths, uint32_t n, swakv_ticket *ticket);
/*
 * @fence: the point at which the step's device work has ended. With SWAKV_DONE
 * the library marks the stream itself. Several requests of a stream may give the
 * same mark, when it lies behind the work of all. SWAKV_EINVALID with a mark that
 * was made before the prepare: it proves nothing about this step.
 */
int swakv_prefill_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);
/* Advances every sequence by one token, or none: SWAKV_ELIMIT when one has reached its length limit. */
int swakv_decode_prepare(swakv_request *r, swakv_ticket *ticket);
/* Of an extend, too: then all of its tokens stay. */
int swakv_decode_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);

/*
 * Advances sequence i by @tokens[i] >= 1 tokens, @n of them, the batch: a chunk
 * of a prompt, or speculated tokens. The table gets the pages that enum
 * swakv_chunk says. SWAKV_ENOPAGES, nothing changed: longer than max_advance,
 * and the pages it lacks are not free. SWAKV_ELIMIT as of a decode.
 */
int swakv_extend_prepare(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket);
/*
 * @accepted[i] tokens of sequence i stay, 0 to all of the step, @n of them, the
 * batch; NULL (@n 0): all. Fewer than all needs SWAKV_CHUNK_MAPPED. The pages
 * that this leaves behind are the sequence's own for its next steps; what it has
 * beyond its reservation returns when all the request's fences are reached.
 */
int swakv_extend_complete(swakv_request *r, struct swakv_fence fence, const int32_t *accepted, uint32_t n,
			  swakv_ticket *ticket);
/*
 * Takes the last @tokens[i] >= 0 settled tokens of sequence i back, @n of them,
 * the batch; between steps. SWAKV_ELIMIT, nothing changed: lower than
 * max_rewind below the longest that the sequence ever was. Pages that become
 * empty are the sequence's own for its next steps.
 */
int swakv_rewind(swakv_request *r, const int32_t *tokens, uint32_t n, swakv_ticket *ticket);
/*
 * Raises what begin said as max_tokens, and reserves what that needs in every
 * group, or nothing: SWAKV_ENOPAGES, SWAKV_ENEVER. SWAKV_EINVALID: below what
 * the request has, or above max_seq.
 */
int swakv_request_reserve(swakv_request *r, int64_t max_tokens, swakv_ticket *ticket);

/* One entry of a step over several requests: atomic within one, independent between them. */
struct swakv_step {
	swakv_request *request;
	const int32_t *tokens;    /* prepare only: [batch], as of an extend; NULL: one each, a decode */
	const int32_t *accepted;  /* complete only: [batch], as of an extend; NULL: all */
	struct swakv_fence fence; /* complete only */
	int result;               /* out: 0 or the code of this entry */
};
/*
 * Decodes and extends of many requests in one command. Result: 0 when every entry
 * is 0, else the first entry's code that is not; when the step is refused as a
 * whole each entry has its code. @steps stays the caller's, and in place until
 * the result is collected; what it points to is copied.
 */
int swakv_step_prepare(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket);
int swakv_step_complete(swakv_session *s, struct swakv_step *steps, uint32_t n, swakv_ticket *ticket);

enum { SWAKV_COMPACT_MOVE_ROWS = 1 };
/*
 * @old_to_new: int32[batch], destination of each sequence or -1 to drop it.
 * @device_mapping: 0, or the address of int32[batch] in the stream's memory that gets a copy of the mapping in stream
 * order. @flags: SWAKV_COMPACT_MOVE_ROWS or 0. After compact_complete the sequences are numbered anew.
 */
int swakv_compact_begin(swakv_request *r, const int32_t *old_to_new, uint32_t n, int32_t new_batch, uint32_t flags,
			uint64_t device_mapping, swakv_ticket *ticket);
int swakv_compact_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket);

/* Ends the request; its pages return at its last completion point. On one that has ended: 0, nothing done. */
int swakv_request_finish(swakv_request *r, swakv_ticket *ticket);
/* As finish, also with a transition pending: the library marks the stream, and the pages return at that mark. */
int swakv_request_abandon(swakv_request *r, swakv_ticket *ticket);

/* ---- queries (man 3 swakv_state, spec section 4) ------------------------------ */

enum swakv_phase { SWAKV_PHASE_NONE, SWAKV_PHASE_ADMITTED, SWAKV_PHASE_EXECUTING, SWAKV_PHASE_FINISHING };
enum swakv_transition {
	SWAKV_NO_TRANSITION,
	SWAKV_TRANSITION_PREFILL,
	SWAKV_TRANSITION_DECODE,
	SWAKV_TRANSITION_COMPACT,
	SWAKV_TRANSITION_EXTEND /* a step that is not one token for every sequence */
};

struct swakv_request_state {
	enum swakv_phase phase;
	enum swakv_transition transition; /* device work pending */
	uint32_t stream;
	uint32_t batch;
	uint32_t open_points;  /* completed steps whose fence is not reached */
	int32_t pending_batch; /* of a pending compaction, -1: none */
};
int swakv_request_get_state(swakv_request *r, struct swakv_request_state *out);

struct swakv_binding {
	int32_t logical_page;
	int32_t page;
};
/* State of one sequence in one layer group. The arrays are malloc'd: free with swakv_sequence_state_clear(). */
struct swakv_sequence_state {
	int32_t slot;
	uint32_t generation;
	int64_t window; /* 0 of a full group */
	int32_t page_tokens;
	int64_t endpoint;                     /* exact resident token count */
	int64_t pending_endpoint;             /* -1: none */
	int32_t retained_begin, retained_end; /* logical pages; from prepare on those of the bindings */
	int32_t input_length;                 /* of the last prefill, 0: none */
	int32_t pending_map;                  /* in a pending compaction: destination, -1 dropped; -2 none */
	uint32_t n_bindings, n_reserved, n_new, n_retiring, n_staged;
	struct swakv_binding *bindings;     /* in the row, ordered, retiring ones not included */
	struct swakv_binding *new_bindings; /* bound by the pending transition */
	struct swakv_binding *retiring;     /* staged by the pending transition, still in the row */
	int32_t *reserved;                  /* pages ready to be bound, next first */
	int32_t *staged;                    /* pages behind open completion points */
};
int swakv_sequence_get_state(swakv_request *r, uint32_t seq, struct swakv_sequence_state *out); /* of group 0 */
int swakv_sequence_get_group_state(swakv_request *r, uint32_t seq, uint32_t group, struct swakv_sequence_state *out);
/* NULL is ignored. Safe to repeat. */
void swakv_sequence_state_clear(struct swakv_sequence_state *state);

/* Pages of a group's class that could be admitted now, limits of models aside. Waits for the broker, as above. */
int swakv_session_free_pages(swakv_session *s, int64_t *out); /* of group 0 */
int swakv_session_group_free_pages(swakv_session *s, uint32_t group, int64_t *out);
/* Pages a sequence of max_seq reserves, in all groups together; of one: swakv_layout. 0 for NULL. Asks nobody. */
int64_t swakv_session_private_pages(const swakv_session *s);

struct swakv_session_counters {
	uint64_t commands, replies;
	uint64_t wakeups_sent; /* doorbell rings: 0 while both sides stay awake */
	uint64_t sleeps;       /* futex waits */
	uint64_t row_faults;   /* row versions that did not fit and were read again */
	uint64_t rescues;      /* sleeps that ended by time-out with an answer there: must stay 0 */
};
void swakv_session_get_counters(const swakv_session *s, struct swakv_session_counters *out);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
