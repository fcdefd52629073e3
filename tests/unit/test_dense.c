/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker is itself checked: against the plain formula written out here a
 * second time, and for what it must and must not let pass.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "dense.h"
#include "presets.h"

static struct kvgen gen = { 99, KVGEN_BF16 };

/* Value of one element, fetched the slow way. */
static double value(const struct kvgen *g, struct kvgen_at at, uint32_t dim, uint32_t i)
{
	float v[256];

	kvgen_values(g, at, dim, v);
	return (double)v[i];
}

/* softmax(q.k / sqrt(D)).v over [begin, end) for the query of @at, straight from the definition. */
static void naive(const struct dense_shape *s, uint64_t sequence, int64_t begin, int64_t end, int64_t query,
		  uint32_t layer, uint32_t head, double *out)
{
	uint32_t dim = s->head_dim, kv = head / (s->q_heads / s->kv_heads);
	double total = 0;

	for (uint32_t d = 0; d < dim; d++)
		out[d] = 0;
	for (int64_t p = begin; p < end; p++) {
		struct kvgen_at q = { KVGEN_Q, sequence, query, layer, head };
		struct kvgen_at k = { KVGEN_K, sequence, p, layer, kv };
		struct kvgen_at v = { KVGEN_V, sequence, p, layer, kv };
		double dot = 0;

		for (uint32_t d = 0; d < dim; d++)
			dot += value(&gen, q, dim, d) * value(&gen, k, dim, d);
		double weight = exp(dot / sqrt(dim));
		total += weight;
		for (uint32_t d = 0; d < dim; d++)
			out[d] += weight * value(&gen, v, dim, d);
	}
	for (uint32_t d = 0; d < dim; d++)
		out[d] /= total;
}

static void check_endpoint(struct dense *d, const struct dense_sequence *s, uint64_t sequence, int64_t endpoint)
{
	const struct dense_shape *shape = &d->shape;
	int64_t begin = endpoint <= shape->window ? 0 : endpoint - shape->window;
	double *got = calloc((size_t)shape->q_heads * shape->head_dim, sizeof(*got));
	double want[256];

	for (uint32_t layer = 0; layer < shape->layers; layer++) {
		dense_sequence_attend(d, s, layer, got);
		for (uint32_t head = 0; head < shape->q_heads; head++) {
			naive(shape, sequence, begin, endpoint, endpoint - 1, layer, head, want);
			for (uint32_t i = 0; i < shape->head_dim; i++)
				cr_assert_float_eq(got[head * shape->head_dim + i], want[i], 1e-12,
						   "endpoint %ld layer %u head %u element %u", (long)endpoint, layer,
						   head, i);
		}
	}
	cr_assert_eq(dense_sequence_length(d, s), endpoint - begin);
	free(got);
}

static void check_walk(struct dense_shape shape, int64_t start, int64_t end, int64_t max_tokens)
{
	struct dense d;

	cr_assert_eq(dense_init(&d, &shape, &gen), 0);
	struct dense_sequence *s = dense_sequence_new(&d, 5, max_tokens);
	cr_assert_not_null(s);
	for (int64_t endpoint = start; endpoint <= end; endpoint++) {
		dense_sequence_advance(&d, s, endpoint);
		check_endpoint(&d, s, 5, endpoint);
	}
	s = dense_sequence_free(s);
	dense_deinit(&d);
	dense_deinit(&d);
}

Test(dense, agrees_with_the_formula_from_the_first_token_through_the_window)
{
	check_walk((struct dense_shape){ 7, 2, 2, 4, 32 }, 1, 30, 1000);
}

Test(dense, agrees_with_the_formula_after_a_long_prefill)
{
	check_walk((struct dense_shape){ 16, 1, 1, 3, 64 }, 1001, 1020, 4000);
}

