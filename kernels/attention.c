/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - CPU twin of the paged sliding-window decode attention
 *
 * One page at a time, with a running maximum and sum (online softmax), so the
 * scores of one page are all the scratch there is and any window fits. A vector
 * of K or V is widened to float once and used by up to HEADS query heads of its
 * group; the result row itself is the accumulator. Nothing is allocated.
 *
 * The inner loops run over fixed-size pieces with independent partial sums:
 * that is the form that gcc and clang turn into vector code without being
 * allowed to reorder float additions. On x86-64 the whole is compiled a second
 * time for AVX2, and taken where the processor has it.
 */
#include <math.h>

#include "convert.h"
#include "kernels.h"
#include "paging.h"

#define HEADS  8   /* query heads that share one widened vector */
#define TOKENS 256 /* most tokens of a page handled at once */
#define PIECE  256 /* elements widened at once */
#define LANES  32  /* independent partial sums */

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* One kv head of one row, and up to HEADS of its query heads. */
struct work {
	const struct kernel_attention *p;
	int32_t kv_head;
	int32_t n_heads;
	const float *q; /* [n_heads][k_head_dim] */
	float *out;     /* [n_heads][v_head_dim], the accumulator */
	float max[HEADS];
	float sum[HEADS];
	float score[HEADS][TOKENS];
};

/* Widens @n elements at @address. */
static ALWAYS_INLINE void widen(float piece[PIECE], uint64_t address, int32_t n, int32_t dtype)
{
	if (dtype == KERNEL_F32) {
		const float *from = (const float *)(uintptr_t)address;

		for (int32_t i = 0; i < n; i++)
			piece[i] = from[i];
	} else if (dtype == KERNEL_FP8) {
		const uint8_t *from = (const uint8_t *)(uintptr_t)address;

		for (int32_t i = 0; i < n; i++)
			piece[i] = convert_fp8(from[i]);
	} else if (dtype == KERNEL_BF16) {
		const uint16_t *from = (const uint16_t *)(uintptr_t)address;

		for (int32_t i = 0; i < n; i++)
			piece[i] = convert_bf16(from[i]);
	} else {
		const uint16_t *from = (const uint16_t *)(uintptr_t)address;

		for (int32_t i = 0; i < n; i++)
			piece[i] = convert_half(from[i]);
	}
}

static ALWAYS_INLINE float dot(const float *a, const float *b, int32_t n)
{
	float part[LANES] = { 0 }, sum = 0;
	int32_t i = 0;

	for (; i + LANES <= n; i += LANES) {
		for (int32_t j = 0; j < LANES; j++)
			part[j] += a[i + j] * b[i + j];
	}
	for (; i < n; i++)
		sum += a[i] * b[i];
	/* Halving keeps the additions independent; one after the other they would cost more than the products. */
	for (int32_t half = LANES / 2; half > 0; half /= 2) {
		for (int32_t j = 0; j < half; j++)
			part[j] += part[j + half];
	}
	return sum + part[0];
}

static ALWAYS_INLINE float capped(float score, float cap)
{
	return cap > 0 ? cap * tanhf(score / cap) : score;
}

/* What the elements of K's (or V's) vector of token @token in page @k are multiplied by. */
static ALWAYS_INLINE float scale_of(const struct work *w, int32_t k, int v, int32_t token)
{
	const struct kernel_pages *g = &w->p->pages;
	uint64_t scales = paging_layer(g, g->scales, k, w->p->layer);

	return g->dtype == KERNEL_FP8 ? ((const float *)(uintptr_t)(scales + paging_scales(g, v, token)))[w->kv_head]
				      : 1;
}

/* Scores of tokens [@from, @to) of page @k into w->score[head][token - from]. */
static ALWAYS_INLINE void scores_of_page(struct work *w, int32_t k, int32_t from, int32_t to)
{
	const struct kernel_pages *g = &w->p->pages;
	uint64_t layer = paging_layer(g, g->k, k, w->p->layer), esize = paging_element_bytes(g);
	float piece[PIECE];

	for (int32_t t = from; t < to; t++) {
		uint64_t vector = layer + paging_k(g, t, w->kv_head);
		float scale = scale_of(w, k, 0, t);

		for (int32_t h = 0; h < w->n_heads; h++)
			w->score[h][t - from] = 0;
		for (int32_t d = 0; d < g->k_head_dim; d += PIECE) {
			int32_t n = g->k_head_dim - d < PIECE ? g->k_head_dim - d : PIECE;

			widen(piece, vector + (uint64_t)d * esize, n, g->dtype);
			for (int32_t h = 0; h < w->n_heads; h++)
				w->score[h][t - from] += dot(w->q + (int64_t)h * g->k_head_dim + d, piece, n);
		}
		for (int32_t h = 0; h < w->n_heads; h++)
			w->score[h][t - from] = capped(w->score[h][t - from] * scale * w->p->scale, w->p->soft_cap);
	}
}

/* Turns @n scores of head @h into weights under the new running maximum; what was summed before is scaled to it. */
static ALWAYS_INLINE void weigh(struct work *w, int32_t h, int32_t n)
{
	int32_t dim = w->p->pages.v_head_dim;
	float *score = w->score[h], *out = w->out + (int64_t)h * dim;
	float max = w->max[h], correction;

	for (int32_t t = 0; t < n; t++)
		max = score[t] > max ? score[t] : max;
	correction = w->max[h] == max ? 1 : expf(w->max[h] - max);
	w->max[h] = max;
	w->sum[h] *= correction;
	for (int32_t d = 0; d < dim; d++)
		out[d] *= correction;
	for (int32_t t = 0; t < n; t++) {
		score[t] = expf(score[t] - max);
		w->sum[h] += score[t];
	}
}

