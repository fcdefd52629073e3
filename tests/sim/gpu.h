/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - the device of one process: streams, a table a group, work that takes time
 *
 * It outlives its process: work that was given goes on until the process is
 * gone for certain. A kernel looks into the device table when it begins, reads
 * and writes pages then and again when it ends.
 */
#ifndef SWAKV_SIM_GPU_H
#define SWAKV_SIM_GPU_H

#include "sim.h"

/* What a kernel does with the pages of one sequence in one group. */
struct gpu_part {
	uint32_t group, uid;
	int32_t slot;
	int32_t read, read_end;   /* columns that must hold the sequence's tags */
	int32_t write, write_end; /* columns that get them */
};

/* What a kernel does with a page that its worker manages itself. */
struct gpu_use {
	uint32_t group;
	int32_t page;
	uint32_t before, after; /* uid of what must be there, 0: what a take leaves there; and of what is written */
	bool clean;             /* a take that leaves zeroes */
};

enum gpu_kind { GPU_SCRUB, GPU_COPY, GPU_APPLY, GPU_KERNEL, GPU_USE, GPU_MARK };

struct gpu_op {
	STAILQ_ENTRY(gpu_op) link;
	enum gpu_kind kind;
	uint64_t ns;
	uint64_t value; /* of a mark */
	uint32_t n;
	union {
		struct gpu_update {
			uint32_t group;
			int32_t slot, column, page;
			int32_t from;
		} * updates; /* of an apply, pages of a scrub, and of a copy with where it comes from */
		struct gpu_part *parts;
		struct gpu_use *uses;
	};
	int32_t *pages; /* of a kernel: those that it found, for each part its columns one after another */
};

struct gpu_stream {
	struct gpu *gpu;
	STAILQ_HEAD(, gpu_op) ops;
	bool running;
	bool hangs;  /* its first work never ends */
	bool failed; /* what follows is not known to have ended */
	uint32_t n_ops;
	struct event end;       /* of its first work */
	struct wire_line *line; /* in the session's memory */
};

struct gpu {
	struct world *world;
	uint32_t worker; /* number of the incarnation: in its tags */
	uint32_t n_groups, n_streams;
	struct geometry geometry[WIRE_MAX_GROUPS];
	int32_t *tables[WIRE_MAX_GROUPS]; /* [max_batch][width], K ids */
	struct gpu_stream streams[SIM_STREAMS];
};

void gpu_init(struct gpu *g, struct world *w, uint32_t worker, const struct model *m, const struct geometry *geometry,
	      struct wire_line *lines);
/* Ends whatever runs, without a trace of it: the process is gone. Safe to repeat. */
void gpu_gone(struct gpu *g);
/* Frees it; nothing runs. */
void gpu_free(struct gpu *g);

/* Each enqueues behind what the stream has, and takes over what it is given. */
void gpu_scrub(struct gpu *g, uint32_t stream, struct gpu_update *pages, uint32_t n);
void gpu_copy(struct gpu *g, uint32_t stream, struct gpu_update *pages, uint32_t n, uint64_t ns);
void gpu_apply(struct gpu *g, uint32_t stream, struct gpu_update *updates, uint32_t n);
void gpu_kernel(struct gpu *g, uint32_t stream, struct gpu_part *parts, uint32_t n, uint64_t ns);
void gpu_use(struct gpu *g, uint32_t stream, struct gpu_use *uses, uint32_t n, uint64_t ns);
void gpu_mark(struct gpu *g, uint32_t stream, uint64_t value);
/* The stream's first work never ends, from now on. */
void gpu_hang(struct gpu *g, uint32_t stream);
static inline bool gpu_idle(const struct gpu *g, uint32_t stream)
{
	return STAILQ_EMPTY(&g->streams[stream].ops);
}

#endif
