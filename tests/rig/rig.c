/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.c
 *
 * The dense answer uses no page, no table and no kernel: plain loops in double
 * over the arrays the sequences were made of, with the window written out as
 * "positions p with p < e and p >= e - W". The arrays hold each layer's tokens
 * in the pages' dtype, so the answer sees the same rounded numbers as a kernel.
 */
#include "rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const struct rig_shape rig_base = {
	.window = 100,
	.page_tokens = 32,
	.layers = 2,
	.kv_heads = 2,
	.q_heads = 4,
	.k_dim = 40,
	.v_dim = 24,
	.dtype = KERNEL_F16,
	.n_rows = 4,
	.endpoints = { 230, 99, 0, 257 },
	.seed = 1,
};

struct rig_shape rig_form(const struct rig_shape *shape, int form)
{
	struct rig_shape s = *shape;

	s.joined = form / 2;
	s.by_head = form % 2;
	return s;
}

static uint32_t rig_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* Uniform in [-1, 1). */
static float rig_number(uint32_t *state)
{
	return (float)((int32_t)rig_random(state)) * 0x1p-31f;
}

static uint64_t element_bytes(const struct rig *r)
{
	return r->shape.dtype == KERNEL_F32 ? 4 : r->shape.dtype == KERNEL_FP8 ? 1 : 2;
}

/* Elements of one token's K (or V) of one layer. */
static uint64_t token_elements(const struct rig *r, int32_t dim)
{
	return (uint64_t)r->shape.kv_heads * (uint64_t)dim;
}

static void put_number(const struct rig *r, unsigned char *to, float f)
{
	uint16_t h = r->shape.dtype == KERNEL_BF16 ? float_to_bf16(f) : float_to_half(f);

	if (r->shape.dtype == KERNEL_FP8)
		*to = float_to_fp8(f * 448);
	else if (r->shape.dtype == KERNEL_F32)
		memcpy(to, &f, 4);
	else
		memcpy(to, &h, 2);
}

static double get_number(const struct rig *r, const unsigned char *from)
{
	float f;
	uint16_t h;

	if (r->shape.dtype == KERNEL_FP8)
		return fp8_to_float(*from);
	if (r->shape.dtype == KERNEL_F32) {
		memcpy(&f, from, 4);
		return f;
	}
	memcpy(&h, from, 2);
	return r->shape.dtype == KERNEL_BF16 ? bf16_to_float(h) : half_to_float(h);
}

static void *rig_reserve(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "rig: no address space for %llu bytes\n", (unsigned long long)bytes);
		exit(1);
	}
	return p;
}

