/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - arming and marking, whatever the backend
 *
 * The broker takes a session's pages back without further proof when every
 * armed value has been reached. So `armed` is stored before the first piece of
 * a step is enqueued and stays above the word until the step's own mark has
 * executed. One mark may lie between two steps of one stream (two requests
 * prepared, one marked): then the line is armed anew before the first write is
 * enqueued, for the step that is still to be enqueued or marked.
 */
#include "stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels.h"

void stream_init(struct stream *st, uint32_t index, struct wire_line *line, const struct stream_target *targets,
		 uint32_t n_groups)
{
	*st = (struct stream){ .index = index, .line = line, .targets = targets, .n_groups = n_groups };
	st->armed = st->marked = load_relaxed(&line->armed);
}

void stream_deinit(struct stream *st)
{
	if (st->backend && st->backend->deinit)
		st->backend->deinit(st);
	st->backend = NULL;
	st->impl = NULL;
}

int stream_fail(struct stream *st, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(st->why, sizeof(st->why), format, args);
	va_end(args);
	return code;
}

static void stream_store_armed(struct stream *st, uint64_t value)
{
	st->armed = value;
	store_release(&st->line->armed, value);
}

bool stream_arm(struct stream *st)
{
	if (st->armed > st->marked)
		return false;
	stream_store_armed(st, st->marked + 1);
	return true;
}

int stream_mark(struct stream *st)
{
	uint64_t value = st->marked + 1;
	uint64_t arm = value + (st->n_prepared > 1);

	if (arm > st->armed)
		stream_store_armed(st, arm);
	if (st->failed)
		return SWAKV_EDEVICE;
	if (st->backend->write_word(st, value) < 0) {
		st->failed = true;
		return SWAKV_EDEVICE;
	}
	st->marked = value;
	return 0;
}

int stream_mark_if_armed(struct stream *st)
{
	return st->backend && st->armed > st->marked ? stream_mark(st) : 0;
}

int stream_apply(struct stream *st, uint32_t group, const struct swakv_update *updates, size_t n)
{
	if (n == 0)
		return 0;
	if (st->failed)
		return SWAKV_EDEVICE;
	if (st->backend->apply(st, group, updates, n) < 0) {
		st->failed = true;
		return SWAKV_EDEVICE;
	}
	return 0;
}

int stream_scrub(struct stream *st, uint32_t group, const int32_t *pages, size_t n)
{
	if (n == 0)
		return 0;
	if (st->failed)
		return SWAKV_EDEVICE;
	if (st->backend->scrub(st, group, pages, n) < 0) {
		st->failed = true;
		return SWAKV_EDEVICE;
	}
	return 0;
}

int stream_copy(struct stream *st, uint64_t dst, const void *src, size_t bytes)
{
	if (bytes == 0)
		return 0;
	if (st->failed)
		return SWAKV_EDEVICE;
	if (st->backend->copy(st, dst, src, bytes) < 0) {
		st->failed = true;
		return SWAKV_EDEVICE;
	}
	return 0;
}

bool stream_can_move(const struct stream *st)
{
	return !st->fixed;
}

int stream_move(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	if (n == 0)
		return 0;
	if (st->failed)
		return SWAKV_EDEVICE;
	if (st->backend->move(st, group, moves, n) < 0) {
		st->failed = true;
		return SWAKV_EDEVICE;
	}
	return 0;
}

int stream_synchronize(struct stream *st)
{
	if (!st->backend)
		return 0;
	st->failed = st->backend->synchronize(st) < 0;
	return st->failed ? SWAKV_EDEVICE : 0;
}

void stream_apply_cpu(const struct stream_target *target, const struct swakv_update *updates, size_t n)
{
	int32_t *table = (int32_t *)(uintptr_t)target->table;
	int64_t width = target->width, v = target->joined ? 0 : width, row_cells = v + width;
	int32_t more = target->joined ? 0 : target->num_pages;

	for (size_t i = 0; i < n; i++) {
		int32_t page = updates[i].page, *k = table + row_cells * updates[i].slot + updates[i].column;

		k[0] = page;
		k[v] = page < 0 ? -1 : page + more;
	}
}

int stream_scrub_parts(const struct stream_target *target, const int32_t *pages, size_t n,
		       int (*launch)(void *arg, const struct kernel_scrub *p), void *arg)
{
	struct kernel_scrub p = { .pages = { .half = { target->first_page, target->v_half },
					     .page_stride = target->page_stride,
					     .num_pages = target->num_pages,
					     .joined = target->joined } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i += (size_t)p.n_pages) {
		p.n_pages = n - i < KERNEL_SCRUB_MAX ? (int32_t)(n - i) : KERNEL_SCRUB_MAX;
		memcpy(p.list, pages + i, (size_t)p.n_pages * sizeof(*pages));
		r = launch(arg, &p);
	}
	return r;
}

int stream_move_parts(struct stream *st, uint32_t group, const struct page_move *moves, size_t n,
		      int (*copy)(struct stream *st, uint64_t dst, uint64_t src, size_t bytes))
{
	const struct stream_target *t = &st->targets[group];
	const uint64_t shares[] = { t->first_page, t->v_half };
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		for (int k = 0; r == 0 && k < (t->joined ? 1 : 2); k++)
			r = copy(st, shares[k] + (uint64_t)moves[i].to * t->page_stride,
				 shares[k] + (uint64_t)moves[i].from * t->page_stride, t->page_stride);
	return r;
}

static int copy_cpu(struct stream *st, uint64_t dst, uint64_t src, size_t bytes)
{
	memcpy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	return 0;
}

void stream_move_cpu(struct stream *st, uint32_t group, const struct page_move *moves, size_t n)
{
	(void)stream_move_parts(st, group, moves, n, copy_cpu);
}

static int scrub_part_cpu(void *arg, const struct kernel_scrub *p)
{
	kernel_scrub_cpu(p);
	return 0;
}

void stream_scrub_cpu(const struct stream_target *target, const int32_t *pages, size_t n)
{
	(void)stream_scrub_parts(target, pages, n, scrub_part_cpu, NULL);
}
