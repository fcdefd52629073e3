/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int32_t *cell(struct gpu *g, uint32_t group, int32_t slot, int32_t column)
{
	return &g->tables[group][(int64_t)slot * g->geometry[group].width + column];
}

void gpu_init(struct gpu *g, struct world *w, uint32_t worker, const struct model *m, const struct geometry *geometry,
	      struct wire_line *lines)
{
	*g = (struct gpu){ .world = w, .worker = worker, .n_groups = m->n_groups, .n_streams = m->n_streams };
	memcpy(g->geometry, geometry, sizeof(g->geometry));
	for (uint32_t i = 0; i < m->n_groups; i++) {
		size_t bytes = (size_t)m->max_batch * (size_t)geometry[i].width * sizeof(int32_t);

		g->tables[i] = malloc(bytes);
		memset(g->tables[i], 0xff, bytes);
	}
	for (uint32_t i = 0; i < m->n_streams; i++) {
		STAILQ_INIT(&g->streams[i].ops);
		g->streams[i].gpu = g;
		g->streams[i].line = &lines[i];
	}
}

/* ---- what work does --------------------------------------------------------------- */

static void do_scrub(struct gpu *g, const struct gpu_op *op)
{
	for (uint32_t i = 0; i < op->n; i++)
		memory_write(&g->world->memory, &g->geometry[op->updates[i].group], op->updates[i].page, 0);
}

/* What is there at the end has been there all the time, or what reads the copy finds it. */
static void do_copy(struct gpu *g, const struct gpu_op *op)
{
	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_update *u = &op->updates[i];
		uint64_t found;

		if (!memory_is_own(&g->world->memory, &g->geometry[u->group], u->from, g->worker, &found))
			world_break(g->world,
				    "worker %u, group %u: page %d, which moves to %d, holds what worker %u wrote",
				    g->worker, u->group, u->from, u->page, memory_tag_worker(found));
		memory_copy(&g->world->memory, &g->geometry[u->group], u->from, u->page);
	}
}

static void do_apply(struct gpu *g, const struct gpu_op *op)
{
	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_update *u = &op->updates[i];

		*cell(g, u->group, u->slot, u->column) = u->page;
	}
}

/* What another process left in the pages that a kernel is about to write must have been scrubbed before. */
static void check_clean(struct gpu *g, const struct gpu_op *op)
{
	const int32_t *page = op->pages;
	uint64_t found;

	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_part *p = &op->parts[i];

		page += p->read_end - p->read;
		for (int32_t c = p->write; c < p->write_end; c++, page++)
			if (!memory_is_own(&g->world->memory, &g->geometry[p->group], *page, g->worker, &found))
				world_break(g->world,
					    "page %d of group %u was bound by worker %u and not called dirty: worker "
					    "%u wrote it",
					    *page, p->group, g->worker, memory_tag_worker(found));
	}
}

/* Reads and writes the pages that the kernel found; @found[i] are those of part i. */
static void touch(struct gpu *g, const struct gpu_op *op, const char *when)
{
	const int32_t *page = op->pages;
	uint64_t found;

	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_part *p = &op->parts[i];

		for (int32_t c = p->read; c < p->read_end; c++, page++)
			if (!memory_is(&g->world->memory, &g->geometry[p->group], *page,
				       memory_tag(g->worker, p->uid, p->group, c), &found))
				world_break(g->world,
					    "worker %u, sequence %u, group %u: column %d lies in page %d, which at the "
					    "%s of a "
					    "kernel holds what worker %u wrote (%#" PRIx64 ")",
					    g->worker, p->uid, p->group, c, *page, when, memory_tag_worker(found),
					    found);
		for (int32_t c = p->write; c < p->write_end; c++, page++)
			memory_write(&g->world->memory, &g->geometry[p->group], *page,
				     memory_tag(g->worker, p->uid, p->group, c));
	}
}

/* Reads and writes pages that the worker manages. */
static void use_pages(struct gpu *g, const struct gpu_op *op, bool ends)
{
	struct memory *m = &g->world->memory;

	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_use *u = &op->uses[i];
		const struct geometry *of = &g->geometry[u->group];
		uint32_t uid = ends ? u->after : u->before;
		uint64_t found = 0;

		if (uid || u->clean
			    ? !memory_is(m, of, u->page, uid ? memory_tag(g->worker, uid, u->group, 0) : 0, &found)
			    : !memory_is_own(m, of, u->page, g->worker, &found))
			world_break(
				g->world,
				"worker %u, group %u: page %d, which it has taken, holds at the %s of a kernel what "
				"worker %u wrote (%#" PRIx64 ")",
				g->worker, u->group, u->page, ends ? "end" : "start", memory_tag_worker(found), found);
		memory_write(m, of, u->page, memory_tag(g->worker, u->after, u->group, 0));
	}
}

/* False: the table lacks a page that the kernel needs. */
static bool find_pages(struct gpu *g, struct gpu_op *op)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < op->n; i++)
		n += (uint32_t)(op->parts[i].read_end - op->parts[i].read + op->parts[i].write_end -
				op->parts[i].write);
	op->pages = malloc((n + 1) * sizeof(*op->pages));
	n = 0;
	for (uint32_t i = 0; i < op->n; i++) {
		const struct gpu_part *p = &op->parts[i];
		uint32_t from = n;

		for (int32_t c = p->read; c < p->read_end; c++)
			op->pages[n++] = *cell(g, p->group, p->slot, c);
		for (int32_t c = p->write; c < p->write_end; c++)
			op->pages[n++] = *cell(g, p->group, p->slot, c);
		for (int32_t k = 0; k < (int32_t)n; k++)
			if (op->pages[k] < 0 ||
			    (k >= (int32_t)from &&
			     !memory_has(&g->world->memory, &g->geometry[p->group], op->pages[k]))) {
				world_break(
					g->world,
					"worker %u, sequence %u, group %u: slot %d lacks a page of columns %d to %d "
					"or %d to %d in the device table",
					g->worker, p->uid, p->group, p->slot, p->read, p->read_end - 1, p->write,
					p->write_end - 1);
				return false;
			}
	}
	return true;
}