static uint64_t rig_place(struct rig *r, uint64_t bytes)
{
	uint64_t at = r->arrays_bytes;

	r->arrays_bytes += (bytes + 63) / 64 * 64;
	return at;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

/* First logical page that a window ending at @e touches. */
static int64_t first_page(const struct rig *r, int64_t e)
{
	int64_t first = e - r->shape.window;

	return (first > 0 ? first : 0) / r->shape.page_tokens;
}

/* Strides of @bytes, a vector's: of tokens, and of heads. */
static void rig_measure_rows(const struct rig *r, uint64_t bytes, uint64_t *token, uint64_t *head)
{
	*token = r->shape.by_head ? bytes : bytes * (uint64_t)r->shape.kv_heads;
	*head = r->shape.by_head ? bytes * (uint64_t)r->shape.page_tokens : bytes;
}

static void rig_measure_page(struct rig *r)
{
	const struct rig_shape *s = &r->shape;
	uint64_t k_vector = (uint64_t)s->k_dim * element_bytes(r), v_vector = (uint64_t)s->v_dim * element_bytes(r);
	uint64_t vectors = (uint64_t)s->page_tokens * (uint64_t)s->kv_heads, between = (uint64_t)s->between;
	uint64_t k = vectors * k_vector, v = vectors * v_vector, scales = vectors * (s->dtype == KERNEL_FP8 ? 8 : 0);

	rig_measure_rows(r, k_vector, &r->k_token, &r->k_head);
	rig_measure_rows(r, v_vector, &r->v_token, &r->v_head);
	r->n_halves = s->joined ? 1 : 2;
	/* Scales come last: behind K alone, or behind K and V. */
	r->scales_at = s->joined ? k + between + v : k;
	r->layer_stride = r->scales_at + scales + between;
	if (!s->joined && v + between > r->layer_stride)
		r->layer_stride = v + between;
	r->page_stride = r->layer_stride * (uint64_t)s->layers + (uint64_t)s->padding;
	/* A half is no multiple of the page, so the bases of K and V differ by more than the ids do. */
	r->half_bytes = (uint64_t)s->num_pages * r->page_stride + 4096;
	r->pool_bytes = (uint64_t)r->n_halves * r->half_bytes;
	r->v_at = s->joined ? k + between : r->half_bytes;
}

static void rig_measure(struct rig *r)
{
	const struct rig_shape *s = &r->shape;
	int64_t longest = 1;

	for (int32_t i = 0; i < s->n_rows; i++) {
		int64_t e = s->endpoints[i];

		r->token_begin[i] = r->n_tokens;
		r->n_tokens += (int32_t)e;
		longest = e > longest ? e : longest;
		r->n_mapped += (int32_t)(ceil_div(e, s->page_tokens) - first_page(r, e));
	}
	if (r->shape.num_pages == 0)
		r->shape.num_pages = r->n_mapped + 3;
	r->width = (int32_t)ceil_div(longest, s->page_tokens) + 1;
	r->max_batch = s->n_rows + 2;
	rig_measure_page(r);
}

/* Entries of a row of the table. */
static uint64_t rig_row(const struct rig *r)
{
	return (uint64_t)r->n_halves * (uint64_t)r->width;
}

static void rig_lay_out(struct rig *r)
{
	const struct rig_shape *s = &r->shape;
	uint64_t tokens = (uint64_t)r->n_tokens, rows = (uint64_t)s->n_rows;
	uint64_t layer_tokens = tokens * (uint64_t)s->layers * element_bytes(r);

	r->table = rig_place(r, (uint64_t)r->max_batch * rig_row(r) * 4);
	r->slots = rig_place(r, rows * 4);
	r->endpoints = rig_place(r, rows * 8);
	r->token_slots = rig_place(r, tokens * 4);
	r->positions = rig_place(r, tokens * 8);
	r->pages = rig_place(r, (uint64_t)r->n_mapped * 4);
	r->k = rig_place(r, layer_tokens * token_elements(r, s->k_dim));
	r->v = rig_place(r, layer_tokens * token_elements(r, s->v_dim));
	r->k_scales = rig_place(r, tokens * (uint64_t)s->layers * (uint64_t)s->kv_heads * 4);
	r->v_scales = rig_place(r, tokens * (uint64_t)s->layers * (uint64_t)s->kv_heads * 4);
	r->q = rig_place(r, rows * (uint64_t)s->q_heads * (uint64_t)s->k_dim * 4);
	r->sinks = rig_place(r, (uint64_t)s->q_heads * 4);
	r->out = rig_place(r, rows * (uint64_t)s->q_heads * (uint64_t)s->v_dim * 4);
}

/* A page no row has yet: random, but the last one of the pool comes first, so that large ids are used. */
static int32_t rig_take_page(struct rig *r, unsigned char *taken, uint32_t *random, int32_t n_taken)
{
	int32_t page = r->shape.num_pages - 1;

	while (n_taken > 0 && taken[page])
		page = (int32_t)(rig_random(random) % (uint32_t)r->shape.num_pages);
	taken[page] = 1;
	return page;
}

static void rig_map(struct rig *r, uint32_t *random)
{
	const struct rig_shape *s = &r->shape;
	unsigned char *taken = calloc((size_t)s->num_pages, 1);
	int32_t *list = (int32_t *)(r->arrays + r->pages), n = 0;

	memset(r->arrays + r->table, 0xff, (uint64_t)r->max_batch * rig_row(r) * 4);
	for (int32_t i = 0; i < s->n_rows; i++) {
		/* Rows lie in the table in another order than in the batch. */
		int32_t slot = s->endpoints[i] ? r->max_batch - 1 - i : -1;
		int32_t *row;

		((int32_t *)(r->arrays + r->slots))[i] = slot;
		((int64_t *)(r->arrays + r->endpoints))[i] = s->endpoints[i];
		if (slot < 0)
			continue;
		row = rig_table(r) + (uint64_t)slot * rig_row(r);
		for (int64_t c = first_page(r, s->endpoints[i]); c < ceil_div(s->endpoints[i], s->page_tokens); c++) {
			list[n] = rig_take_page(r, taken, random, n);
			row[c] = list[n];
			if (!s->joined)
				row[r->width + c] = list[n] + s->num_pages;
			n++;
		}
		for (int32_t t = 0; t < s->endpoints[i]; t++) {
			((int32_t *)(r->arrays + r->token_slots))[r->token_begin[i] + t] = slot;
			((int64_t *)(r->arrays + r->positions))[r->token_begin[i] + t] = t;
		}
	}
	free(taken);
}

static void rig_draw(struct rig *r, uint64_t offset, uint64_t n, uint32_t *random)
{
	for (uint64_t i = 0; i < n; i++)
		put_number(r, r->arrays + offset + i * element_bytes(r), rig_number(random));
}

/* From 1/896 to 1/448, so that values stay within 1. */
static void rig_draw_scales(struct rig *r, uint64_t offset, uint64_t n, uint32_t *random)
{
	for (uint64_t i = 0; i < n && r->shape.dtype == KERNEL_FP8; i++)
		((float *)(r->arrays + offset))[i] = (1 - fabsf(rig_number(random)) / 2) / 448;
}

struct rig *rig_new(const struct rig_shape *shape)
{
	struct rig *r = calloc(1, sizeof(*r));
	uint32_t random = shape->seed * 2654435761u + 1;
	uint64_t tokens, n_q;

	if (!r)
		exit(1);
	r->shape = *shape;
	rig_measure(r);
	rig_lay_out(r);
	r->arrays = rig_reserve(r->arrays_bytes);
	r->pool = rig_reserve(r->pool_bytes);
	rig_map(r, &random);
	tokens = (uint64_t)r->n_tokens * (uint64_t)shape->layers;
	rig_draw(r, r->k, tokens * token_elements(r, shape->k_dim), &random);
	rig_draw(r, r->v, tokens * token_elements(r, shape->v_dim), &random);
	rig_draw_scales(r, r->k_scales, tokens * (uint64_t)shape->kv_heads, &random);
	rig_draw_scales(r, r->v_scales, tokens * (uint64_t)shape->kv_heads, &random);
	n_q = (uint64_t)shape->n_rows * (uint64_t)shape->q_heads * (uint64_t)shape->k_dim;
	for (uint64_t i = 0; i < n_q; i++)
		((float *)(r->arrays + r->q))[i] = 3 * rig_number(&random);
	for (int32_t h = 0; h < shape->q_heads; h++)
		((float *)(r->arrays + r->sinks))[h] = 2 * rig_number(&random);
	return r;
}

struct rig *rig_free(struct rig *r)
{
	if (r) {
		munmap(r->arrays, r->arrays_bytes);
		munmap(r->pool, r->pool_bytes);
		free(r);
	}
	return NULL;
}

struct rig_bases rig_host(const struct rig *r)
{
	return (struct rig_bases){ (uint64_t)(uintptr_t)r->arrays, (uint64_t)(uintptr_t)r->pool };
}

struct kernel_pages rig_pages(const struct rig *r, struct rig_bases at)
{
	const struct rig_shape *s = &r->shape;

	return (struct kernel_pages){
		.table = at.arrays + r->table,
		.half = { at.pool, s->joined ? 0 : at.pool + r->half_bytes },
		.k = at.pool,
		.v = at.pool + r->v_at,
		.scales = s->dtype == KERNEL_FP8 ? at.pool + r->scales_at : 0,
		.page_stride = r->page_stride,
		.layer_stride = r->layer_stride,
		.k_token = r->k_token,
		.v_token = r->v_token,
		.k_head = r->k_head,
		.v_head = r->v_head,
		.width = r->width,
		.num_pages = s->num_pages,
		.page_tokens = s->page_tokens,
		.kv_heads = s->kv_heads,
		.k_head_dim = s->k_dim,
		.v_head_dim = s->v_dim,
		.dtype = s->dtype,
		.joined = s->joined,
	};
}

struct kernel_fill rig_fill(const struct rig *r, struct rig_bases at, uint16_t pattern)
{
	return (struct kernel_fill){
		.pages = rig_pages(r, at), .page_list = at.arrays + r->pages, .n_pages = r->n_mapped, .pattern = pattern
	};
}

/* Offset of layer @layer in k (or v): [layers][n_tokens][kv_heads][dim]. */
static uint64_t layer_offset(const struct rig *r, int32_t layer, int32_t dim)
{
	return (uint64_t)layer * (uint64_t)r->n_tokens * token_elements(r, dim) * element_bytes(r);
}

struct kernel_kv_write rig_kv_write(const struct rig *r, struct rig_bases at, int32_t layer)
{
	uint64_t scales = (uint64_t)layer * (uint64_t)r->n_tokens * (uint64_t)r->shape.kv_heads * 4;

	return (struct kernel_kv_write){ .pages = rig_pages(r, at),
					 .slots = at.arrays + r->token_slots,
					 .positions = at.arrays + r->positions,
					 .k = at.arrays + r->k + layer_offset(r, layer, r->shape.k_dim),
					 .v = at.arrays + r->v + layer_offset(r, layer, r->shape.v_dim),
					 .k_scales = at.arrays + r->k_scales + scales,
					 .v_scales = at.arrays + r->v_scales + scales,
					 .n_tokens = r->n_tokens,
					 .layer = layer };
}

struct kernel_attention rig_attention(const struct rig *r, struct rig_bases at, int32_t layer)
{
	return (struct kernel_attention){ .pages = rig_pages(r, at),
					  .slots = at.arrays + r->slots,
					  .endpoints = at.arrays + r->endpoints,
					  .q = at.arrays + r->q,
					  .out = at.arrays + r->out,
					  .window = r->shape.window,
					  .sinks = r->shape.sinks ? at.arrays + r->sinks : 0,
					  .scale = (float)(1 / sqrt(r->shape.k_dim)),
					  .soft_cap = r->shape.soft_cap,
					  .n = r->shape.n_rows,
					  .q_heads = r->shape.q_heads,
					  .layer = layer };
}

int32_t *rig_table(struct rig *r)
{
	return (int32_t *)(r->arrays + r->table);
}

int32_t rig_page(const struct rig *r, int32_t row, int32_t column)
{
	int32_t slot = ((const int32_t *)(r->arrays + r->slots))[row];

	return slot < 0 ? -1
			: ((const int32_t *)(r->arrays + r->table))[(uint64_t)slot * rig_row(r) + (uint64_t)column];
}

float *rig_out(struct rig *r)
{
	return (float *)(r->arrays + r->out);
}

/* Element @d of vector @vector of layer @layer in the k (or v) at @offset, whose scales are at @scales. */
static double value(const struct rig *r, int32_t layer, uint64_t offset, uint64_t scales, int32_t dim, int64_t vector,
		    int32_t d)
{
	const unsigned char *at = r->arrays + offset + layer_offset(r, layer, dim);
	int64_t all = (int64_t)layer * r->n_tokens * r->shape.kv_heads + vector;
	double x = get_number(r, at + (uint64_t)(vector * dim + d) * element_bytes(r));

	return r->shape.dtype == KERNEL_FP8 ? x * ((const float *)(r->arrays + scales))[all] : x;
}

/* The dense answer of one query head into @answer[v_dim]; @weight is scratch of one double a token. */
static void dense(const struct rig *r, int32_t layer, int32_t row, int32_t head, double *weight, double *answer)
{
	const struct rig_shape *s = &r->shape;
	int32_t kv = head / (s->q_heads / s->kv_heads), e = (int32_t)s->endpoints[row];
	const float *q = (const float *)(r->arrays + r->q) + ((int64_t)row * s->q_heads + head) * s->k_dim;
	double max = -INFINITY, sum = 0;

	memset(answer, 0, (size_t)s->v_dim * sizeof(*answer));
	for (int32_t p = 0; p < e; p++) {
		int64_t vector = (int64_t)(r->token_begin[row] + p) * s->kv_heads + kv;

		weight[p] = 0;
		if (p < e - s->window)
			continue;
		for (int32_t d = 0; d < s->k_dim; d++)
			weight[p] += q[d] * value(r, layer, r->k, r->k_scales, s->k_dim, vector, d);
		weight[p] /= sqrt(s->k_dim);
		if (s->soft_cap > 0)
			weight[p] = s->soft_cap * tanh(weight[p] / s->soft_cap);
		max = weight[p] > max ? weight[p] : max;
	}
	for (int32_t p = 0; p < e; p++) {
		int64_t vector = (int64_t)(r->token_begin[row] + p) * s->kv_heads + kv;

		if (p < e - s->window)
			continue;
		weight[p] = exp(weight[p] - max);
		sum += weight[p];
		for (int32_t d = 0; d < s->v_dim; d++)
			answer[d] += weight[p] * value(r, layer, r->v, r->v_scales, s->v_dim, vector, d);
	}
	if (s->sinks)
		sum += exp(((const float *)(r->arrays + r->sinks))[head] - max);
	for (int32_t d = 0; d < s->v_dim && e > 0; d++)
		answer[d] /= sum;
}

double rig_error(const struct rig *r, int32_t layer, const float *out, int32_t row)
{
	const struct rig_shape *s = &r->shape;
	double *weight = calloc((size_t)r->n_tokens + 1, sizeof(*weight));
	double *answer = calloc((size_t)s->v_dim, sizeof(*answer)), worst = 0;

	for (int32_t i = 0; i < s->n_rows; i++) {
		for (int32_t h = 0; h < s->q_heads && (row < 0 || row == i); h++) {
			const float *got = out + ((int64_t)i * s->q_heads + h) * s->v_dim;

			dense(r, layer, i, h, weight, answer);
			for (int32_t d = 0; d < s->v_dim; d++) {
				double error = fabs(got[d] - answer[d]) / fmax(1, fabs(answer[d]));

				worst = isnan(error) ? INFINITY : fmax(worst, error);
			}
		}
	}
	free(weight);
	free(answer);
	return worst;
}

double rig_tolerance(const struct rig *r)
{
	/* Values are at most 1: a dot product over k_dim of them and a sum over the window, each with float's unit. */
	return 0x1p-24 * (4 * r->shape.k_dim + 64);
}
