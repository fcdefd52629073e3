/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - one worker: its session, its sequences, its counts */
#ifndef DEMO_WORKER_H
#define DEMO_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <swakv/swakv.h>

#include "batch.h"
#include "compaction.h"
#include "dense.h"
#include "device.h"
#include "frame.h"
#include "histogram.h"
#include "mirror.h"
#include "options.h"
#include "prefill.h"
#include "trace.h"

struct worker;

/* One trace row being decoded. Freed when it has left its request and no frame holds it. */
struct sequence {
	uint64_t id; /* its number in kvgen, never used again */
	int32_t slot;
	int64_t context;
	int64_t endpoint;                                /* tokens given to the device */
	int64_t remaining;                               /* decode steps to go */
	uint32_t n_frames;                               /* steps whose results are not checked yet */
	bool left;                                       /* out of its request */
	struct dense_sequence *dense[PRESET_MAX_GROUPS]; /* NULL until the first check */
};

/* One request: up to GROUP_MAX sequences with one lifecycle. */
struct job {
	TAILQ_ENTRY(job) link;
	swakv_request *request;
	uint32_t n_seqs;
	struct sequence *seqs[GROUP_MAX];
};
TAILQ_HEAD(job_list, job);

/* One layer group: where its pages lie, and what its attention must give. */
struct group {
	struct preset_group shape;
	uint32_t first_layer; /* of the model: what kvgen calls its layer 0 */
	struct swakv_layout layout;
	struct kernel_pages pages;
	struct dense dense;
	uint64_t results, mismatches; /* attention vectors */
};

struct stats {
	uint64_t rows_done, rows_clipped;
	uint64_t tokens_prefilled, tokens_decoded;
	uint64_t steps, requests, compactions;
	uint64_t cells, cells_wrong;     /* entries of tables and compaction mappings */
	uint64_t vectors, vectors_wrong; /* read where the checker itself finds them */
	uint64_t nopages, pending;       /* refusals answered by waiting */
	double max_error, tolerance;
	struct histogram prepare, complete; /* ns */
};

struct worker {
	struct options opt;
	struct trace trace;
	swakv_session *session;
	struct swakv_session_info info;
	uint32_t n_groups;
	struct group groups[PRESET_MAX_GROUPS];
	struct device device;
	struct kvgen gen;
	double *want; /* [q_heads][head_dim] of the largest group: one layer's checked result */
	struct mirror mirrors[PRESET_MAX_GROUPS];
	struct prefill prefill;
	struct compaction compaction;
	struct frame frames[2];
	struct swakv_step *steps; /* [batch] */

	struct job_list jobs;
	uint32_t n_jobs;
	int32_t *free_slots; /* stack */
	uint32_t n_free_slots;
	struct job *next; /* formed, not admitted yet */
	size_t next_row;
	uint64_t next_id;
	uint64_t retry_ns, backoff_ns; /* begin was refused: when to try again */
	uint64_t pending_since_ns;     /* all prepares answered pending since, 0: no */
	bool winding_down;

	uint64_t started_ns, next_report_ns, next_progress_ns;
	struct stats stats;
	uint32_t n_printed, n_cells_printed,
		n_vectors_printed; /* wrong results, table entries and vectors shown in full */
	int code;                  /* why it failed, 0: it has not */
	char why[512];
};

/*
 * Attaches and makes everything ready. Non-zero: failed, why is in w->code and
 * w->why. worker_deinit() in either case.
 */
int worker_init(struct worker *w, const struct options *opt);
void worker_deinit(struct worker *w);
/* Works until the rows are done, or *@stop is set, or something fails. 0 or a code. */
int worker_run(struct worker *w, const volatile int *stop);

/* Makes room in all mirrors for the fills of one command. Call before each command. 0 or a code. */
int worker_make_room(struct worker *w);
/*
 * The sequence in @slot has done its last step: poisons its pages of all groups,
 * before the mark that frees them. 0 or a code, not noted.
 */
int worker_poison_row(struct worker *w, int32_t slot);

/* Attention vectors that were compared, and those that were wrong, of all groups. */
uint64_t worker_results(const struct worker *w);
uint64_t worker_mismatches(const struct worker *w);

/* Notes the failure @code of @what, with the session's sentence; returns @code. Keeps the first one. */
int worker_fail(struct worker *w, int code, const char *what);
/* The same with @detail as the sentence. */
int worker_fail_detail(struct worker *w, int code, const char *what, const char *detail);

#endif
