/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvgen.c - values by hashing
 *
 * A vector's coordinates are mixed into 64 bits, and those with the element's
 * number into 12 bits that give a multiple of 2^-11 in [-1, 1). Half precision
 * holds such a number exactly; for bfloat16 it is rounded to nearest even. For
 * FP8 it is stretched to 448 and rounded to e4m3, and the vector has a scale of 17
 * bits in [2^-10, 2^-9): their product is exact in a float. No
 * value depends on another one, so writer and checker each make their own, and
 * no two tokens, layers, heads or kinds look alike: a page that holds anything
 * but its own tokens shows.
 *
 * The loops are plain 32-bit arithmetic without branches; compilers vectorise
 * them.
 */
#include "kvgen.h"

#include <string.h>

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t key_of(const struct kvgen *g, struct kvgen_at at)
{
	uint64_t h = mix(g->seed + 0x9e3779b97f4a7c15ull);

	h = mix(h ^ at.sequence);
	h = mix(h ^ (uint64_t)at.position);
	return mix(h ^ ((uint64_t)at.layer << 32 | (uint64_t)at.head << 4 | (uint64_t)at.kind));
}

/* Element @i of the vector with @key: an integer in [-2048, 2048), in units of 2^-11. */
static inline int32_t element(uint64_t key, uint32_t i)
{
	uint32_t x = (uint32_t)key + i * 0x9e3779b9u;

	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	x ^= (uint32_t)(key >> 32);
	x *= 0x9e3779b1u;
	return (int32_t)(x ^ (x >> 15)) >> 20;
}

static inline float to_float(int32_t e)
{
	return (float)e * (1.0f / 2048);
}

static inline uint32_t float_word(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float word_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* Exact for what element() yields: 11 bits, and a smallest magnitude of 2^-11 or zero. */
static inline uint16_t to_f16(float f)
{
	uint32_t u = float_word(f);
	uint32_t magnitude = u & 0x7fffffffu;
	uint32_t half = (magnitude >> 13) - (112u << 10); /* exponent bias 127 to 15 */

	return (uint16_t)((magnitude ? half : 0) | (u >> 16 & 0x8000u));
}

static inline uint16_t to_bf16(float f)
{
	uint32_t u = float_word(f);

	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* An e4m3 number as the float that it stands for: of what element() yields, stretched, none is subnormal. */
static inline float round_fp8(int32_t e)
{
	uint32_t u = float_word((float)e * (448.0f / 2048));

	return word_float((u + 0x7ffffu + (u >> 20 & 1)) & 0xfff00000u);
}

static inline uint8_t to_fp8(int32_t e)
{
	uint32_t u = float_word(round_fp8(e)), magnitude = u & 0x7fffffffu;
	uint32_t bits = (magnitude >> 20) - (120u << 3); /* exponent bias 127 to 7 */

	return (uint8_t)((magnitude ? bits : 0) | (u >> 24 & 0x80u));
}

static float scale_of(uint64_t key)
{
	return (float)(0x10000u + (uint32_t)(mix(key) & 0xffffu)) * 0x1p-26f;
}

float kvgen_scale(const struct kvgen *g, struct kvgen_at at)
{
	return g->dtype == KVGEN_FP8 ? scale_of(key_of(g, at)) : 1;
}

void kvgen_bits(const struct kvgen *g, struct kvgen_at at, uint32_t n, void *out)
{
	uint64_t key = key_of(g, at);

	if (g->dtype == KVGEN_FP8)
		for (uint32_t i = 0; i < n; i++)
			((uint8_t *)out)[i] = to_fp8(element(key, i));
	else if (g->dtype == KVGEN_F16)
		for (uint32_t i = 0; i < n; i++)
			((uint16_t *)out)[i] = to_f16(to_float(element(key, i)));
	else
		for (uint32_t i = 0; i < n; i++)
			((uint16_t *)out)[i] = to_bf16(to_float(element(key, i)));
}

void kvgen_values(const struct kvgen *g, struct kvgen_at at, uint32_t n, float *out)
{
	uint64_t key = key_of(g, at);
	float scale = scale_of(key);

	if (g->dtype == KVGEN_BF16)
		for (uint32_t i = 0; i < n; i++)
			out[i] = word_float((uint32_t)to_bf16(to_float(element(key, i))) << 16);
	else if (g->dtype == KVGEN_F16 || at.kind == KVGEN_Q)
		for (uint32_t i = 0; i < n; i++)
			out[i] = to_float(element(key, i));
	else
		for (uint32_t i = 0; i < n; i++)
			out[i] = round_fp8(element(key, i)) * scale;
}

void kvgen_token(const struct kvgen *g, struct kvgen_at at, uint32_t heads, uint32_t dim, const struct kvgen_token *out)
{
	size_t bytes = (size_t)dim * (g->dtype == KVGEN_FP8 ? 1 : 2);

	for (at.head = 0; at.head < heads; at.head++) {
		at.kind = KVGEN_K;
		kvgen_bits(g, at, dim, (char *)out->k + at.head * bytes);
		if (g->dtype == KVGEN_FP8)
			out->k_scales[at.head] = kvgen_scale(g, at);
		at.kind = KVGEN_V;
		kvgen_bits(g, at, dim, (char *)out->v + at.head * bytes);
		if (g->dtype == KVGEN_FP8)
			out->v_scales[at.head] = kvgen_scale(g, at);
	}
}
