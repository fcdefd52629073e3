/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

static float from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Value of a finite half, from the definition of the format. */
static double half_value(uint16_t h)
{
	int exponent = h >> 10 & 31, mantissa = h & 1023;
	double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

	return h & 0x8000 ? -v : v;
}

Test(convert, every_finite_half_has_its_value)
{
	for (uint32_t h = 0; h <= 0xffff; h++) {
		if ((h & 0x7c00) == 0x7c00)
			continue;
		cr_assert_eq((double)half_to_float((uint16_t)h), half_value((uint16_t)h), "half 0x%04x", h);
	}
}

Test(convert, every_half_survives_the_way_there_and_back)
{
	for (uint32_t h = 0; h <= 0xffff; h++) {
		if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff))
			continue;
		cr_assert_eq(float_to_half(half_to_float((uint16_t)h)), h, "half 0x%04x", h);
		if ((h & 0x7f80) == 0x7f80 && (h & 0x7f))
			continue;
		cr_assert_eq(float_to_bf16(bf16_to_float((uint16_t)h)), h, "bf16 0x%04x", h);
	}
}

/* Of each pair of neighbours: the middle goes to the even one, one float next to the middle to the nearer. */
Test(convert, ties_go_to_even_and_everything_else_to_the_nearest)
{
	for (uint32_t h = 0; h < 0x7bff; h++) {
		float middle = (float)((half_value((uint16_t)h) + half_value((uint16_t)(h + 1))) / 2);

		cr_assert_eq(float_to_half(middle), h & 1 ? h + 1 : h, "above half 0x%04x", h);
		cr_assert_eq(float_to_half(nextafterf(middle, 0)), h, "above half 0x%04x", h);
		cr_assert_eq(float_to_half(nextafterf(middle, INFINITY)), h + 1, "above half 0x%04x", h);
		cr_assert_eq(float_to_half(-middle), 0x8000 | (h & 1 ? h + 1 : h));
	}
	for (uint32_t h = 0; h < 0x7f7f; h++) {
		float middle = from_bits(h << 16 | 0x8000);

		cr_assert_eq(float_to_bf16(middle), h & 1 ? h + 1 : h, "above bf16 0x%04x", h);
		cr_assert_eq(float_to_bf16(from_bits(h << 16 | 0x7fff)), h);
		cr_assert_eq(float_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
	}
}

Test(convert, too_large_is_infinite)
{
	cr_assert_eq(float_to_half(65504), 0x7bff);
	cr_assert_eq(float_to_half(nextafterf(65520, 0)), 0x7bff);
	cr_assert_eq(float_to_half(65520), 0x7c00);
	cr_assert_eq(float_to_half(-1e30f), 0xfc00);
	cr_assert_eq(float_to_bf16(3.4028235e38f), 0x7f80);
	cr_assert_eq(float_to_half(INFINITY), 0x7c00);
	cr_assert_eq(float_to_half(-INFINITY), 0xfc00);
	cr_assert_eq(float_to_bf16(-INFINITY), 0xff80);
	cr_assert(isinf(half_to_float(0x7c00)) && half_to_float(0xfc00) < 0);
	cr_assert(isinf(bf16_to_float(0x7f80)));
}

Test(convert, nan_stays_nan)
{
	/* A payload only in the dropped bits must not turn into infinity. */
	static const uint32_t nans[] = { 0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0x7f801000 };

	for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
		uint16_t h = float_to_half(from_bits(nans[i])), b = float_to_bf16(from_bits(nans[i]));

		cr_assert((h & 0x7c00) == 0x7c00 && (h & 0x3ff), "0x%08x gave half 0x%04x", nans[i], h);
		cr_assert((b & 0x7f80) == 0x7f80 && (b & 0x7f), "0x%08x gave bf16 0x%04x", nans[i], b);
		cr_assert_eq(h >> 15, nans[i] >> 31);
		cr_assert_eq(b >> 15, nans[i] >> 31);
	}
	for (uint32_t m = 1; m < 0x400; m++)
		cr_assert(isnan(half_to_float((uint16_t)(0x7c00 | m))));
	cr_assert(isnan(bf16_to_float(0xffff)));
}

/* ---- FP8, e4m3 ---- */

static double fp8_value(uint8_t e)
{
	int exponent = e >> 3 & 15, mantissa = e & 7;
	double v = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);

	return e & 0x80 ? -v : v;
}

Test(convert, every_fp8_number_has_its_value_and_survives)
{
	for (uint32_t e = 0; e <= 0xff; e++) {
		if ((e & 0x7f) == 0x7f) {
			cr_assert(isnan(fp8_to_float((uint8_t)e)));
			continue;
		}
		cr_assert_eq((double)fp8_to_float((uint8_t)e), fp8_value((uint8_t)e), "fp8 0x%02x", e);
		cr_assert_eq(float_to_fp8(fp8_to_float((uint8_t)e)), e, "fp8 0x%02x", e);
	}
	cr_assert_eq(fp8_to_float(0x7e), 448);
	cr_assert(signbit(fp8_to_float(0x80)));
}

Test(convert, fp8_ties_go_to_even_and_everything_else_to_the_nearest)
{
	for (uint32_t e = 0; e < 0x7e; e++) {
		float middle = (float)((fp8_value((uint8_t)e) + fp8_value((uint8_t)(e + 1))) / 2);

		cr_assert_eq(float_to_fp8(middle), e & 1 ? e + 1 : e, "above fp8 0x%02x", e);
		cr_assert_eq(float_to_fp8(nextafterf(middle, 0)), e, "above fp8 0x%02x", e);
		cr_assert_eq(float_to_fp8(nextafterf(middle, INFINITY)), e + 1, "above fp8 0x%02x", e);
		cr_assert_eq(float_to_fp8(-middle), 0x80 | (e & 1 ? e + 1 : e));
	}
}

Test(convert, fp8_too_large_is_its_greatest_number_and_nan_stays_nan)
{
	cr_assert_eq(float_to_fp8(449), 0x7e);
	cr_assert_eq(float_to_fp8(-1e30f), 0xfe);
	cr_assert_eq(float_to_fp8(INFINITY), 0x7e);
	cr_assert_eq(float_to_fp8(1e-30f), 0);
	cr_assert_eq(float_to_fp8(NAN) & 0x7f, 0x7f);
}
