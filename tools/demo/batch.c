/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - joins and leaves
 *
 * Rows of the trace are grouped into requests of one to GROUP_MAX sequences.
 * A request joins as soon as the slots are there and the broker admits it, and
 * is prefilled at once. When a sequence has generated what its row says, it is
 * dropped from its request by a compaction that leaves the other rows where
 * they are; with the last one the request is finished.
 *
 * Pages that are not there now are no failure: the worker goes on with what it
 * has, tries again after its own pages came back or a growing pause, and with
 * nothing to do sleeps.
 */
#include "batch.h"

#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "kvgen.h"
#include "worker.h"

#define BACKOFF_MIN 1000000ull  /* ns */
#define BACKOFF_MAX 20000000ull /* ns */
#define IDLE_WAIT   500         /* ms: the broker keeps pages for who waits, not for who asks again and again */

int batch_init(struct worker *w)
{
	TAILQ_INIT(&w->jobs);
	w->free_slots = calloc(w->opt.batch, sizeof(*w->free_slots));
	if (!w->free_slots)
		return SWAKV_ENOMEM;
	for (uint32_t i = 0; i < w->opt.batch; i++)
		w->free_slots[w->n_free_slots++] = (int32_t)(w->opt.batch - 1 - i);
	return 0;
}

static void sequence_free(struct sequence *seq)
{
	for (int i = 0; i < PRESET_MAX_GROUPS; i++)
		dense_sequence_free(seq->dense[i]);
	free(seq);
}

void sequence_release(struct sequence *seq, struct worker *w)
{
	if (!seq->left || seq->n_frames)
		return;
	w->stats.rows_done++;
	sequence_free(seq);
}

static void job_free(struct job *job)
{
	swakv_request_free(job->request);
	free(job);
}

static void job_free_whole(struct job *job)
{
	for (uint32_t i = 0; i < job->n_seqs; i++)
		sequence_free(job->seqs[i]);
	job_free(job);
}

void batch_deinit(struct worker *w)
{
	struct job *job;

	if (!w->free_slots)
		return;
	/* A frame of a failed run may still hold sequences that have left their request. */
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < w->frames[i].n; k++) {
			struct sequence *seq = w->frames[i].entries[k].seq;

			if (--seq->n_frames == 0 && seq->left)
				sequence_free(seq);
		}
	while ((job = TAILQ_FIRST(&w->jobs))) {
		TAILQ_REMOVE(&w->jobs, job, link);
		job_free_whole(job);
	}
	if (w->next)
		job_free_whole(w->next);
	w->next = NULL;
	free(w->free_slots);
	w->free_slots = NULL;
}

bool batch_drained(const struct worker *w)
{
	return w->winding_down || (!w->next && w->next_row == w->trace.n_rows && !w->opt.loop);
}

/* ---- forming ---------------------------------------------------------------- */

static struct sequence *sequence_new(struct worker *w, const struct trace_row *row)
{
	struct sequence *seq = calloc(1, sizeof(*seq));

	if (!seq)
		return NULL;
	seq->id = w->next_id++;
	seq->slot = -1;
	seq->context = row->context;
	seq->remaining = row->generated;
	return seq;
}

/* How many rows the request that begins with sequence @id takes: 1 to GROUP_MAX, from the seed. */
static uint32_t group_size(const struct worker *w, uint64_t id)
{
	uint16_t draw;

	kvgen_bits(&w->gen, (struct kvgen_at){ KVGEN_Q, id, -1, 0, 0 }, 1, &draw);
	uint32_t n = 1 + draw / 8u % GROUP_MAX;

	return n < w->opt.batch ? n : w->opt.batch;
}

/* The next rows as a request to come, w->next. False: none left, or (code set) out of memory. */
static bool form_next(struct worker *w)
{
	uint32_t n = group_size(w, w->next_id);

	if (w->next_row == w->trace.n_rows) {
		if (!w->opt.loop)
			return false;
		w->next_row = 0;
	}
	w->next = calloc(1, sizeof(*w->next));
	while (w->next && w->next->n_seqs < n && w->next_row < w->trace.n_rows) {
		struct sequence *seq = sequence_new(w, &w->trace.rows[w->next_row]);

		if (!seq)
			break;
		w->next_row++;
		w->next->seqs[w->next->n_seqs++] = seq;
	}
	if (!w->next || !w->next->n_seqs) {
		worker_fail_detail(w, SWAKV_ENOMEM, "forming a request", "out of memory");
		return false;
	}
	return true;
}