static void op_begin(struct gpu_stream *s, struct gpu_op *op)
{
	if (op->kind == GPU_USE)
		use_pages(s->gpu, op, false);
	if (op->kind != GPU_KERNEL || !find_pages(s->gpu, op))
		return;
	check_clean(s->gpu, op);
	touch(s->gpu, op, "start");
}

static void op_end(struct gpu_stream *s, struct gpu_op *op)
{
	switch (op->kind) {
	case GPU_SCRUB:
		do_scrub(s->gpu, op);
		break;
	case GPU_COPY:
		do_copy(s->gpu, op);
		break;
	case GPU_APPLY:
		do_apply(s->gpu, op);
		break;
	case GPU_KERNEL:
		if (op->pages)
			touch(s->gpu, op, "end");
		s->gpu->world->kernels++;
		break;
	case GPU_USE:
		use_pages(s->gpu, op, true);
		s->gpu->world->kernels++;
		break;
	case GPU_MARK:
		store_release(&s->line->word, op->value);
		break;
	}
}

static void op_free(struct gpu_op *op)
{
	switch (op->kind) {
	case GPU_SCRUB:
	case GPU_COPY:
	case GPU_APPLY:
		free(op->updates);
		break;
	case GPU_KERNEL:
		free(op->parts);
		break;
	case GPU_USE:
		free(op->uses);
		break;
	case GPU_MARK:
		break;
	}
	free(op->pages);
	free(op);
}

/* ---- streams ----------------------------------------------------------------------- */

static void stream_next(struct gpu_stream *s)
{
	struct gpu_op *op = STAILQ_FIRST(&s->ops);

	s->running = op != NULL;
	if (!op)
		return;
	op_begin(s, op);
	if (!s->hangs)
		event_at(&s->gpu->world->events, &s->end, s->gpu->world->now + op->ns);
}

static void on_end(void *arg)
{
	struct gpu_stream *s = arg;
	struct gpu_op *op = STAILQ_FIRST(&s->ops);

	op_end(s, op);
	STAILQ_REMOVE_HEAD(&s->ops, link);
	s->n_ops--;
	op_free(op);
	stream_next(s);
}

static void enqueue(struct gpu *g, uint32_t stream, struct gpu_op op)
{
	struct gpu_stream *s = &g->streams[stream];
	struct gpu_op *own = malloc(sizeof(*own));

	*own = op;
	s->end = (struct event){ .run = on_end, .arg = s, .token = s->end.token };
	STAILQ_INSERT_TAIL(&s->ops, own, link);
	s->n_ops++;
	if (!s->running)
		stream_next(s);
}

static uint64_t draw_ns(struct gpu *g, uint64_t most)
{
	uint64_t ns = (uint64_t)rng_between(&g->world->rng, 1, (int64_t)most);

	return world_fault(g->world, SIM_LATE) ? ns * 200 : ns;
}

void gpu_scrub(struct gpu *g, uint32_t stream, struct gpu_update *pages, uint32_t n)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_SCRUB, .updates = pages, .n = n, .ns = draw_ns(g, 3000) });
}

void gpu_copy(struct gpu *g, uint32_t stream, struct gpu_update *pages, uint32_t n, uint64_t ns)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_COPY, .updates = pages, .n = n, .ns = draw_ns(g, ns) });
}

void gpu_apply(struct gpu *g, uint32_t stream, struct gpu_update *updates, uint32_t n)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_APPLY, .updates = updates, .n = n, .ns = draw_ns(g, 2000) });
}

void gpu_kernel(struct gpu *g, uint32_t stream, struct gpu_part *parts, uint32_t n, uint64_t ns)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_KERNEL, .parts = parts, .n = n, .ns = draw_ns(g, ns) });
}

void gpu_use(struct gpu *g, uint32_t stream, struct gpu_use *uses, uint32_t n, uint64_t ns)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_USE, .uses = uses, .n = n, .ns = draw_ns(g, ns) });
}

void gpu_mark(struct gpu *g, uint32_t stream, uint64_t value)
{
	enqueue(g, stream, (struct gpu_op){ .kind = GPU_MARK, .value = value, .ns = draw_ns(g, 500) });
}

void gpu_hang(struct gpu *g, uint32_t stream)
{
	g->streams[stream].hangs = true;
	event_cancel(&g->streams[stream].end);
}

void gpu_gone(struct gpu *g)
{
	for (uint32_t i = 0; i < g->n_streams; i++) {
		struct gpu_stream *s = &g->streams[i];
		struct gpu_op *op;

		event_cancel(&s->end);
		while ((op = STAILQ_FIRST(&s->ops))) {
			STAILQ_REMOVE_HEAD(&s->ops, link);
			op_free(op);
		}
		s->running = false;
	}
}

void gpu_free(struct gpu *g)
{
	gpu_gone(g);
	for (uint32_t i = 0; i < g->n_streams; i++)
		events_forget(&g->world->events, &g->streams[i].end);
	for (uint32_t i = 0; i < g->n_groups; i++)
		free(g->tables[i]);
}