Test(dense, agrees_with_the_formula_when_the_window_is_never_full)
{
	check_walk((struct dense_shape){ 4096, 1, 1, 1, 32 }, 20, 30, 30);
}

Test(dense, agrees_with_the_formula_for_a_window_of_one)
{
	check_walk((struct dense_shape){ 1, 1, 1, 2, 32 }, 1, 5, 100);
}

Test(dense, agrees_with_the_formula_for_a_head_dim_that_is_no_multiple_of_a_vector)
{
	check_walk((struct dense_shape){ 9, 1, 2, 2, 41 }, 5, 15, 100);
}

Test(dense, jumping_ahead_forgets_what_left_the_window)
{
	struct dense_shape shape = { 10, 1, 1, 1, 32 };
	struct dense d;

	cr_assert_eq(dense_init(&d, &shape, &gen), 0);
	struct dense_sequence *s = dense_sequence_new(&d, 8, 1000);
	for (int64_t endpoint = 3; endpoint < 200; endpoint += endpoint / 2) {
		dense_sequence_advance(&d, s, endpoint);
		check_endpoint(&d, s, 8, endpoint);
	}
	dense_sequence_free(s);
	dense_deinit(&d);
}

Test(dense, each_single_wrong_element_is_noticed)
{
	enum { N = 256 };
	double want[N], tolerance = 1e-5;
	float got[N];

	for (int i = 0; i < N; i++)
		want[i] = (double)(got[i] = (float)sin(i));
	cr_assert_eq(dense_compare(want, got, N, tolerance).n_wrong, 0);
	for (int i = 0; i < N; i++) {
		const float wrong[] = { got[i] + 1.1e-5f, got[i] - 1.1e-5f, NAN, INFINITY, -INFINITY };
		float right = got[i];

		for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
			got[i] = wrong[k];
			struct dense_verdict v = dense_compare(want, got, N, tolerance);
			cr_assert_eq(v.n_wrong, 1);
			cr_assert_eq(v.first_wrong, (uint32_t)i);
		}
		got[i] = right;
	}
}

Test(dense, largest_error_is_reported)
{
	double want[3] = { 0, 0, 0 };
	float got[3] = { 0.25f, -0.5f, NAN };
	struct dense_verdict v = dense_compare(want, got, 3, 0.3);

	cr_assert_eq(v.max_error, 0.5);
	cr_assert_eq(v.n_wrong, 2);
	cr_assert_eq(v.first_wrong, 1);
}

/* The same in float, summed one after the other as the least careful device would. */
static void in_float(const struct dense_shape *s, uint64_t sequence, int64_t begin, int64_t end, int64_t query,
		     uint32_t head, float *out)
{
	float q[512], k[512], v[512], total = 0;
	uint32_t kv = head / (s->q_heads / s->kv_heads);

	for (uint32_t d = 0; d < s->head_dim; d++)
		out[d] = 0;
	kvgen_values(&gen, (struct kvgen_at){ KVGEN_Q, sequence, query, 0, head }, s->head_dim, q);
	for (int64_t p = begin; p < end; p++) {
		float dot = 0;

		kvgen_values(&gen, (struct kvgen_at){ KVGEN_K, sequence, p, 0, kv }, s->head_dim, k);
		kvgen_values(&gen, (struct kvgen_at){ KVGEN_V, sequence, p, 0, kv }, s->head_dim, v);
		for (uint32_t d = 0; d < s->head_dim; d++)
			dot += q[d] * k[d];
		float weight = expf(dot / sqrtf((float)s->head_dim));
		total += weight;
		for (uint32_t d = 0; d < s->head_dim; d++)
			out[d] += weight * v[d];
	}
	for (uint32_t d = 0; d < s->head_dim; d++)
		out[d] /= total;
}

