/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_graph.c - table updates of steps that are replayed from a graph
 *
 * A captured apply cannot have its updates in the parameters, nor in one fixed
 * buffer, which the next step would overwrite while this one waits to run. So
 * there is a ring of them in registered host memory, one more than steps may be
 * in flight, and the kernel takes the one of its step, which the count of the
 * stream tells. A buffer is used again only when the word shows that the step
 * before it in the same place has ended.
 *
 * A buffer says whose updates it holds, so a step without any needs no visit.
 * The threads of one launch have no order: a cell comes once in a buffer, and
 * what comes later for it takes the place of what came before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"
#include "kernels.h"
#include "stream_cuda.h"

struct graph {
	struct kernel_ring_buffer *ring; /* [n] */
	size_t bytes;
	uint64_t device; /* the ring as kernels see it; 0: not registered */
	uint32_t n;
	bool on;
};

/* ---- the ring -------------------------------------------------------------------- */

static int graph_launch_apply(struct stream *st, struct cuda *c)
{
	const struct kernel_apply_ring p = {
		.table = st->target.table,
		.ring = c->graph->device,
		.counter = c->counter,
		.width = st->target.width,
		.num_pages = st->target.num_pages,
		.n_buffers = c->graph->n,
	};

	return driver_run_apply_ring(st->driver, c->stream, &p) < 0 ? cuda_fail(st) : 0;
}

static int ring_map(struct stream *st, struct graph *g)
{
	void *p = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return stream_fail(st, SWAKV_ENOMEM, "no memory for %u buffers: %s", g->n, strerror(errno));
	g->ring = p;
	(void)madvise(p, g->bytes, MADV_DONTFORK);
	if (driver_host_register(st->driver, p, g->bytes, &g->device) < 0) {
		g->device = 0;
		return cuda_fail(st);
	}
	return 0;
}

int graph_init(struct stream *st, struct cuda *c, uint32_t steps)
{
	struct graph *g;
	int r;

	if (c->writer != SWAKV_WRITER_COUNTER)
		return stream_fail(
			st, SWAKV_EINVALID,
			"steps can be replayed only where the counter writes the word (SWAKV_WRITER_COUNTER)");
	if (steps > SWAKV_MAX_GRAPH_STEPS)
		return stream_fail(st, SWAKV_EINVALID, "%u steps in flight are more than %d", steps,
				   SWAKV_MAX_GRAPH_STEPS);
	g = calloc(1, sizeof(*g));
	if (!g)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	g->n = steps + 1;
	g->bytes = (g->n * sizeof(*g->ring) + 4095) / 4096 * 4096;
	c->graph = g;
	r = ring_map(st, g);
	/* Of no step yet, so this does nothing: but the kernel is loaded before any capture. */
	if (r == 0)
		r = graph_launch_apply(st, c);
	if (r == 0 && driver_stream_synchronize(st->driver, c->stream) < 0)
		r = cuda_fail(st);
	if (r < 0)
		graph_deinit(st, c);
	return r;
}

void graph_deinit(struct stream *st, struct cuda *c)
{
	struct graph *g = c->graph;

	if (!g)
		return;
	if (g->device)
		(void)driver_host_unregister(st->driver, g->ring);
	if (g->ring)
		munmap(g->ring, g->bytes);
	free(g);
	c->graph = NULL;
}

bool graph_is_on(const struct cuda *c)
{
	return c->graph && c->graph->on;
}

/* The buffer of the next step, empty unless something was put there before. NULL: the stream has failed. */
static struct kernel_ring_buffer *graph_buffer(struct stream *st, struct cuda *c)
{
	uint64_t step = st->marked + 1;
	struct kernel_ring_buffer *b = &c->graph->ring[step % c->graph->n];

	if (b->step == step)
		return b;
	if (step > c->graph->n && load_acquire(&st->line->word) < step - c->graph->n &&
	    driver_stream_synchronize(st->driver, c->stream) < 0) {
		cuda_fail(st);
		return NULL;
	}
	b->n_updates = 0;
	__atomic_store_n(&b->step, step, __ATOMIC_RELEASE); /* its kernel runs after a launch that is still to come */
	return b;
}

