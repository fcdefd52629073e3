/* SPDX-License-Identifier: Apache-2.0 */
/* stream_cuda.h - what a CUDA stream of the library is made of, shared by its files */
#ifndef SWAKV_CLIENT_STREAM_CUDA_H
#define SWAKV_CLIENT_STREAM_CUDA_H

#include <bsd/sys/queue.h>

#include "stream.h"

struct graph;
struct staging;

struct cuda {
	void *stream;
	bool owned;
	enum swakv_writer writer; /* never AUTO */
	uint64_t counter;         /* SWAKV_WRITER_COUNTER: address of the count */
	struct graph *graph;      /* NULL: its steps are not replayed */
	void *replay;             /* the graph that the next write of the word launches, NULL: none */
	STAILQ_HEAD(, staging) staged;
};

/* st->why from the driver; returns SWAKV_EDEVICE. */
int cuda_fail(struct stream *st);
/* Enqueues the updates as launches of the apply kernel. */
int cuda_launch_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n);
/* True when the stream is one of these. */
bool stream_is_cuda(const struct stream *st);

/* ---- stream_writer.c: who writes the word -------------------------------------- */

/* Chooses for AUTO; makes what the writer needs. */
int writer_init(struct stream *st, struct cuda *c, enum swakv_writer wanted);
void writer_deinit(struct stream *st, struct cuda *c);
int writer_write(struct stream *st, struct cuda *c, uint64_t value);

/* ---- stream_graph.c: table updates of steps that are replayed -------------------- */

/* @steps in flight at most. Frees what it made on failure. */
int graph_init(struct stream *st, struct cuda *c, uint32_t steps);
/* The stream is idle. */
void graph_deinit(struct stream *st, struct cuda *c);
/* True while updates go to the ring. */
bool graph_is_on(const struct cuda *c);
/* Puts the updates into the group's buffer of the next step, or, when they do not fit, on the stream. */
int graph_apply(struct stream *st, struct cuda *c, uint32_t group, const struct swakv_update *updates, size_t n);
/* The next step is not a replay: what its buffers hold goes on the stream now. */
int graph_flush(struct stream *st, struct cuda *c);

#endif
