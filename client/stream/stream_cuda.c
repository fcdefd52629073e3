/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_cuda.c - streams of the CUDA backend
 *
 * Updates travel in the parameters of the apply kernel, so they need no memory
 * that must outlive the launch. A device mapping is copied from memory that the
 * copy may still read later: it is kept until the line's word has passed the
 * mark that lies behind it.
 */
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "stream_cuda.h"

struct staging {
	STAILQ_ENTRY(staging) link;
	uint64_t until; /* value of the line that proves the copy has ended */
	unsigned char data[];
};

int cuda_fail(struct stream *st)
{
	return stream_fail(st, SWAKV_EDEVICE, "%s", driver_why(st->driver));
}

int cuda_launch_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	const struct stream_target *target = &st->targets[group];
	struct cuda *c = st->impl;
	struct kernel_apply p;

	p.table = target->table;
	p.width = target->width;
	p.num_pages = target->num_pages;
	p.joined = target->joined;
	for (size_t i = 0; i < n; i += p.n_updates) {
		p.n_updates = n - i < KERNEL_APPLY_MOST ? (uint32_t)(n - i) : KERNEL_APPLY_MOST;
		for (uint32_t k = 0; k < p.n_updates; k++) {
			const struct swakv_update *u = &updates[i + k];

			p.updates[k].cell = (uint32_t)u->slot * (uint32_t)target->width + (uint32_t)u->column;
			p.updates[k].page = u->page;
		}
		if (driver_run_apply(st->driver, c->stream, &p) < 0)
			return cuda_fail(st);
	}
	return 0;
}

static int cuda_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct cuda *c = st->impl;

	return graph_is_on(c) ? graph_apply(st, c, group, updates, n) : cuda_launch_apply(st, group, updates, n);
}

static int scrub_part(void *arg, const struct kernel_scrub *p)
{
	struct stream *st = arg;
	struct cuda *c = st->impl;

	return driver_run_scrub(st->driver, c->stream, p) < 0 ? cuda_fail(st) : 0;
}

static int cuda_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n)
{
	return stream_scrub_parts(&st->targets[group], pages, n, scrub_part, st);
}

static void cuda_drop_staged(struct stream *st, bool all)
{
	struct cuda *c = st->impl;
	uint64_t word = load_acquire(&st->line->word);
	struct staging *s;

	while ((s = STAILQ_FIRST(&c->staged)) && (all || s->until <= word)) {
		STAILQ_REMOVE_HEAD(&c->staged, link);
		free(s);
	}
}

/* The word is written by the graph that is launched, or by a step that is none: then its updates go first. */
static int cuda_write_word(struct stream *st, uint64_t value)
{
	struct cuda *c = st->impl;
	int r;

	cuda_drop_staged(st, false);
	if (c->replay)
		return driver_graph_launch(st->driver, c->replay, c->stream) < 0 ? cuda_fail(st) : 0;
	r = graph_flush(st, c);
	return r < 0 ? r : writer_write(st, c, value);
}

static int cuda_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes)
{
	struct cuda *c = st->impl;
	struct staging *s = malloc(sizeof(*s) + bytes);

	if (!s)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	memcpy(s->data, src, bytes);
	s->until = st->marked + 1; /* the next mark is enqueued behind this copy */
	STAILQ_INSERT_TAIL(&c->staged, s, link);
	return driver_copy_to_device(st->driver, c->stream, dst, s->data, bytes) < 0 ? cuda_fail(st) : 0;
}

static int copy_share(struct stream *st, uint64_t dst, uint64_t src, size_t bytes)
{
	struct cuda *c = st->impl;

	return driver_copy(st->driver, c->stream, dst, src, bytes) < 0 ? cuda_fail(st) : 0;
}

/* At once also where updates wait for a replay: that is launched later. */
static int cuda_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	return stream_move_parts(st, group, moves, n, copy_share);
}

static int cuda_synchronize(struct stream *st)
{
	struct cuda *c = st->impl;

	if (driver_stream_synchronize(st->driver, c->stream) < 0)
		return cuda_fail(st);
	cuda_drop_staged(st, true);
	return 0;
}

/* A stream that could not be synchronised keeps its staging memory: a copy may still read it. */
static void cuda_deinit(struct stream *st)
{
	struct cuda *c = st->impl;

	if (st->failed)
		return;
	cuda_drop_staged(st, true);
	graph_deinit(st, c);
	writer_deinit(st, c);
	if (c->owned)
		(void)driver_stream_destroy(st->driver, c->stream);
	free(c);
}

static const struct stream_backend cuda_backend = {
	.name = "CUDA",
	.apply = cuda_apply,
	.write_word = cuda_write_word,
	.scrub = cuda_scrub,
	.copy = cuda_copy,
	.move = cuda_move,
	.synchronize = cuda_synchronize,
	.deinit = cuda_deinit,
};

bool stream_is_cuda(const struct stream *st)
{
	return st->backend == &cuda_backend;
}

static int cuda_init(struct stream *st, struct cuda *c, const struct swakv_cuda_options *o)
{
	int r;

	c->stream = o->cu_stream;
	if (!c->stream) {
		if (driver_stream_create(st->driver, &c->stream) < 0)
			return cuda_fail(st);
		c->owned = true;
	}
	r = writer_init(st, c, o->writer);
	if (r == 0 && o->graph_steps)
		r = graph_init(st, c, o->graph_steps);
	if (r == 0)
		return 0;
	writer_deinit(st, c);
	if (c->owned)
		(void)driver_stream_destroy(st->driver, c->stream);
	return r;
}

int stream_bind_cuda(struct stream *st, const struct swakv_cuda_options *options)
{
	struct cuda *c;
	int r;

	if (st->backend)
		return stream_fail(st, SWAKV_EBUSY, "it is bound already (%s)", st->backend->name);
	if (!st->driver)
		return stream_fail(st, SWAKV_EUNSUPPORTED, "the session's pool is on the host backend");
	if (driver_load_image(st->driver, &kernel_image_table) < 0)
		return stream_fail(st, SWAKV_EUNSUPPORTED, "%s", driver_why(st->driver));
	c = calloc(1, sizeof(*c));
	if (!c)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	STAILQ_INIT(&c->staged);
	r = cuda_init(st, c, options);
	if (r < 0) {
		free(c);
		return r;
	}
	st->impl = c;
	st->backend = &cuda_backend;
	return 0;
}

void *stream_cuda_handle(const struct stream *st)
{
	const struct cuda *c = st->impl;

	return stream_is_cuda(st) ? c->stream : NULL;
}
