/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - what a model may declare, and what follows from it (spec sections 1 and 2) */
#include "model.h"

#include <limits.h>
#include <stddef.h>

#include "fit.h"
#include "window.h"

/* Largest number of entries of one table: 2 GiB on the device. */
#define MAX_TABLE_ENTRIES (1ll << 28)
#define MAX_HEAD_DIM      8192
#define MAX_KV_HEADS      4096
#define MAX_LAYERS        4096
#define MAX_ROW_BYTES     (1 << 27) /* MAX_KV_HEADS * MAX_HEAD_DIM of 4 bytes */
#define MAX_EXTRA_BYTES   (1 << 30)
#define MAX_IN_FLIGHT     1024

static int check_count(int64_t value, int64_t most, enum fault_reason reason, struct fault *f)
{
	return value < 1 || value > most ? fault_set(f, reason, -1, value, most) : 0;
}

static int check_heads(const struct wire_group *g, struct fault *f)
{
	int r;

	if ((r = check_count(g->kv_heads, MAX_KV_HEADS, FAULT_MODEL_KV_HEADS, f)) ||
	    (r = check_count(g->k_head_dim, MAX_HEAD_DIM, FAULT_MODEL_HEAD_DIM, f)) ||
	    (r = check_count(g->v_head_dim, MAX_HEAD_DIM, FAULT_MODEL_V_HEAD_DIM, f)))
		return r;
	return element_bytes(g->dtype) == 0 ? fault_set(f, FAULT_MODEL_DTYPE, -1, g->dtype, 0) : 0;
}

/* Printable, and zeroes behind the end. */
static bool tag_valid(const char tag[WIRE_TAG])
{
	size_t i = 0;

	while (i < WIRE_TAG && tag[i] >= ' ' && tag[i] <= '~')
		i++;
	if (i == WIRE_TAG)
		return false;
	while (i < WIRE_TAG && tag[i] == 0)
		i++;
	return i == WIRE_TAG;
}

/* What a group says in bytes. */
static int check_bytes(const struct wire_group *g, struct fault *f)
{
	int r;

	if (shape_is_raw(g)) {
		if (g->kv_heads || g->k_head_dim || g->v_head_dim || g->dtype)
			return fault_set(f, FAULT_MODEL_BOTH, -1, g->k_bytes, g->v_bytes);
		if ((r = check_count(g->k_bytes, MAX_ROW_BYTES, FAULT_MODEL_K_BYTES, f)))
			return r;
		if (g->v_bytes > MAX_ROW_BYTES)
			return fault_set(f, FAULT_MODEL_V_BYTES, -1, g->v_bytes, MAX_ROW_BYTES);
	} else if ((r = check_heads(g, f))) {
		return r;
	}
	if (g->extra_bytes > MAX_EXTRA_BYTES)
		return fault_set(f, FAULT_MODEL_EXTRA, -1, g->extra_bytes, MAX_EXTRA_BYTES);
	if (g->align > WIRE_MAX_ALIGN || (g->align & (g->align - 1)))
		return fault_set(f, FAULT_MODEL_ALIGN, -1, g->align, WIRE_MAX_ALIGN);
	if (g->form >= WIRE_FORM_COUNT)
		return fault_set(f, FAULT_MODEL_FORM, -1, g->form, WIRE_FORM_COUNT - 1);
	if (g->order == WIRE_ORDER_ROWS && g->form == WIRE_SPLIT)
		return fault_set(f, FAULT_MODEL_ROWS, -1, g->order, 0);
	if (g->order >= WIRE_ORDER_COUNT)
		return fault_set(f, FAULT_MODEL_ORDER, -1, g->order, WIRE_ORDER_COUNT - 1);
	return tag_valid(g->tag) ? 0 : fault_set(f, FAULT_MODEL_TAG, -1, 0, WIRE_TAG - 1);
}

int model_check_group(const struct wire_group *g, struct fault *f)
{
	int r = 0;

	if (g->kind != WIRE_GROUP_SLIDING && g->kind != WIRE_GROUP_FULL)
		return fault_set(f, FAULT_MODEL_KIND, -1, g->kind, 0);
	if (g->kind == WIRE_GROUP_FULL && g->window != 0)
		return fault_set(f, FAULT_MODEL_FULL, -1, g->window, 0);
	if (g->kind == WIRE_GROUP_SLIDING && (g->window < 1 || g->window > INT32_MAX))
		return fault_set(f, FAULT_MODEL_WINDOW, -1, g->window, INT32_MAX);
	if (g->page_tokens < 16 || g->page_tokens > 256 || (g->page_tokens & (g->page_tokens - 1)))
		return fault_set(f, FAULT_MODEL_PAGE_TOKENS, -1, g->page_tokens, 0);
	if ((r = check_count(g->layers, MAX_LAYERS, FAULT_MODEL_LAYERS, f)) || (r = check_bytes(g, f)))
		return r;
	if (g->flags & ~(uint32_t)WIRE_GROUP_MOVABLE)
		return fault_set(f, FAULT_RESERVED, -1, g->flags, 0);
	for (size_t i = 0; i < sizeof(g->reserved) / sizeof(g->reserved[0]); i++)
		if (g->reserved[i])
			return fault_set(f, FAULT_RESERVED, -1, g->reserved[i], 0);
	return 0;
}

