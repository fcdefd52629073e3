/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"
#include "kernels.h"

#define FLOAT_INFINITY   0x7f800000u
#define HALF_NORMAL_MIN  0x38800000u /* 2^-14 as float bits: below it halves are subnormal */
#define HALF_TOO_LARGE   0x47800000u /* 2^16: everything from here on is infinite */
#define HALF_TOO_SMALL   0x33000000u /* 2^-25: half of the smallest subnormal; below it everything is zero */
#define HALF_REBIAS      0x38000000u /* (127 - 15) << 23 */
#define HALF_DROPPED     13          /* mantissa bits that a half does not have */
#define SUBNORMAL_ORIGIN 126         /* exponent field at which a float's mantissa counts units of 2^-24 */

#define FP8_GREATEST   0x43e00000u /* 448 */
#define FP8_NORMAL_MIN 0x3c800000u /* 2^-6 */
#define FP8_TOO_SMALL  0x3a800000u /* 2^-10: half of the smallest subnormal, and a tie goes to zero */
#define FP8_REBIAS     0x3c000000u /* (127 - 7) << 23 */
#define FP8_DROPPED    20
#define FP8_ORIGIN     141 /* as above, of 2^-9 */

float half_to_float(uint16_t h)
{
	return convert_half(h);
}

float bf16_to_float(uint16_t h)
{
	return convert_bf16(h);
}

/* @m shifted right by @n (1 to 31) bits, rounded to nearest, ties to even. */
static uint32_t shift_rounded(uint32_t m, unsigned n)
{
	uint32_t kept = m >> n, rest = m & ((1u << n) - 1), tie = 1u << (n - 1);

	return kept + (rest > tie || (rest == tie && (kept & 1)));
}

uint16_t float_to_half(float f)
{
	uint32_t bits = convert_to_bits(f), magnitude = bits & 0x7fffffffu;
	uint32_t sign = (bits >> 16) & 0x8000u, h;

	if (magnitude > FLOAT_INFINITY)
		h = 0x7e00u | ((magnitude >> HALF_DROPPED) & 0x3ffu);
	else if (magnitude >= HALF_TOO_LARGE)
		h = 0x7c00u;
	else if (magnitude >= HALF_NORMAL_MIN)
		/* A carry out of the mantissa runs into the exponent, up to infinity: that is the right result. */
		h = shift_rounded(magnitude - HALF_REBIAS, HALF_DROPPED);
	else if (magnitude < HALF_TOO_SMALL)
		h = 0;
	else
		h = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, SUBNORMAL_ORIGIN - (magnitude >> 23));
	return (uint16_t)(sign | h);
}

float fp8_to_float(uint8_t e)
{
	return convert_fp8(e);
}

uint8_t float_to_fp8(float f)
{
	uint32_t bits = convert_to_bits(f), magnitude = bits & 0x7fffffffu, e;

	if (magnitude > FLOAT_INFINITY)
		e = 0x7fu;
	else if (magnitude >= FP8_GREATEST)
		e = 0x7eu;
	else if (magnitude >= FP8_NORMAL_MIN)
		e = shift_rounded(magnitude - FP8_REBIAS, FP8_DROPPED);
	else if (magnitude <= FP8_TOO_SMALL)
		e = 0;
	else
		e = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, FP8_ORIGIN - (magnitude >> 23));
	return (uint8_t)((bits >> 24 & 0x80u) | e);
}

uint16_t float_to_bf16(float f)
{
	uint32_t bits = convert_to_bits(f);

	if ((bits & 0x7fffffffu) > FLOAT_INFINITY)
		return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)shift_rounded(bits, 16);
}
