/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - streams and completion (man 3 swakv_stream; spec section 6)
 *
 * Of the common errors these calls know SWAKV_EINVALID and SWAKV_EFORKED only:
 * they send the broker nothing, and work after it has gone, too.
 */
#ifndef SWAKV_STREAM_H
#define SWAKV_STREAM_H

#include <swakv/session.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum swakv_fence_kind {
	SWAKV_FENCE_DONE,   /* the device has finished already */
	SWAKV_FENCE_LINE,   /* finished when the stream's word reaches value */
	SWAKV_FENCE_FAILED, /* completion failed: quarantine */
};
/* Never changes: it travels by value. */
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

/* ---- binding -------------------------------------------------------------------- */

/*
 * Each stream starts unbound. On the host backend the first use binds it, not
 * threaded; on the CUDA backend beginning a request on an unbound stream is
 * refused with SWAKV_EPHASE. A stream is bound once and stays so for the life
 * of the session, and so does the writer of its word.
 */

/*
 * Host backend: work runs in order on a thread of the library (@threaded), or at once in the caller.
 * Errors: common, SWAKV_EBUSY (bound already), SWAKV_EUNSUPPORTED (the pool is on a GPU), SWAKV_ENOMEM, SWAKV_ESYSTEM.
 */
int swakv_stream_bind_host(swakv_session *s, uint32_t stream, bool threaded);
/*
 * CUDA backend: @cu_stream is a CUstream (or cudaStream_t) of the device's
 * primary context; borrowed until the session has been closed. NULL: the
 * library makes one.
 * Errors: common, SWAKV_EBUSY (bound already), SWAKV_EUNSUPPORTED (the pool is not on a GPU, or no kernels in this
 * build), SWAKV_EDEVICE, SWAKV_ENOMEM.
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
/* Set the size and what matters, the rest to 0. */
struct swakv_cuda_options {
	uint32_t size; /* sizeof(struct swakv_cuda_options) */
	enum swakv_writer writer;
	uint32_t graph_steps; /* not 0: steps may be replayed, so many in flight; needs SWAKV_WRITER_COUNTER */
	void *cu_stream;      /* as above */
};
/*
 * As swakv_stream_bind_cuda(), which is this with nothing set but the stream.
 * Errors: common (also an unknown writer, or graph_steps without the counter), SWAKV_EBUSY (bound already),
 * SWAKV_EUNSUPPORTED (also a device without stream writes), SWAKV_EDEVICE, SWAKV_ENOMEM.
 */
int swakv_stream_bind_cuda2(swakv_session *s, uint32_t stream, const struct swakv_cuda_options *options);

/* A stream of the caller's making, for engines with their own and for tests. Each returns 0 or non-zero. */
struct swakv_stream_ops {
	uint32_t size; /* sizeof(struct swakv_stream_ops) */
	/*
	 * Enqueues the updates of one answer on the table of @group: cell
	 * [slot][0][column] gets `page`, [slot][1][column] gets page + num_pages, or both -1; of a joined
	 * group only the first (spec section 5). @updates is gone when it returns.
	 */
	int (*apply)(void *arg, uint32_t group, const struct swakv_update *updates, size_t n);
	/* Enqueues an atomic release store of @value to *@word (8 bytes, aligned) behind all earlier work. */
	int (*write_word)(void *arg, uint64_t *word, uint64_t value);
	/* Waits until all work given so far has ended. Non-zero: completion failed. */
	int (*synchronize)(void *arg);
	/* Enqueues a copy of @bytes at @src to address @dst; @src is gone when it returns. NULL: no device mappings. */
	int (*copy)(void *arg, uint64_t dst, const void *src, size_t bytes);
	/*
	 * Enqueues a copy within the pool: @bytes at address @src to @dst, which do not overlap. NULL: pages
	 * of requests on this stream never move.
	 */
	int (*move)(void *arg, uint64_t dst, uint64_t src, size_t bytes);
};
/*
 * @ops is copied; @arg is passed to each operation until the session has been closed.
 * Errors: common (also an operation that is missing), SWAKV_EBUSY (bound already), SWAKV_ENOMEM.
 */
int swakv_stream_bind_custom(swakv_session *s, uint32_t stream, const struct swakv_stream_ops *ops, void *arg);

/*
 * Requests that begin on @stream from now on: @unordered, work of a step may run
 * beside that of the step before it (a custom stream that keeps no order, side
 * streams that wait for nothing). What a step leaves behind then waits for its
 * completion, and a sequence reserves for in_flight steps. Streams are ordered
 * until this says something else.
 * Errors: common.
 */
int swakv_stream_set_unordered(swakv_session *s, uint32_t stream, bool unordered);
/* The CUstream of a CUDA stream, NULL otherwise: of another backend, unbound, or of no session. */
void *swakv_stream_cuda(swakv_session *s, uint32_t stream);

/* ---- work and marks --------------------------------------------------------------- */

/*
 * Host backend: runs @fn(@arg) in stream order, as a kernel launch does on a GPU.
 * Errors: common, SWAKV_EPHASE (an unbound stream of a GPU), SWAKV_EUNSUPPORTED (a stream of another backend),
 * SWAKV_ENOMEM.
 */
int swakv_stream_launch_host(swakv_session *s, uint32_t stream, void (*fn)(void *arg), void *arg);

/*
 * Marks the end of the work given to @stream so far: arms the line if that was
 * not done, then enqueues the write of its next value. *@fence (may be NULL) is
 * what a complete call takes. Everything that a step enqueues lies before its mark.
 * Errors: common, SWAKV_EPHASE (an unbound stream of a GPU, or table entries wait for a replay), SWAKV_EDEVICE (the
 * stream refused the write: complete with SWAKV_FENCE_FAILED).
 */
int swakv_stream_mark(swakv_session *s, uint32_t stream, struct swakv_fence *fence);
/* True when @fence has been reached: SWAKV_DONE always, all others never for NULL. Reads one cached word. */
bool swakv_fence_reached(const swakv_session *s, struct swakv_fence fence);
/*
 * Waits until @fence has been reached, for @ms milliseconds at most (0: only
 * looks). The device wakes nobody, so its word is looked at again and again, in
 * pauses that grow with the time that has passed, to 1 ms.
 * Errors: common (also a fence that failed, or that no mark has given), SWAKV_ETIMEDOUT (not reached in time).
 */
int swakv_fence_wait(swakv_session *s, struct swakv_fence fence, uint32_t ms);
/*
 * Waits until everything given to @stream has ended. On an unbound stream: 0.
 * Errors: common, SWAKV_EDEVICE (it failed).
 */
int swakv_stream_synchronize(swakv_session *s, uint32_t stream);

/* ---- steps from a CUDA graph -------------------------------------------------------- */

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

/* Errors: common, SWAKV_EPHASE (not bound with graph_steps, or not capturing), SWAKV_EDEVICE. */
int swakv_stream_capture_begin(swakv_session *s, uint32_t stream);
/* Errors: common, SWAKV_EPHASE (not bound with graph_steps, or not capturing), SWAKV_EDEVICE. */
int swakv_stream_capture_end(swakv_session *s, uint32_t stream);
/* Errors: common, SWAKV_EPHASE (not bound with graph_steps), SWAKV_EDEVICE. */
int swakv_stream_set_replay(swakv_session *s, uint32_t stream, bool on);
/* Errors: common (also a @graph that is NULL), SWAKV_EPHASE (not bound with graph_steps), SWAKV_EDEVICE. */
int swakv_stream_replay(swakv_session *s, uint32_t stream, void *graph, struct swakv_fence *fence);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
