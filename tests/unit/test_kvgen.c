/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kvgen.h"

#define N 300

static const struct kvgen f16 = { 42, KVGEN_F16 };
static const struct kvgen bf16 = { 42, KVGEN_BF16 };
static const struct kvgen_at here = { KVGEN_K, 7, 4096, 3, 1 };

/* What the bits of a 16-bit float with @mantissa bits of mantissa and @bias mean, by the definition. */
static double decode(uint16_t bits, int mantissa, int bias)
{
	int exponent = (bits & 0x7fff) >> mantissa;
	double fraction = ldexp(bits & ((1 << mantissa) - 1), -mantissa);
	double magnitude = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);

	return bits & 0x8000 ? -magnitude : magnitude;
}

static void check_bits(const struct kvgen *g, int mantissa, int bias)
{
	for (int64_t position = 0; position < 200; position++) {
		struct kvgen_at at = here;
		uint16_t bits[N];
		float values[N];

		at.position = position;
		kvgen_bits(g, at, N, bits);
		kvgen_values(g, at, N, values);
		for (int i = 0; i < N; i++) {
			cr_assert_eq((double)values[i], decode(bits[i], mantissa, bias));
			cr_assert(values[i] >= -1 && values[i] <= 1);
		}
	}
}

Test(kvgen, values_are_what_the_bits_mean)
{
	check_bits(&f16, 10, 15);
	check_bits(&bf16, 7, 127);
}

Test(kvgen, bfloat16_is_the_nearest_to_the_exact_value)
{
	uint16_t bits[N];
	float exact[N];

	kvgen_values(&f16, here, N, exact);
	kvgen_bits(&bf16, here, N, bits);
	for (int i = 0; i < N; i++) {
		double error = fabs(decode(bits[i], 7, 127) - (double)exact[i]);

		cr_assert_leq(error, fabs(decode((uint16_t)(bits[i] + 1), 7, 127) - (double)exact[i]));
		cr_assert_leq(error, fabs(decode((uint16_t)(bits[i] - 1), 7, 127) - (double)exact[i]));
	}
}

/* Two vectors of independent values have few elements in common. */
static void expect_different(struct kvgen g, struct kvgen_at at)
{
	float a[N], b[N];
	int same = 0;

	kvgen_values(&f16, here, N, a);
	kvgen_values(&g, at, N, b);
	for (int i = 0; i < N; i++)
		same += a[i] == b[i];
	cr_assert_lt(same, 6);
}

Test(kvgen, every_coordinate_matters)
{
	struct kvgen other_seed = { 43, KVGEN_F16 };
	struct kvgen_at at = here;

	expect_different(other_seed, here);
	at.kind = KVGEN_V;
	expect_different(f16, at);
	at.kind = KVGEN_Q;
	expect_different(f16, at);
	at = here;
	at.sequence++;
	expect_different(f16, at);
	at = here;
	at.position++;
	expect_different(f16, at);
	at = here;
	at.layer++;
	expect_different(f16, at);
	at = here;
	at.head++;
	expect_different(f16, at);
}

Test(kvgen, same_coordinates_same_values)
{
	float a[N], b[N / 2];

	kvgen_values(&f16, here, N, a);
	kvgen_values(&f16, here, N / 2, b);
	cr_assert_eq(memcmp(a, b, sizeof(b)), 0);
}

Test(kvgen, values_spread_evenly_over_their_range)
{
	double sum = 0, squares = 0;
	float values[N];

	for (int64_t position = 0; position < 1000; position++) {
		struct kvgen_at at = here;

		at.position = position;
		kvgen_values(&f16, at, N, values);
		for (int i = 0; i < N; i++) {
			sum += (double)values[i];
			squares += (double)values[i] * (double)values[i];
		}
	}
	cr_assert_lt(fabs(sum / (1000.0 * N)), 0.01);
	cr_assert_lt(fabs(squares / (1000.0 * N) - 1.0 / 3), 0.01);
}

/* ---- FP8 ---- */

static const struct kvgen fp8 = { 42, KVGEN_FP8 };

