/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefill.c - contexts
 *
 * Which logical pages are mapped is read from the mirror: no window arithmetic
 * happens here. If the broker mapped too little, decode attention meets an
 * empty entry and its result is NaN; if it mapped too much, nothing is wrong
 * but its page counts.
 */
#include "prefill.h"

#include "worker.h"

int prefill_init(struct prefill *p, struct worker *w)
{
	size_t row = 0, heads = 0, vectors, scales;
	int rc = 0;

	*p = (struct prefill){ 0 };
	for (uint32_t i = 0; i < w->n_groups; i++) {
		const struct swakv_layout *l = &w->groups[i].layout;
		size_t bytes = (size_t)l->kv_heads * l->head_dim * l->element_bytes;

		row = bytes > row ? bytes : row;
		heads = l->kv_heads > heads ? l->kv_heads : heads;
	}
	vectors = (PREFILL_TOKENS * row + 15) / 16 * 16;
	scales = PREFILL_TOKENS * heads * sizeof(float);
	p->positions = PREFILL_TOKENS * sizeof(int32_t);
	p->k = p->positions + PREFILL_TOKENS * sizeof(int64_t);
	p->v = p->k + vectors;
	p->k_scales = p->v + vectors;
	p->v_scales = p->k_scales + scales;
	for (int i = 0; i < PREFILL_BLOCKS && !rc; i++)
		rc = device_buffer_new(&w->device, &p->blocks[i].buffer, p->v_scales + scales);
	return rc;
}

void prefill_deinit(struct prefill *p, struct worker *w)
{
	for (int i = 0; i < PREFILL_BLOCKS; i++)
		device_buffer_free(&w->device, &p->blocks[i].buffer);
	*p = (struct prefill){ 0 };
}

/* One layer's K and V of tokens [@from, @to) into @b. */
static void make_block(const struct prefill *p, const struct worker *w, const struct group *g,
		       const struct sequence *seq, struct buffer *b, uint32_t layer, int64_t from, int64_t to)
{
	uint32_t heads = g->shape.kv_heads, dim = g->shape.head_dim;
	size_t row = (size_t)heads * dim * g->layout.element_bytes, scales = heads * sizeof(float);

	for (int64_t position = from; position < to; position++) {
		const struct kvgen_at at = { KVGEN_K, seq->id, position, g->first_layer + layer, 0 };
		size_t i = (size_t)(position - from);

		((int32_t *)(void *)b->host)[i] = seq->slot;
		((int64_t *)(void *)(b->host + p->positions))[i] = position;
		kvgen_token(&w->gen, at, heads, dim,
			    &(struct kvgen_token){ b->host + p->k + i * row, b->host + p->v + i * row,
						   (float *)(void *)(b->host + p->k_scales + i * scales),
						   (float *)(void *)(b->host + p->v_scales + i * scales) });
	}
}

/* Tokens [@from, @to), at most PREFILL_TOKENS, of one layer. */
static int write_block(struct prefill *p, struct worker *w, const struct group *g, const struct sequence *seq,
		       uint32_t layer, int64_t from, int64_t to)
{
	uint32_t at = p->next++ % PREFILL_BLOCKS;
	struct buffer *b = &p->blocks[at].buffer;
	int rc = p->blocks[at].in_flight ? device_wait(&w->device, p->blocks[at].fence) : 0;

	if (rc)
		return rc;
	make_block(p, w, g, seq, b, layer, from, to);
	rc = device_upload(&w->device, b, 0, b->bytes);
	if (rc)
		return rc;
	rc = device_kv_write(&w->device, &(struct kernel_kv_write){
						 .pages = g->pages,
						 .slots = b->address,
						 .positions = b->address + p->positions,
						 .k = b->address + p->k,
						 .v = b->address + p->v,
						 .k_scales = b->address + p->k_scales,
						 .v_scales = b->address + p->v_scales,
						 .n_tokens = (int32_t)(to - from),
						 .layer = (int32_t)layer,
					 });
	if (rc)
		return rc;
	p->blocks[at].in_flight = true;
	return swakv_stream_mark(w->session, w->device.stream, &p->blocks[at].fence);
}

/* Tokens [@from, @to), all of them in mapped pages of the group. */
static int write_span(struct prefill *p, struct worker *w, const struct group *g, const struct sequence *seq,
		      int64_t from, int64_t to)
{
	for (; from < to; from += PREFILL_TOKENS) {
		int64_t end = from + PREFILL_TOKENS < to ? from + PREFILL_TOKENS : to;

		for (uint32_t layer = 0; layer < g->shape.layers; layer++) {
			int rc = write_block(p, w, g, seq, layer, from, end);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int write_group(struct prefill *p, struct worker *w, uint32_t index, const struct sequence *seq)
{
	const struct group *g = &w->groups[index];
	int64_t page_tokens = g->pages.page_tokens, from = 0, to = 0;
	int rc = 0;

	/* [from, to) grows page by page and is written at each gap and at the end. */
	for (int32_t c = 0; to < seq->context && c < g->pages.width && !rc; c++) {
		int64_t begin = c * page_tokens, end = begin + page_tokens;

		if (begin >= seq->context)
			break;
		if (mirror_page(&w->mirrors[index], seq->slot, c) < 0) {
			rc = write_span(p, w, g, seq, from, to);
			from = to = end;
		} else {
			to = end < seq->context ? end : seq->context;
		}
	}
	if (!rc && from < to)
		rc = write_span(p, w, g, seq, from, to);
	return rc;
}

int prefill_write(struct prefill *p, struct worker *w, const struct sequence *seq)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->n_groups && !rc; i++)
		rc = write_group(p, w, i, seq);
	return rc ? worker_fail_detail(w, rc, "enqueueing a prefill", device_why(&w->device)) : 0;
}