static void buffer_put(struct stream *st, struct kernel_ring_buffer *b, const struct swakv_update *u, uint32_t before)
{
	uint32_t cell = (uint32_t)u->slot * (uint32_t)st->target.width + (uint32_t)u->column, i = 0;

	while (i < before && b->updates[i].cell != cell)
		i++;
	if (i == before)
		i = b->n_updates++;
	b->updates[i] = (struct kernel_update){ cell, u->page };
}

int graph_flush(struct stream *st, struct cuda *c)
{
	struct kernel_ring_buffer *b;
	struct kernel_apply p;

	if (!c->graph)
		return 0;
	b = &c->graph->ring[(st->marked + 1) % c->graph->n];
	if (b->step != st->marked + 1 || b->n_updates == 0)
		return 0;
	p.table = st->target.table;
	p.width = st->target.width;
	p.num_pages = st->target.num_pages;
	p.reserved = 0;
	p.n_updates = b->n_updates;
	memcpy(p.updates, b->updates, b->n_updates * sizeof(p.updates[0]));
	b->n_updates = 0;
	return driver_run_apply(st->driver, c->stream, &p) < 0 ? cuda_fail(st) : 0;
}

int graph_apply(struct stream *st, struct cuda *c, const struct swakv_update *updates, size_t n)
{
	struct kernel_ring_buffer *b = graph_buffer(st, c);
	uint32_t before;

	if (!b)
		return SWAKV_EDEVICE;
	before = b->n_updates;
	if (n > KERNEL_APPLY_MAX - before) {
		/* All of it goes ahead of the replay, in the order in which it came. */
		int r = graph_flush(st, c);

		return r < 0 ? r : cuda_launch_apply(st, updates, n);
	}
	for (size_t i = 0; i < n; i++)
		buffer_put(st, b, &updates[i], before);
	return 0;
}

/* ---- for the caller ----------------------------------------------------------------- */

static struct cuda *graph_stream(struct stream *st, int *r)
{
	struct cuda *c = stream_is_cuda(st) ? st->impl : NULL;

	*r = 0;
	if (!c || !c->graph)
		*r = stream_fail(
			st, SWAKV_EPHASE,
			"its steps are not to be replayed: bind it with swakv_stream_bind_cuda2() and graph_steps");
	return *r == 0 ? c : NULL;
}

static int graph_check_capture(struct stream *st, struct cuda *c)
{
	bool capturing;

	if (driver_stream_is_capturing(st->driver, c->stream, &capturing) < 0)
		return cuda_fail(st);
	return capturing ? 0 : stream_fail(st, SWAKV_EPHASE, "it is not capturing a graph");
}

int stream_capture_begin(struct stream *st)
{
	int r;
	struct cuda *c = graph_stream(st, &r);

	if (r == 0)
		r = graph_check_capture(st, c);
	return r < 0 ? r : graph_launch_apply(st, c);
}

int stream_capture_end(struct stream *st)
{
	int r;
	struct cuda *c = graph_stream(st, &r);

	if (r == 0)
		r = graph_check_capture(st, c);
	return r < 0 ? r : writer_write(st, c, 0);
}

int stream_set_replay(struct stream *st, bool on)
{
	int r;
	struct cuda *c = graph_stream(st, &r);

	if (r == 0 && c->graph->on && !on)
		r = graph_flush(st, c);
	if (r == 0)
		c->graph->on = on;
	return r;
}

int stream_replay(struct stream *st, void *exec)
{
	int r;
	struct cuda *c = graph_stream(st, &r);

	if (r < 0)
		return r;
	if (!exec)
		return stream_fail(st, SWAKV_EINVALID, "no graph was given");
	c->replay = exec;
	r = stream_mark(st);
	c->replay = NULL;
	return r;
}

bool stream_awaits_replay(const struct stream *st)
{
	const struct cuda *c = stream_is_cuda(st) ? st->impl : NULL;
	const struct kernel_ring_buffer *b;

	if (!c || !graph_is_on(c))
		return false;
	b = &c->graph->ring[(st->marked + 1) % c->graph->n];
	return b->step == st->marked + 1 && b->n_updates > 0;
}