/* Adds the weighted vectors of tokens [@from, @to) of page @v to the result rows. */
static ALWAYS_INLINE void add_page(struct work *w, int32_t k, int32_t v, int32_t from, int32_t to)
{
	const struct kernel_pages *g = &w->p->pages;
	uint64_t layer = paging_layer(g, g->v, v, w->p->layer), esize = paging_element_bytes(g);
	float piece[PIECE];

	for (int32_t t = from; t < to; t++) {
		uint64_t vector = layer + paging_v(g, t, w->kv_head);
		float scale = scale_of(w, k, 1, t);

		for (int32_t d = 0; d < g->v_head_dim; d += PIECE) {
			int32_t n = g->v_head_dim - d < PIECE ? g->v_head_dim - d : PIECE;

			widen(piece, vector + (uint64_t)d * esize, n, g->dtype);
			for (int32_t h = 0; h < w->n_heads; h++) {
				float *out = w->out + (int64_t)h * g->v_head_dim + d;
				float weight = w->score[h][t - from] * scale;

				for (int32_t i = 0; i < n; i++)
					out[i] += weight * piece[i];
			}
		}
	}
}

/* Positions [@begin, @end) for the heads of *@w. False: the table has no page for one of them. */
static ALWAYS_INLINE int attend(struct work *w, const int32_t *row, int64_t begin, int64_t end)
{
	const struct kernel_pages *g = &w->p->pages;
	int32_t step = g->page_tokens < TOKENS ? g->page_tokens : TOKENS;

	for (int64_t pos = begin; pos < end;) {
		int64_t next = (pos / step + 1) * step < end ? (pos / step + 1) * step : end;
		int32_t from = (int32_t)(pos % g->page_tokens), to = from + (int32_t)(next - pos), k, v;

		if (!paging_lookup(g, row, pos / g->page_tokens, &k, &v))
			return 0;
		scores_of_page(w, k, from, to);
		for (int32_t h = 0; h < w->n_heads; h++)
			weigh(w, h, to - from);
		add_page(w, k, v, from, to);
		pos = next;
	}
	return 1;
}

/* Joins the head's sink to the sum, and divides the accumulator by it. */
static ALWAYS_INLINE void divide(struct work *w, int32_t h, int32_t q_head)
{
	const float *sinks = (const float *)(uintptr_t)w->p->sinks;
	int32_t dim = w->p->pages.v_head_dim;
	float max = w->max[h], scale = 1, sum = w->sum[h];

	if (sinks) {
		max = sinks[q_head] > max ? sinks[q_head] : max;
		scale = expf(w->max[h] - max);
		sum = sum * scale + expf(sinks[q_head] - max);
	}
	for (int32_t d = 0; d < dim; d++)
		w->out[(int64_t)h * dim + d] *= scale / sum;
}

static void set_row(const struct kernel_attention *p, float *out, float value)
{
	for (int64_t d = 0; d < (int64_t)p->q_heads * p->pages.v_head_dim; d++)
		out[d] = value;
}

/* Row @i whole. False: a page is missing in its window. */
static ALWAYS_INLINE int attend_row(const struct kernel_attention *p, int32_t slot, int64_t end, const float *q,
				    float *out)
{
	const struct kernel_pages *g = &p->pages;
	int64_t begin = end > p->window ? end - p->window : 0;
	int32_t group = p->q_heads / g->kv_heads;
	struct work w = { .p = p };

	for (int32_t first = 0; first < p->q_heads; first += w.n_heads) {
		int32_t left = group - first % group;

		w.kv_head = first / group;
		w.n_heads = left < HEADS ? left : HEADS;
		w.q = q + (int64_t)first * g->k_head_dim;
		w.out = out + (int64_t)first * g->v_head_dim;
		for (int32_t h = 0; h < w.n_heads; h++) {
			w.max[h] = -INFINITY;
			w.sum[h] = 0;
		}
		if (!attend(&w, paging_row(g, slot), begin, end))
			return 0;
		for (int32_t h = 0; h < w.n_heads; h++)
			divide(&w, h, first + h);
	}
	return 1;
}

typedef int (*attend_row_fn)(const struct kernel_attention *p, int32_t slot, int64_t end, const float *q, float *out);

static int attend_row_plain(const struct kernel_attention *p, int32_t slot, int64_t end, const float *q, float *out)
{
	return attend_row(p, slot, end, q, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static int attend_row_avx2(const struct kernel_attention *p, int32_t slot,
							       int64_t end, const float *q, float *out)
{
	return attend_row(p, slot, end, q, out);
}
#endif

static attend_row_fn attend_row_best(void)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return attend_row_avx2;
#endif
	return attend_row_plain;
}

void kernel_attention_cpu(const struct kernel_attention *p)
{
	const int32_t *slots = (const int32_t *)(uintptr_t)p->slots;
	const int64_t *endpoints = (const int64_t *)(uintptr_t)p->endpoints;
	const float *q = (const float *)(uintptr_t)p->q;
	float *out = (float *)(uintptr_t)p->out;
	attend_row_fn fn = attend_row_best();

	for (int32_t i = 0; i < p->n; i++) {
		float *row = out + (int64_t)i * p->q_heads * p->pages.v_head_dim;

		set_row(p, row, 0);
		if (slots[i] < 0 || endpoints[i] <= 0)
			continue;
		if (!fn(p, slots[i], endpoints[i], q + (int64_t)i * p->q_heads * p->pages.k_head_dim, row))
			set_row(p, row, NAN);
	}
}
