/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.h - one element of K or V to float and back
 *
 * Bit arithmetic only (no _Float16, which clang 14 lacks on x86), free of
 * branches on the way to float so that loops over it vectorise. Infinities and
 * NaNs stay what they are; a signalling NaN becomes quiet on narrowing.
 */
#ifndef SWAKV_CONVERT_H
#define SWAKV_CONVERT_H

#include <stdint.h>
#include <string.h>

static inline float convert_from_bits(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t convert_to_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline float convert_half(uint16_t h)
{
	/* The half's fields in a float's places are short of 2^(127-15); the product is exact, subnormals included. */
	float scaled = convert_from_bits((uint32_t)(h & 0x7fffu) << 13) * 0x1p112f;
	uint32_t special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;

	return convert_from_bits(convert_to_bits(scaled) | special | (uint32_t)(h & 0x8000u) << 16);
}

static inline float convert_fp8(uint8_t e)
{
	/* As a half: short of 2^(127-7). */
	float scaled = convert_from_bits((uint32_t)(e & 0x7fu) << 20) * 0x1p120f;
	uint32_t special = (e & 0x7fu) == 0x7fu ? 0x7fc00000u : 0;

	return convert_from_bits(convert_to_bits(scaled) | special | (uint32_t)(e & 0x80u) << 24);
}

static inline float convert_bf16(uint16_t h)
{
	return convert_from_bits((uint32_t)h << 16);
}

#endif
