/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.c - the independent check
 *
 * softmax(q.k / sqrt(D)).v over the positions [max(0, E - W), E), every product
 * and sum in double, from values that kvgen makes here and nowhere else. It
 * shares no code with what it checks.
 *
 * Each sequence keeps the last W tokens of K and of V as floats (the values are
 * exact in float), in a ring by position; a new token costs one vector per
 * layer and head. Vectors are padded with zeros to a multiple of BLOCK
 * elements, so that the inner loops have no tail.
 *
 * Tolerance. The device works in float, whose unit roundoff is u = 2^-24.
 * Inputs lie in [-1, 1], so results do, and rounding errors of independent
 * inputs add up like a random walk:
 *   - a logit sums D products and is divided by sqrt(D); partial sums grow like
 *     sqrt(D)/3, each rounded once: an error of about u * sqrt(D) / 3;
 *   - the weighted sum and the sum of n weights have partial sums of at most n
 *     that are rounded n times: relative to their size about u * sqrt(n).
 * Allowed are four times that, 4u * (sqrt(n) + sqrt(D)), for every element.
 * Over 200 positions of each preset, float summed one by one stayed 36 to 143
 * times below this; one token too many or too few in the window moved at least
 * one element of the result at least 3.9 times as far (window 4096; weights lie
 * within a factor of e of 1/n, and some |v| is near 1). The unit test holds both
 * sides for every preset.
 */
#include "dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8 /* doubles a vector */
#define BLOCK (4 * LANES)

typedef double v8d __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double))));
typedef float v8f __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

struct dense_sequence {
	uint64_t id;
	int64_t endpoint;
	int64_t capacity; /* positions kept */
	float *k, *v;     /* [layers][kv_heads][capacity][stride], row of position p: p % capacity */
};

int dense_init(struct dense *d, const struct dense_shape *shape, const struct kvgen *gen)
{
	*d = (struct dense){ .shape = *shape, .gen = *gen };
	d->stride = (shape->head_dim + BLOCK - 1) / BLOCK * BLOCK;
	d->values = calloc(d->stride, sizeof(float));
	d->query = calloc(d->stride, sizeof(double));
	d->weights = calloc((size_t)shape->window, sizeof(double));
	d->sums = calloc(d->stride, sizeof(double));
	if (d->values && d->query && d->weights && d->sums)
		return 0;
	dense_deinit(d);
	return -1;
}

void dense_deinit(struct dense *d)
{
	free(d->values);
	free(d->query);
	free(d->weights);
	free(d->sums);
	*d = (struct dense){ 0 };
}

struct dense_sequence *dense_sequence_new(const struct dense *d, uint64_t sequence, int64_t max_tokens)
{
	struct dense_sequence *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->id = sequence;
	s->capacity = max_tokens < d->shape.window ? max_tokens : d->shape.window;
	size_t n = (size_t)d->shape.layers * d->shape.kv_heads * (size_t)s->capacity * d->stride;
	s->k = calloc(n, sizeof(float));
	s->v = calloc(n, sizeof(float));
	if (!s->k || !s->v)
		return dense_sequence_free(s);
	return s;
}

struct dense_sequence *dense_sequence_free(struct dense_sequence *s)
{
	if (s) {
		free(s->k);
		free(s->v);
		free(s);
	}
	return NULL;
}

/* First position of the window that ends at @endpoint. */
static int64_t window_begin(const struct dense *d, int64_t endpoint)
{
	return endpoint > d->shape.window ? endpoint - d->shape.window : 0;
}

int64_t dense_sequence_length(const struct dense *d, const struct dense_sequence *s)
{
	return s->endpoint - window_begin(d, s->endpoint);
}

static size_t row_of(const struct dense *d, const struct dense_sequence *s, uint32_t layer, uint32_t head, int64_t row)
{
	size_t vector = (size_t)layer * d->shape.kv_heads + head;

	return (vector * (size_t)s->capacity + (size_t)row) * d->stride;
}

static void add_token(const struct dense *d, struct dense_sequence *s, int64_t position)
{
	int64_t row = position % s->capacity;

	for (uint32_t layer = 0; layer < d->shape.layers; layer++)
		for (uint32_t head = 0; head < d->shape.kv_heads; head++) {
			size_t at = row_of(d, s, layer, head, row);

			kvgen_values(&d->gen,
				     (struct kvgen_at){ KVGEN_K, s->id, position, d->first_layer + layer, head },
				     d->shape.head_dim, s->k + at);
			kvgen_values(&d->gen,
				     (struct kvgen_at){ KVGEN_V, s->id, position, d->first_layer + layer, head },
				     d->shape.head_dim, s->v + at);
		}
}

void dense_sequence_advance(const struct dense *d, struct dense_sequence *s, int64_t endpoint)
{
	int64_t position = window_begin(d, endpoint);

	if (position < s->endpoint)
		position = s->endpoint;
	for (; position < endpoint; position++)
		add_token(d, s, position);
	s->endpoint = endpoint;
}

