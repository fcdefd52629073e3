/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_host.c - streams of the host backend: CPU work in order
 *
 * Inline: work is done in the caller before the call returns. Threaded: a
 * thread of the stream's own takes jobs first in, first out; a table update, a
 * launch and the write of a word are jobs alike, so their order is the order
 * in which they were given, as on a GPU stream.
 */
#include <bsd/sys/queue.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum job_kind { JOB_APPLY, JOB_WORD, JOB_SCRUB, JOB_COPY, JOB_MOVE, JOB_LAUNCH };

struct job {
	STAILQ_ENTRY(job) link;
	enum job_kind kind;
	uint32_t group; /* of updates and pages */
	union {
		uint64_t word;
		struct {
			void (*fn)(void *arg);
			void *arg;
		} launch;
		uint64_t dst;
	};
	size_t n; /* updates, pages, moves, or bytes */
	_Alignas(16) unsigned char data[];
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work; /* a job was added, or the end */
	pthread_cond_t idle; /* the last job has ended */
	STAILQ_HEAD(, job) jobs;
	bool busy;
	bool ending;
};

/* ---- inline ---------------------------------------------------------------- */

static int inline_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	stream_apply_cpu(&st->targets[group], updates, n);
	return 0;
}

static int inline_write_word(struct stream *st, uint64_t value)
{
	store_release(&st->line->word, value);
	return 0;
}

static int inline_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n)
{
	stream_scrub_cpu(&st->targets[group], pages, n);
	return 0;
}

static int inline_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes)
{
	memcpy((void *)(uintptr_t)dst, src, bytes);
	return 0;
}

static int inline_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	stream_move_cpu(st, group, moves, n);
	return 0;
}

static int inline_synchronize(struct stream *st)
{
	return 0;
}

static int inline_launch(struct stream *st, void (*fn)(void *arg), void *arg)
{
	fn(arg);
	return 0;
}

static const struct stream_backend inline_backend = {
	.name = "host",
	.apply = inline_apply,
	.write_word = inline_write_word,
	.scrub = inline_scrub,
	.copy = inline_copy,
	.move = inline_move,
	.synchronize = inline_synchronize,
	.launch_host = inline_launch,
};

/* ---- threaded -------------------------------------------------------------- */

static void job_run(struct stream *st, struct job *job)
{
	switch (job->kind) {
	case JOB_APPLY:
		stream_apply_cpu(&st->targets[job->group], (const struct swakv_update *)job->data, job->n);
		break;
	case JOB_WORD:
		store_release(&st->line->word, job->word);
		break;
	case JOB_SCRUB:
		stream_scrub_cpu(&st->targets[job->group], (const int32_t *)(const void *)job->data, job->n);
		break;
	case JOB_COPY:
		memcpy((void *)(uintptr_t)job->dst, job->data, job->n);
		break;
	case JOB_MOVE:
		stream_move_cpu(st, job->group, (const struct page_move *)(const void *)job->data, job->n);
		break;
	case JOB_LAUNCH:
		job->launch.fn(job->launch.arg);
		break;
	}
}

static void *worker_main(void *arg)
{
	struct stream *st = arg;
	struct worker *w = st->impl;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct job *job = STAILQ_FIRST(&w->jobs);

		if (!job) {
			w->busy = false;
			pthread_cond_broadcast(&w->idle);
			if (w->ending)
				break;
			pthread_cond_wait(&w->work, &w->lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&w->jobs, link);
		pthread_mutex_unlock(&w->lock);
		job_run(st, job);
		free(job);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static struct job *job_new(struct stream *st, enum job_kind kind, const void *data, size_t bytes, size_t n)
{
	struct job *job = malloc(sizeof(*job) + bytes);

	if (!job) {
		stream_fail(st, SWAKV_ENOMEM, "out of memory");
		return NULL;
	}
	job->kind = kind;
	job->n = n;
	if (bytes)
		memcpy(job->data, data, bytes);
	return job;
}

/* Takes @job over. */
static int worker_give(struct stream *st, struct job *job)
{
	struct worker *w = st->impl;

	pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->jobs, job, link);
	w->busy = true;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static int threaded_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct job *job = job_new(st, JOB_APPLY, updates, n * sizeof(*updates), n);

	if (!job)
		return SWAKV_ENOMEM;
	job->group = group;
	return worker_give(st, job);
}

static int threaded_write_word(struct stream *st, uint64_t value)
{
	struct job *job = job_new(st, JOB_WORD, NULL, 0, 0);

	if (!job)
		return SWAKV_ENOMEM;
	job->word = value;
	return worker_give(st, job);
}

static int threaded_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n)
{
	struct job *job = job_new(st, JOB_SCRUB, pages, n * sizeof(*pages), n);

	if (!job)
		return SWAKV_ENOMEM;
	job->group = group;
	return worker_give(st, job);
}

static int threaded_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes)
{
	struct job *job = job_new(st, JOB_COPY, src, bytes, bytes);

	if (!job)
		return SWAKV_ENOMEM;
	job->dst = dst;
	return worker_give(st, job);
}

static int threaded_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	struct job *job = job_new(st, JOB_MOVE, moves, n * sizeof(*moves), n);

	if (!job)
		return SWAKV_ENOMEM;
	job->group = group;
	return worker_give(st, job);
}

static int threaded_launch(struct stream *st, void (*fn)(void *arg), void *arg)
{
	struct job *job = job_new(st, JOB_LAUNCH, NULL, 0, 0);

	if (!job)
		return SWAKV_ENOMEM;
	job->launch.fn = fn;
	job->launch.arg = arg;
	return worker_give(st, job);
}

static int threaded_synchronize(struct stream *st)
{
	struct worker *w = st->impl;

	pthread_mutex_lock(&w->lock);
	while (w->busy)
		pthread_cond_wait(&w->idle, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static void threaded_deinit(struct stream *st)
{
	struct worker *w = st->impl;

	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->idle);
	pthread_cond_destroy(&w->work);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static const struct stream_backend threaded_backend = {
	.name = "host, threaded",
	.apply = threaded_apply,
	.write_word = threaded_write_word,
	.scrub = threaded_scrub,
	.copy = threaded_copy,
	.move = threaded_move,
	.synchronize = threaded_synchronize,
	.launch_host = threaded_launch,
	.deinit = threaded_deinit,
};

static int worker_start(struct stream *st)
{
	struct worker *w = calloc(1, sizeof(*w));
	sigset_t all, before;
	int r;

	if (!w)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	STAILQ_INIT(&w->jobs);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->idle, NULL);
	st->impl = w;
	/* Signals are for the caller's threads: a handler must not find itself on this one. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&w->thread, NULL, worker_main, st);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		st->impl = NULL;
		free(w);
		return stream_fail(st, SWAKV_ESYSTEM, "no thread could be started: %s", strerror(r));
	}
	return 0;
}

int stream_bind_host(struct stream *st, bool threaded)
{
	int r;

	if (st->backend)
		return stream_fail(st, SWAKV_EBUSY, "it is bound already (%s)", st->backend->name);
	if (!threaded) {
		st->backend = &inline_backend;
		return 0;
	}
	r = worker_start(st);
	if (r == 0)
		st->backend = &threaded_backend;
	return r;
}