/* ---- joining ---------------------------------------------------------------- */

static void back_off(struct worker *w)
{
	w->stats.nopages++;
	w->retry_ns = clock_ns() + w->backoff_ns;
	w->backoff_ns = w->backoff_ns * 2 < BACKOFF_MAX ? w->backoff_ns * 2 : BACKOFF_MAX;
}

/* Own pages are on their way back: worth another try soon. */
static void pages_returned(struct worker *w)
{
	w->backoff_ns = BACKOFF_MIN;
	if (w->retry_ns)
		w->retry_ns = clock_ns() + BACKOFF_MIN;
}

static int begin_failed(struct worker *w, int rc)
{
	char detail[384];

	if (rc != SWAKV_ENEVER)
		return worker_fail(w, rc, "beginning a request");
	snprintf(detail, sizeof(detail), "%s; a larger pool would do, or a smaller --batch or --max-seq",
		 swakv_session_error(w->session));
	return worker_fail_detail(w, rc, "beginning a request", detail);
}

/* What its sequences will come to; 0, as long as max_seq allows, where only windows are kept. */
static int64_t longest(const struct worker *w, const struct job *job)
{
	int64_t most = 0;
	bool full = false;

	for (uint32_t i = 0; i < w->n_groups; i++)
		full |= w->groups[i].shape.window == 0;
	for (uint32_t i = 0; i < job->n_seqs && full; i++)
		if (job->seqs[i]->context + job->seqs[i]->remaining > most)
			most = job->seqs[i]->context + job->seqs[i]->remaining;
	return most;
}

/* Admits w->next. 1: yes; 0: not now; a code: failed. */
static int begin(struct worker *w)
{
	struct job *job = w->next;
	int32_t slots[GROUP_MAX];
	int rc = worker_make_room(w);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < job->n_seqs; i++)
		slots[i] = w->free_slots[w->n_free_slots - 1 - i];
	rc = swakv_request_begin(w->session,
				 &(struct swakv_begin_options){
					 .size = sizeof(struct swakv_begin_options),
					 .stream = w->device.stream,
					 .slots = slots,
					 .n_slots = job->n_seqs,
					 .wait_ms = w->n_jobs ? 0 : IDLE_WAIT,
					 .max_tokens = longest(w, job),
				 },
				 &job->request, NULL);
	if (rc == SWAKV_ENOPAGES || rc == SWAKV_EPENDING) {
		back_off(w);
		return 0;
	}
	if (rc)
		return begin_failed(w, rc);
	for (uint32_t i = 0; i < job->n_seqs; i++)
		job->seqs[i]->slot = slots[i];
	w->n_free_slots -= job->n_seqs;
	w->retry_ns = 0;
	w->backoff_ns = BACKOFF_MIN;
	TAILQ_INSERT_TAIL(&w->jobs, job, link);
	w->n_jobs++;
	w->next = NULL;
	w->stats.requests++;
	return 1;
}

/* A sequence that generates nothing ends with its prefill. */
static int poison_ended(struct worker *w, const struct job *job)
{
	int rc = 0;

	for (uint32_t i = 0; i < job->n_seqs && !rc; i++)
		if (!job->seqs[i]->remaining)
			rc = worker_poison_row(w, job->seqs[i]->slot);
	return rc ? worker_fail_detail(w, rc, "poisoning pages", device_why(&w->device)) : 0;
}