/* One head's query over @n rows of K and V that begin at ring row @first. */
struct attend {
	const double *query; /* [stride] */
	const float *k, *v;  /* [capacity][stride] */
	int64_t capacity, first, n;
	uint32_t stride;
	double scale;
	double *weights; /* [n] scratch */
	double *out;     /* [stride] */
};

static inline __attribute__((always_inline)) double logits(const struct attend *a)
{
	double max = -INFINITY;
	int64_t row = a->first;

	for (int64_t i = 0; i < a->n; i++) {
		const float *k = a->k + (size_t)row * a->stride;
		v8d sum[4] = { 0 };
		double total = 0;

		for (uint32_t e = 0; e < a->stride; e += BLOCK)
			for (int b = 0; b < 4; b++)
				sum[b] += *(const v8d *)(a->query + e + b * LANES) *
					  __builtin_convertvector(*(const v8f *)(k + e + b * LANES), v8d);
		sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
		for (int lane = 0; lane < LANES; lane++)
			total += sum[0][lane];
		a->weights[i] = total * a->scale;
		if (a->weights[i] > max)
			max = a->weights[i];
		if (++row == a->capacity)
			row = 0;
	}
	return max;
}

/* Weighted sum of V, one block of elements at a time so that the sums stay in registers. */
static inline __attribute__((always_inline)) void weigh(const struct attend *a, double total)
{
	for (uint32_t e = 0; e < a->stride; e += BLOCK) {
		v8d sum[4] = { 0 };
		int64_t row = a->first;

		for (int64_t i = 0; i < a->n; i++) {
			const float *v = a->v + (size_t)row * a->stride + e;

			for (int b = 0; b < 4; b++)
				sum[b] += a->weights[i] * __builtin_convertvector(*(const v8f *)(v + b * LANES), v8d);
			if (++row == a->capacity)
				row = 0;
		}
		for (int b = 0; b < 4; b++)
			*(v8d *)(a->out + e + b * LANES) = sum[b] / total;
	}
}

static inline __attribute__((always_inline)) void attend_body(const struct attend *a)
{
	double max = logits(a);
	double total = 0;

	for (int64_t i = 0; i < a->n; i++) {
		a->weights[i] = exp(a->weights[i] - max);
		total += a->weights[i];
	}
	weigh(a, total);
}

/* For any processor. */
static void attend_plain(const struct attend *a)
{
	attend_body(a);
}

#ifdef __x86_64__
static __attribute__((target("avx2,fma"))) void attend_avx2(const struct attend *a)
{
	attend_body(a);
}

static __attribute__((target("avx512f,fma"))) void attend_avx512(const struct attend *a)
{
	attend_body(a);
}

static void attend(const struct attend *a)
{
	if (__builtin_cpu_supports("avx512f"))
		attend_avx512(a);
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		attend_avx2(a);
	else
		attend_plain(a);
}
#else
static void attend(const struct attend *a)
{
	attend_plain(a);
}
#endif

static void make_query(struct dense *d, const struct dense_sequence *s, uint32_t layer, uint32_t head)
{
	struct kvgen_at at = { KVGEN_Q, s->id, s->endpoint - 1, d->first_layer + layer, head };

	kvgen_values(&d->gen, at, d->shape.head_dim, d->values);
	for (uint32_t e = 0; e < d->shape.head_dim; e++)
		d->query[e] = (double)d->values[e];
}

void dense_sequence_attend(struct dense *d, const struct dense_sequence *s, uint32_t layer, double *out)
{
	uint32_t group = d->shape.q_heads / d->shape.kv_heads;

	for (uint32_t head = 0; head < d->shape.q_heads; head++) {
		size_t at = row_of(d, s, layer, head / group, 0);

		make_query(d, s, layer, head);
		attend(&(struct attend){
			.query = d->query,
			.k = s->k + at,
			.v = s->v + at,
			.capacity = s->capacity,
			.first = window_begin(d, s->endpoint) % s->capacity,
			.n = dense_sequence_length(d, s),
			.stride = d->stride,
			.scale = 1 / sqrt(d->shape.head_dim),
			.weights = d->weights,
			.out = d->sums,
		});
		memcpy(out + (size_t)head * d->shape.head_dim, d->sums, d->shape.head_dim * sizeof(double));
	}
}

double dense_tolerance(const struct dense_shape *shape, int64_t tokens)
{
	return 4 * 0x1p-24 * (sqrt((double)tokens) + sqrt(shape->head_dim));
}

struct dense_verdict dense_compare(const double *want, const float *got, uint32_t n, double tolerance)
{
	struct dense_verdict r = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		double error = fabs((double)got[i] - want[i]);

		if (error > r.max_error)
			r.max_error = error;
		if (error <= tolerance)
			continue;
		if (r.n_wrong++ == 0)
			r.first_wrong = i;
	}
	return r;
}
