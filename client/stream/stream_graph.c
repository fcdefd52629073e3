/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_graph.c - table updates of steps that are replayed from a graph
 *
 * A captured apply cannot have its updates in the parameters, nor in one fixed
 * buffer, which the next step would overwrite while this one waits to run. So
 * there is a ring of them for each layer group, in registered host memory, one
 * more than steps may be in flight, and the kernel takes the one of its step,
 * which the count of the stream tells. A buffer is used again only when the word
 * shows that the step before it in the same place has ended.
 *
 * A buffer says whose updates it holds, so a step without any needs no visit.
 * The threads of one launch have no order: a cell comes once in a buffer, and
 * what comes later for it takes the place of what came before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "launch.h"
#include "stream_cuda.h"

struct graph {
	struct kernel_ring_buffer *rings; /* [n_groups][n] */
	size_t bytes;
	uint64_t device; /* the rings as kernels see them; 0: not registered */
	uint32_t n;
	bool on;
};

/* ---- the ring -------------------------------------------------------------------- */

/* The buffer that step @step has in the ring of @group. */
static struct kernel_ring_buffer *graph_place(const struct graph *g, uint32_t group, uint64_t step)
{
	return &g->rings[(size_t)group * g->n + step % g->n];
}

/* One launch a group: each has a table of its own. */
static int graph_launch_apply(struct stream *st, struct cuda *c)
{
	for (uint32_t i = 0; i < st->n_groups; i++) {
		const struct kernel_apply_ring p = {
			.table = st->targets[i].table,
			.ring = c->graph->device + (uint64_t)i * c->graph->n * sizeof(struct kernel_ring_buffer),
			.counter = c->counter,
			.width = st->targets[i].width,
			.num_pages = st->targets[i].num_pages,
			.n_buffers = c->graph->n,
			.joined = st->targets[i].joined,
		};

		if (driver_run_apply_ring(st->driver, c->stream, &p) < 0)
			return cuda_fail(st);
	}
	return 0;
}

static int ring_map(struct stream *st, struct graph *g)
{
	void *p = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return stream_fail(st, SWAKV_ENOMEM, "no memory for %u buffers: %s", g->n, strerror(errno));
	g->rings = p;
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
		return stream_fail(st, SWAKV_EINVALID,
				   "steps can be replayed only if the counter writes the word (SWAKV_WRITER_COUNTER)");
	if (steps > SWAKV_MAX_GRAPH_STEPS)
		return stream_fail(st, SWAKV_EINVALID, "%u steps in flight are more than %d", steps,
				   SWAKV_MAX_GRAPH_STEPS);
	g = calloc(1, sizeof(*g));
	if (!g)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	g->n = steps + 1;
	g->bytes = ((size_t)st->n_groups * g->n * sizeof(*g->rings) + 4095) / 4096 * 4096;
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
		(void)driver_host_unregister(st->driver, g->rings);
	if (g->rings)
		munmap(g->rings, g->bytes);
	free(g);
	c->graph = NULL;
}

bool graph_is_on(const struct cuda *c)
{
	return c->graph && c->graph->on;
}

/* The buffer of @group for the next step, empty unless something was put there before. NULL: the stream has failed. */
static struct kernel_ring_buffer *graph_buffer(struct stream *st, struct cuda *c, uint32_t group)
{
	uint64_t step = st->marked + 1;
	struct kernel_ring_buffer *b = graph_place(c->graph, group, step);

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

static void buffer_put(struct kernel_ring_buffer *b, int32_t width, const struct swakv_update *u, uint32_t before)
{
	uint32_t cell = (uint32_t)u->slot * (uint32_t)width + (uint32_t)u->column, i = 0;

	while (i < before && b->updates[i].cell != cell)
		i++;
	if (i == before)
		i = b->n_updates++;
	b->updates[i] = (struct kernel_update){ cell, u->page };
}

static bool buffer_waits(const struct graph *g, uint32_t group, uint64_t step)
{
	const struct kernel_ring_buffer *b = graph_place(g, group, step);

	return b->step == step && b->n_updates > 0;
}

static int buffer_flush(struct stream *st, struct cuda *c, uint32_t group)
{
	struct kernel_ring_buffer *b = graph_place(c->graph, group, st->marked + 1);
	struct kernel_apply p;

	if (!buffer_waits(c->graph, group, st->marked + 1))
		return 0;
	p.table = st->targets[group].table;
	p.width = st->targets[group].width;
	p.num_pages = st->targets[group].num_pages;
	p.joined = st->targets[group].joined;
	p.n_updates = b->n_updates;
	memcpy(p.updates, b->updates, b->n_updates * sizeof(p.updates[0]));
	b->n_updates = 0;
	return driver_run_apply(st->driver, c->stream, &p) < 0 ? cuda_fail(st) : 0;
}

int graph_flush(struct stream *st, struct cuda *c)
{
	int r = 0;

	for (uint32_t i = 0; c->graph && r == 0 && i < st->n_groups; i++)
		r = buffer_flush(st, c, i);
	return r;
}

int graph_apply(struct stream *st, struct cuda *c, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct kernel_ring_buffer *b = graph_buffer(st, c, group);
	uint32_t before;

	if (!b)
		return SWAKV_EDEVICE;
	before = b->n_updates;
	if (n > KERNEL_APPLY_MAX - before) {
		/* All of it goes ahead of the replay, in the order in which it came. */
		int r = buffer_flush(st, c, group);

		return r < 0 ? r : cuda_launch_apply(st, group, updates, n);
	}
	for (size_t i = 0; i < n; i++)
		buffer_put(b, st->targets[group].width, &updates[i], before);
	return 0;
}

/* ---- for the caller ----------------------------------------------------------------- */

static struct cuda *graph_stream(struct stream *st, int *r)
{
	struct cuda *c = stream_is_cuda(st) ? st->impl : NULL;

	*r = 0;
	if (!c || !c->graph)
		*r = stream_fail(st, SWAKV_EPHASE,
				 "it is not bound for replay: bind it with swakv_stream_bind_cuda2() and graph_steps");
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

bool stream_is_replayed(const struct stream *st)
{
	return stream_is_cuda(st) && graph_is_on(st->impl);
}

bool stream_awaits_replay(const struct stream *st)
{
	const struct cuda *c = stream_is_replayed(st) ? st->impl : NULL;
	bool waits = false;

	for (uint32_t i = 0; c && i < st->n_groups; i++)
		waits |= buffer_waits(c->graph, i, st->marked + 1);
	return waits;
}