static int derive(const struct model *m, const struct wire_group *g, uint64_t half_bytes, struct geometry *out,
		  struct fault *f)
{
	struct window w = window_kept(g->window, m->max_rewind, g->page_tokens);
	uint64_t n;

	shape_find(g, &out->shape); /* at most 2^12 layers of 2 * 2^8 * 2^27 + 2^30 bytes: no overflow */
	out->page_bytes = out->shape.page_bytes;
	if (g->form == WIRE_SPLIT && g->align && half_bytes % g->align)
		return fault_set(f, FAULT_MODEL_ALIGN_HALF, -1, g->align, (int64_t)half_bytes);
	if (out->page_bytes > half_bytes)
		return fault_set(f, FAULT_MODEL_PAGE_BYTES, -1, (int64_t)out->page_bytes, (int64_t)half_bytes);
	n = (g->form == WIRE_JOINED ? 2 * half_bytes : half_bytes) / out->page_bytes;
	if (n > INT32_MAX / 2)
		return fault_set(f, FAULT_MODEL_PAGES, -1, (int64_t)n, INT32_MAX / 2);
	out->num_pages = (int32_t)n;
	out->wide =
		n * page_key_whole(geometry_key(out)) / (shape_is_raw(g) ? 1 : element_bytes(g->dtype)) - 1 > INT32_MAX;
	out->width = window_width(&w, m->max_seq);
	if ((int64_t)out->width * m->max_batch > MAX_TABLE_ENTRIES)
		return fault_set(f, FAULT_MODEL_TABLE, -1, (int64_t)out->width * m->max_batch, MAX_TABLE_ENTRIES);
	out->private_pages = window_reservation(&w, m->max_seq, m->max_advance, 1);
	return 0;
}

int model_check(const struct model *m, uint64_t half_bytes, struct geometry out[WIRE_MAX_GROUPS], struct fault *f)
{
	int r;

	if (m->n_groups < 1 || m->n_groups > WIRE_MAX_GROUPS)
		return fault_set(f, FAULT_MODEL_GROUPS, -1, m->n_groups, WIRE_MAX_GROUPS);
	if ((r = check_count(m->n_streams, WIRE_MAX_STREAMS, FAULT_STREAM_COUNT, f)) ||
	    (r = check_count(m->max_batch, WIRE_MAX_BATCH, FAULT_MODEL_BATCH, f)) ||
	    (r = check_count(m->max_seq, INT32_MAX, FAULT_MODEL_SEQ, f)))
		return r;
	if (m->max_advance < 0 || m->max_advance > m->max_seq)
		return fault_set(f, FAULT_MODEL_ADVANCE, -1, m->max_advance, m->max_seq);
	if (m->max_rewind > m->max_seq)
		return fault_set(f, FAULT_MODEL_REWIND, -1, m->max_rewind, m->max_seq);
	if (m->in_flight > MAX_IN_FLIGHT)
		return fault_set(f, FAULT_MODEL_IN_FLIGHT, -1, m->in_flight, MAX_IN_FLIGHT);
	for (uint32_t i = 0; r == 0 && i < m->n_groups; i++) {
		r = model_check_group(&m->groups[i], f);
		if (r == 0)
			r = derive(m, &m->groups[i], half_bytes, &out[i], f);
		if (r && f && m->n_groups > 1)
			f->seq = (int32_t)i;
	}
	return r;
}

int model_check_pages(const struct model *m, const struct geometry g[], uint64_t least, struct fault *f)
{
	for (uint32_t i = 0; i < m->n_groups; i++)
		if (page_key_whole(geometry_key(&g[i])) / 2 < least)
			return fault_set(f, FAULT_PAGE_SMALL, m->n_groups > 1 ? (int32_t)i : -1,
					 (int64_t)(page_key_whole(geometry_key(&g[i])) / 2), (int64_t)least);
	return 0;
}

bool model_fits(const struct model *m, const struct geometry g[], uint64_t half_bytes, uint64_t extent_bytes)
{
	struct fit_need needs[WIRE_MAX_GROUPS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_groups; i++)
		fit_add(needs, &n, geometry_key(&g[i]), (uint64_t)g[i].private_pages);
	return fit_extents(half_bytes, extent_bytes, needs, n, NULL) >= 0;
}