/* What float arithmetic over the right window leaves passes; one token too many or too few does not. */
static void check_tolerance(const char *name, struct dense_shape shape)
{
	double tolerance = dense_tolerance(&shape, shape.window);
	double *want = calloc((size_t)shape.q_heads * shape.head_dim, sizeof(*want));
	struct dense d;

	cr_assert_eq(dense_init(&d, &shape, &gen), 0);
	for (uint64_t seq = 0; seq < 10; seq++) {
		int64_t endpoint = shape.window + 1 + (int64_t)seq * 31, begin = endpoint - shape.window;
		struct dense_sequence *s = dense_sequence_new(&d, seq, endpoint);

		dense_sequence_advance(&d, s, endpoint);
		dense_sequence_attend(&d, s, 0, want);
		for (uint32_t head = 0; head < shape.q_heads; head++) {
			const double *w = want + (size_t)head * shape.head_dim;
			float got[512];

			in_float(&shape, seq, begin, endpoint, endpoint - 1, head, got);
			struct dense_verdict v = dense_compare(w, got, shape.head_dim, tolerance);
			cr_assert_eq(v.n_wrong, 0, "%s: float is off by %g", name, v.max_error);
			in_float(&shape, seq, begin - 1, endpoint, endpoint - 1, head, got);
			v = dense_compare(w, got, shape.head_dim, tolerance);
			cr_assert_gt(v.n_wrong, 0, "%s: a token too many moves %g", name, v.max_error);
			in_float(&shape, seq, begin + 1, endpoint, endpoint - 1, head, got);
			v = dense_compare(w, got, shape.head_dim, tolerance);
			cr_assert_gt(v.n_wrong, 0, "%s: a token too few moves %g", name, v.max_error);
			in_float(&shape, seq, begin, endpoint - 1, endpoint - 1, head, got);
			v = dense_compare(w, got, shape.head_dim, tolerance);
			cr_assert_gt(v.n_wrong, 0, "%s: the newest token left out moves %g", name, v.max_error);
		}
		dense_sequence_free(s);
	}
	dense_deinit(&d);
	free(want);
}

/* Full attention is held to it as a window of so many tokens: longer ones are beyond what a token can be told by. */
#define FULL 4096

static void check_tolerances(void)
{
	size_t n_presets;
	const struct preset *presets = preset_list(&n_presets);

	for (size_t i = 0; i < n_presets; i++) {
		struct preset p = presets[i];

		preset_scale(&p, 64);
		for (uint32_t k = 0; k < p.n_groups; k++) {
			const struct preset_group *g = &p.groups[k];

			check_tolerance(p.name, (struct dense_shape){ g->window ? g->window : FULL, 1, g->kv_heads,
								      g->q_heads, g->head_dim });
		}
	}
}

Test(dense, tolerance_passes_float_and_catches_a_window_off_by_one)
{
	check_tolerances();
}

Test(dense, tolerance_does_so_for_fp8)
{
	gen.dtype = KVGEN_FP8;
	check_tolerances();
}

/* Layers of several groups of a model have numbers of their own, so their values differ. */
Test(dense, first_layer_says_which_values)
{
	struct dense_shape shape = { 8, 2, 1, 1, 32 };
	struct dense a, b;
	double one[32], other[32];

	cr_assert_eq(dense_init(&a, &shape, &gen), 0);
	cr_assert_eq(dense_init(&b, &shape, &gen), 0);
	b.first_layer = 1;
	struct dense_sequence *s = dense_sequence_new(&a, 3, 20), *t = dense_sequence_new(&b, 3, 20);
	dense_sequence_advance(&a, s, 20);
	dense_sequence_advance(&b, t, 20);
	dense_sequence_attend(&a, s, 1, one);
	dense_sequence_attend(&b, t, 0, other);
	cr_assert_arr_eq(one, other, sizeof(one));
	dense_sequence_attend(&b, t, 1, other);
	cr_assert_arr_neq(one, other, sizeof(one));
	dense_sequence_free(s);
	dense_sequence_free(t);
	dense_deinit(&a);
	dense_deinit(&b);
}
