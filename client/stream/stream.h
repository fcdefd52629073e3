/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h - one ordered queue of device work, and the timeline line it writes
 *
 * A stream is unbound until one of the backends takes it: host (inline or on a
 * thread), CUDA, or the caller's own operations. The line is armed before
 * anything that the mark will cover is enqueued.
 */
#ifndef SWAKV_CLIENT_STREAM_H
#define SWAKV_CLIENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "wire.h"

struct driver;
struct kernel_scrub;
struct stream;

#define STREAM_WHY 256

/* All of page `from`, K and V, is to be in page `to`. */
struct page_move {
	int32_t from, to;
};

/* Each returns 0 or a negative code with the reason in stream->why. What is passed in is copied or used at once. */
struct stream_backend {
	const char *name;
	int (*apply)(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n);
	int (*write_word)(struct stream *st, uint64_t value);
	int (*scrub)(struct stream *st, uint32_t group, const int32_t *pages, size_t n); /* K ids: K and V to 0 */
	int (*copy)(struct stream *st, uint64_t dst, const void *src, size_t bytes);
	int (*move)(struct stream *st, uint32_t group, const struct page_move *moves, size_t n);
	int (*synchronize)(struct stream *st);
	int (*launch_host)(struct stream *st, void (*fn)(void *arg), void *arg); /* NULL: not possible */
	void (*deinit)(struct stream *st);                                       /* the stream is idle, or broken */
};

/* Where the updates of one layer group go. */
struct stream_target {
	uint64_t table; /* address of the device table */
	int32_t width;
	int32_t num_pages;
	uint64_t first_page; /* address of page 0, or of its K half */
	uint64_t v_half;     /* of its V half; joined: 0 */
	bool joined;         /* pages that have one id */
	uint64_t page_stride;
};

struct stream {
	const struct stream_backend *backend; /* NULL: unbound */
	void *impl;                           /* of the backend */
	uint32_t index;
	const struct stream_target *targets; /* one a group; borrowed */
	uint32_t n_groups;
	struct wire_line *line; /* in the session memory */
	struct driver *driver;  /* CUDA: borrowed from the pool import */
	uint64_t word_device;   /* CUDA: the word as the device sees it */
	uint64_t armed;         /* last value stored to line->armed */
	uint64_t marked;        /* last value whose write was enqueued */
	uint32_t n_prepared;    /* requests of this stream between a prepare and its complete */
	bool fixed;             /* it has no operation that moves pages */
	bool unordered;         /* work of a step may run beside that of the step before it */
	bool failed;            /* an operation failed and no synchronisation has succeeded since */
	char why[STREAM_WHY];
};

/* Takes over the line as the broker made it; unbound. @targets outlive it. */
void stream_init(struct stream *st, uint32_t index, struct wire_line *line, const struct stream_target *targets,
		 uint32_t n_groups);
/* Frees what the backend holds; the stream is unbound afterwards. Safe to repeat. */
void stream_deinit(struct stream *st);

/* The binds: 0, SWAKV_EBUSY when bound already, or the backend's code. */
int stream_bind_host(struct stream *st, bool threaded);
int stream_bind_cuda(struct stream *st, const struct swakv_cuda_options *options);
int stream_bind_custom(struct stream *st, const struct swakv_stream_ops *ops, void *arg);
void *stream_cuda_handle(const struct stream *st);

/* Steps from a captured graph, see swakv.h; on streams bound with graph_steps only. */
int stream_capture_begin(struct stream *st);
int stream_capture_end(struct stream *st);
int stream_set_replay(struct stream *st, bool on);
int stream_replay(struct stream *st, void *exec);
/* Between set_replay(true) and false. */
bool stream_is_replayed(const struct stream *st);
/* True when the next step has updates that its replay is to apply. */
bool stream_awaits_replay(const struct stream *st);

/* Work is about to be enqueued: armed > marked from here on. True when this call armed the line. */
bool stream_arm(struct stream *st);
/* Enqueues the write of marked + 1, which becomes `marked`. SWAKV_EDEVICE. */
int stream_mark(struct stream *st);
/* As stream_mark(), but only when the line is armed above the last mark. */
int stream_mark_if_armed(struct stream *st);
/* A step has ended without a mark of its own: unless another one will mark the line, it would look busy for ever. */
static inline void stream_catch_up(struct stream *st)
{
	if (st->n_prepared == 0)
		(void)stream_mark_if_armed(st);
}
int stream_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n);
int stream_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n);
int stream_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes);
/* Whether it can move pages; it is bound. */
bool stream_can_move(const struct stream *st);
/* Enqueues copies of pages; no page is named twice. */
int stream_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n);
int stream_synchronize(struct stream *st);

/* For the backends: the reason of a failure to st->why; returns @code. */
int stream_fail(struct stream *st, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Applies @updates to the target at once, on this CPU. */
void stream_apply_cpu(const struct stream_target *target, const struct swakv_update *updates, size_t n);
/*
 * Calls @copy with the addresses and bytes of each share of each page; stops at the first failure
 * and returns it.
 */
int stream_move_parts(struct stream *st, uint32_t group, const struct page_move *moves, size_t n,
		      int (*copy)(struct stream *st, uint64_t dst, uint64_t src, size_t bytes));
/* Moves pages at once, on this CPU. */
void stream_move_cpu(struct stream *st, uint32_t group, const struct page_move *moves, size_t n);
/* Calls @launch with each part of the list that fits one kernel; stops at the first failure and returns it. */
int stream_scrub_parts(const struct stream_target *target, const int32_t *pages, size_t n,
		       int (*launch)(void *arg, const struct kernel_scrub *p), void *arg);
/* Scrubs @pages at once, on this CPU. */
void stream_scrub_cpu(const struct stream_target *target, const int32_t *pages, size_t n);

#endif