/* e4m3 by its definition. */
static double decode_fp8(uint8_t bits)
{
	int exponent = bits >> 3 & 15;
	double magnitude = exponent ? ldexp(8 + (bits & 7), exponent - 10) : ldexp(bits & 7, -9);

	return bits & 0x80 ? -magnitude : magnitude;
}

Test(kvgen, an_fp8_value_is_its_number_times_the_scale_and_exact)
{
	for (int64_t position = 0; position < 200; position++) {
		struct kvgen_at at = here;
		uint8_t bits[N];
		float values[N], scale;

		at.position = position;
		kvgen_bits(&fp8, at, N, bits);
		kvgen_values(&fp8, at, N, values);
		scale = kvgen_scale(&fp8, at);
		cr_assert(scale >= 0x1p-10f && scale < 0x1p-9f);
		for (int i = 0; i < N; i++) {
			cr_assert_neq(bits[i] & 0x7f, 0x7f, "NaN");
			cr_assert_eq((double)values[i], decode_fp8(bits[i]) * (double)scale);
			cr_assert(values[i] >= -1 && values[i] <= 1);
		}
	}
}

Test(kvgen, fp8_is_the_nearest_to_the_exact_value)
{
	uint8_t bits[N];
	float exact[N];

	kvgen_values(&f16, here, N, exact);
	kvgen_bits(&fp8, here, N, bits);
	for (int i = 0; i < N; i++) {
		double want = (double)exact[i] * 448, error = fabs(decode_fp8(bits[i]) - want);

		if ((bits[i] & 0x7f) < 0x7e)
			cr_assert_leq(error, fabs(decode_fp8((uint8_t)(bits[i] + 1)) - want));
		if (bits[i] & 0x7f)
			cr_assert_leq(error, fabs(decode_fp8((uint8_t)(bits[i] - 1)) - want));
	}
}

/* Were scales alike, one of another token, head or kind would do as well. */
Test(kvgen, scales_differ_with_every_coordinate_and_need_all_of_a_float)
{
	struct kvgen_at at = here;
	int same = 0, short_ones = 0;
	float scale = kvgen_scale(&fp8, here), bits;

	for (at.position = 0; at.position < 100; at.position++) {
		bits = ldexpf(kvgen_scale(&fp8, at), 20);
		same += kvgen_scale(&fp8, at) == scale;
		short_ones += bits == floorf(bits);
	}
	at = here;
	at.kind = KVGEN_V;
	same += kvgen_scale(&fp8, at) == scale;
	at = here;
	at.head++;
	same += kvgen_scale(&fp8, at) == scale;
	cr_assert_eq(same, 0);
	cr_assert_lt(short_ones, 10, "%d of 100 scales would fit 16 bits", short_ones);
	cr_assert_eq(kvgen_scale(&bf16, here), 1);
}

Test(kvgen, a_query_is_never_quantised)
{
	struct kvgen_at at = here;
	float a[N], b[N];

	at.kind = KVGEN_Q;
	kvgen_values(&f16, at, N, a);
	kvgen_values(&fp8, at, N, b);
	cr_assert_arr_eq(a, b, sizeof(a));
}

Test(kvgen, a_tokens_rows_are_its_vectors_side_by_side)
{
	uint8_t k[3][N], v[3][N], want[N];
	float k_scales[3], v_scales[3];

	kvgen_token(&fp8, here, 3, N, &(struct kvgen_token){ k, v, k_scales, v_scales });
	for (uint32_t head = 0; head < 3; head++) {
		struct kvgen_at at = { KVGEN_K, here.sequence, here.position, here.layer, head };

		kvgen_bits(&fp8, at, N, want);
		cr_assert_arr_eq(k[head], want, N);
		cr_assert_eq(k_scales[head], kvgen_scale(&fp8, at));
		at.kind = KVGEN_V;
		kvgen_bits(&fp8, at, N, want);
		cr_assert_arr_eq(v[head], want, N);
		cr_assert_eq(v_scales[head], kvgen_scale(&fp8, at));
	}
}
