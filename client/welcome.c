/* SPDX-License-Identifier: Apache-2.0 */
/*
 * welcome.c - see welcome.h
 *
 * The broker is trusted with the pages, but a broker of another version or a
 * damaged one must give a sentence, not a fault in somebody's decode loop. So
 * whatever is an offset lies inside of what it is an offset into, and whatever
 * follows from the model agrees with it.
 */
#include "welcome.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include <swakv/error.h>

#include "page_shape.h"

static bool inside(uint64_t offset, uint64_t bytes, uint64_t total, uint64_t align)
{
	return offset % align == 0 && offset <= total && bytes <= total - offset;
}

static int impossible(struct text *why, const char *what, uint64_t value)
{
	return text_set(why, SWAKV_EVERSION,
			"the broker's welcome is impossible (%s: %" PRIu64 "): broker and library do not match", what,
			value);
}

static int check_counts(const struct wire_welcome *w, const struct wire_hello *hello, uint32_t n_fds, struct text *why)
{
	if (w->n_fds != n_fds || n_fds < WIRE_FD_POOLS)
		return impossible(why, "file descriptors", n_fds);
	if (w->n_pools < 1 || w->n_pools > WIRE_MAX_POOLS)
		return impossible(why, "pools", w->n_pools);
	if (w->n_groups != hello->n_groups)
		return impossible(why, "groups", w->n_groups);
	if (w->n_tables != w->n_groups)
		return impossible(why, "tables", w->n_tables);
	if (w->n_streams != hello->n_streams)
		return impossible(why, "streams", w->n_streams);
	return 0;
}

static int check_ring(const struct wire_welcome *w, const struct wire_ring *ring, struct text *why)
{
	if (ring->n_slots == 0 || (ring->n_slots & (ring->n_slots - 1)) != 0 || ring->n_slots > 1u << 24)
		return impossible(why, "slots of a ring", ring->n_slots);
	if (!inside(ring->control_offset, sizeof(struct ring_control), w->session_bytes, CACHELINE))
		return impossible(why, "offset of a ring", ring->control_offset);
	if (!inside(ring->slots_offset, (uint64_t)ring->n_slots * RING_SLOT, w->session_bytes, RING_SLOT))
		return impossible(why, "offset of ring slots", ring->slots_offset);
	if (w->max_message_slots == 0 || w->max_message_slots > ring->n_slots || w->max_message_slots > UINT16_MAX)
		return impossible(why, "slots of a message", w->max_message_slots);
	return 0;
}

static int check_session_part(const struct wire_welcome *w, struct text *why)
{
	int r = check_ring(w, &w->commands, why);

	if (r == 0)
		r = check_ring(w, &w->replies, why);
	if (r < 0)
		return r;
	if (!inside(w->lines_offset, w->n_streams * sizeof(struct wire_line), w->session_bytes, CACHELINE))
		return impossible(why, "offset of the timeline", w->lines_offset);
	if (!inside(w->wait_offset, sizeof(struct wire_wait), w->session_bytes, sizeof(shm_u32)))
		return impossible(why, "offset of the wait word", w->wait_offset);
	if (!inside(w->boards_offset, w->n_groups * sizeof(struct wire_board), w->session_bytes, CACHELINE))
		return impossible(why, "offset of the boards", w->boards_offset);
	if (w->ranges_offset &&
	    !inside(w->ranges_offset, w->n_groups * sizeof(struct wire_ranges), w->session_bytes, CACHELINE))
		return impossible(why, "offset of the ranges", w->ranges_offset);
	return 0;
}

static int check_pool(const struct wire_welcome *w, const struct wire_pool *p, struct text *why)
{
	if (memchr(p->name, '\0', sizeof(p->name)) == NULL || memchr(p->device, '\0', sizeof(p->device)) == NULL)
		return impossible(why, "length of a pool's name", sizeof(p->name));
	if (!(p->backend == WIRE_BACKEND_HOST && p->export_kind == WIRE_EXPORT_MEMFD) &&
	    !(p->backend == WIRE_BACKEND_CUDA &&
	      (p->export_kind == WIRE_EXPORT_CUDA_IPC || p->export_kind == WIRE_EXPORT_CUDA_FD)))
		return text_set(why, SWAKV_EUNSUPPORTED,
				"pool '%s' is exported in a way (backend %u, kind %u) that this library cannot import",
				p->name, p->backend, p->export_kind);
	if (p->export_kind != WIRE_EXPORT_CUDA_IPC &&
	    (p->fd_index < WIRE_FD_POOLS || (uint32_t)p->fd_index >= w->n_fds))
		return impossible(why, "descriptor of a pool", (uint64_t)(int64_t)p->fd_index);
	if (p->bytes > INT64_MAX || p->table_area_bytes > p->bytes ||
	    p->half_bytes > (p->bytes - p->table_area_bytes) / 2)
		return impossible(why, "bytes of a pool", p->bytes);
	return 0;
}