static int prefill(struct worker *w, struct job *job)
{
	int32_t lengths[GROUP_MAX];
	struct swakv_fence fence;
	int rc;

	for (uint32_t i = 0; i < job->n_seqs; i++)
		lengths[i] = (int32_t)job->seqs[i]->context;
	rc = swakv_prefill_prepare(job->request, lengths, job->n_seqs, NULL);
	if (rc)
		return worker_fail(w, rc, "preparing a prefill");
	for (uint32_t i = 0; i < job->n_seqs; i++) {
		rc = prefill_write(&w->prefill, w, job->seqs[i]);
		if (rc)
			return rc;
		job->seqs[i]->endpoint = job->seqs[i]->context;
		w->stats.tokens_prefilled += (uint64_t)job->seqs[i]->context;
	}
	rc = poison_ended(w, job);
	if (rc)
		return rc;
	rc = swakv_stream_mark(w->session, w->device.stream, &fence);
	if (!rc)
		rc = swakv_prefill_complete(job->request, fence, NULL);
	return rc ? worker_fail(w, rc, "completing a prefill") : 0;
}

int batch_admit(struct worker *w)
{
	while (!w->winding_down) {
		int rc;

		if (!w->next && !form_next(w))
			return w->code;
		if (w->n_free_slots < w->next->n_seqs || clock_ns() < w->retry_ns)
			return 0;
		struct job *job = w->next;
		rc = begin(w);
		if (rc <= 0)
			return rc;
		rc = prefill(w, job);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- leaving ---------------------------------------------------------------- */

static void leave(struct worker *w, struct sequence *seq)
{
	w->free_slots[w->n_free_slots++] = seq->slot;
	seq->left = true;
	sequence_release(seq, w);
}

static int finish(struct worker *w, struct job *job)
{
	int rc = swakv_request_finish(job->request, NULL);

	if (rc)
		return worker_fail(w, rc, "finishing a request");
	for (uint32_t i = 0; i < job->n_seqs; i++)
		leave(w, job->seqs[i]);
	TAILQ_REMOVE(&w->jobs, job, link);
	w->n_jobs--;
	job_free(job);
	pages_returned(w);
	return 0;
}

/* Drops the sequences whose old_to_new is -1 from @job; the survivors must be where the library has them. */
static int drop(struct worker *w, struct job *job, const int32_t *old_to_new, uint32_t n_left)
{
	for (uint32_t i = 0; i < job->n_seqs; i++) {
		struct sequence *seq = job->seqs[i];

		if (old_to_new[i] < 0)
			leave(w, seq);
		else
			job->seqs[old_to_new[i]] = seq;
	}
	job->n_seqs = n_left;
	for (uint32_t i = 0; i < n_left; i++)
		if (swakv_request_slot(job->request, i) != job->seqs[i]->slot)
			return worker_fail_detail(w, SWAKV_EINVALID, "completing a compaction",
						  "a sequence that stayed has changed its slot");
	if (swakv_request_batch(job->request) != n_left)
		return worker_fail_detail(w, SWAKV_EINVALID, "completing a compaction",
					  "the request's batch is not what stayed");
	pages_returned(w);
	return 0;
}

static int compact(struct worker *w, struct job *job)
{
	int32_t old_to_new[GROUP_MAX];
	uint32_t n_left = 0;
	int rc = worker_make_room(w);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < job->n_seqs; i++)
		old_to_new[i] = job->seqs[i]->remaining ? (int32_t)n_left++ : -1;
	rc = compaction_run(&w->compaction, w, job->request, old_to_new, job->n_seqs, n_left);
	return rc ? rc : drop(w, job, old_to_new, n_left);
}

int batch_retire(struct worker *w)
{
	struct job *job, *following;

	for (job = TAILQ_FIRST(&w->jobs); job; job = following) {
		uint32_t ended = 0;
		int rc = 0;

		following = TAILQ_NEXT(job, link);
		for (uint32_t i = 0; i < job->n_seqs; i++)
			ended += !job->seqs[i]->remaining;
		if (ended == job->n_seqs)
			rc = finish(w, job);
		else if (ended)
			rc = compact(w, job);
		if (rc)
			return rc;
	}
	return 0;
}

void batch_wind_down(struct worker *w)
{
	struct job *job;

	w->winding_down = true;
	TAILQ_FOREACH (job, &w->jobs, link)
		for (uint32_t i = 0; i < job->n_seqs; i++)
			if (job->seqs[i]->remaining > 1)
				job->seqs[i]->remaining = 1;
}