static int check_layout(const struct wire_welcome *w, const struct wire_layout *l, const struct wire_hello *hello,
			const struct wire_group *g, struct text *why)
{
	bool joined = g->form == WIRE_JOINED;
	const struct wire_pool *p;
	uint64_t span, room, v_end;

	if (l->pool >= w->n_pools)
		return impossible(why, "pool of a layout", l->pool);
	p = &w->pools[l->pool];
	if (l->num_pages < 1 || l->num_pages > INT32_MAX / 2)
		return impossible(why, "pages of a pool", (uint64_t)l->num_pages);
	if ((int64_t)l->width != (hello->max_seq + g->page_tokens - 1) / g->page_tokens)
		return impossible(why, "columns of a row", (uint64_t)l->width);
	if (l->private_pages < 1)
		return impossible(why, "private pages", (uint64_t)l->private_pages);
	if (l->page_stride == 0 || l->page_stride > p->half_bytes || l->layer_stride > l->page_stride / g->layers)
		return impossible(why, "bytes of a page", l->page_stride);
	room = joined ? 2 * p->half_bytes : p->half_bytes;
	if (__builtin_mul_overflow(l->page_stride, (uint64_t)l->num_pages, &span) || span > room)
		return impossible(why, "bytes of the K pages", l->page_stride);
	if (!inside(l->base, span, p->bytes, 1))
		return impossible(why, "page 0", l->base);
	if (l->k_base - l->base >= l->page_stride || l->extra_first - l->base > l->page_stride)
		return impossible(why, "K base", l->k_base);
	if (l->k_token_stride > l->layer_stride / g->page_tokens ||
	    l->v_token_stride > l->layer_stride / g->page_tokens)
		return impossible(why, "bytes of a token", l->k_token_stride);
	if (joined)
		return l->v_base != l->v_first || l->v_first - l->base > l->page_stride
			       ? impossible(why, "V base", l->v_base)
			       : 0;
	/* V ids are K ids + num_pages, so the V pages lie in [v_base + span, v_base + 2 * span) */
	if (__builtin_add_overflow(l->v_base, 2 * span, &v_end) || v_end > p->bytes ||
	    l->v_base + span < l->base + span || l->v_first != l->v_base + span)
		return impossible(why, "V base", l->v_base);
	return 0;
}

/* The tables come in the order of their groups. */
static int check_table(const struct wire_welcome *w, uint32_t group, const struct wire_hello *hello, struct text *why)
{
	const struct wire_table *t = &w->tables[group];
	uint64_t bytes;

	if (t->group != group)
		return impossible(why, "group of a table", t->group);
	if (t->pool != w->layouts[group].pool || t->pool != w->tables[0].pool)
		return impossible(why, "pool of a table", t->pool);
	bytes = shape_id_rows(hello->groups[group].form == WIRE_JOINED) * (uint64_t)hello->max_batch *
		(uint64_t)w->layouts[group].width * sizeof(int32_t);
	if (!inside(t->device_offset, bytes, w->pools[t->pool].table_area_bytes, sizeof(int32_t)))
		return impossible(why, "offset of the device table", t->device_offset);
	if (!inside(t->host_offset, bytes, w->tables_bytes, sizeof(int32_t)))
		return impossible(why, "offset of the host table", t->host_offset);
	if (!inside(t->rows_offset, hello->max_batch * sizeof(struct wire_row_head), w->tables_bytes, sizeof(shm_u32)))
		return impossible(why, "offset of the row heads", t->rows_offset);
	return 0;
}

int welcome_check(const struct wire_welcome *w, const struct wire_hello *hello, uint32_t n_fds, struct text *why)
{
	uint64_t cells = 0;
	int r = check_counts(w, hello, n_fds, why);

	if (r == 0)
		r = check_session_part(w, why);
	for (uint32_t i = 0; r == 0 && i < w->n_pools; i++)
		r = check_pool(w, &w->pools[i], why);
	for (uint32_t i = 0; r == 0 && i < w->n_groups; i++)
		r = check_layout(w, &w->layouts[i], hello, &hello->groups[i], why);
	for (uint32_t i = 0; r == 0 && i < w->n_tables; i++)
		r = check_table(w, i, hello, why);
	for (uint32_t i = 0; r == 0 && i < w->n_groups; i++)
		cells += (uint64_t)hello->max_batch * (uint64_t)w->layouts[i].width;
	if (r == 0 && cells > UINT32_MAX)
		r = impossible(why, "cells of all tables", cells);
	return r;
}

int welcome_check_memory(int fd, uint64_t bytes, const char *what, struct text *why)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return text_set(why, SWAKV_ESYSTEM, "the broker's %s is not sealed against shrinking and growing",
				what);
	if (fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size != bytes)
		return text_set(why, SWAKV_ESYSTEM, "the broker's %s has %lld bytes, it said %" PRIu64, what,
				(long long)st.st_size, bytes);
	return 0;
}
