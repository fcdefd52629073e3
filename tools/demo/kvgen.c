/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvgen.c - values by hashing
 *
 * A vector's coordinates are mixed into 64 bits, and those with the element's
 * number into 12 bits that give a multiple of 2^-11 in [-1, 1). Half precision
 * holds such a number exactly; for bfloat16 it is rounded to nearest even. No
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

void kvgen_bits(const struct kvgen *g, struct kvgen_at at, uint32_t n, uint16_t *out)
{
	uint64_t key = key_of(g, at);

	if (g->dtype == KVGEN_F16)
		for (uint32_t i = 0; i < n; i++)
			out[i] = to_f16(to_float(element(key, i)));
	else
		for (uint32_t i = 0; i < n; i++)
			out[i] = to_bf16(to_float(element(key, i)));
}

void kvgen_values(const struct kvgen *g, struct kvgen_at at, uint32_t n, float *out)
{
	uint64_t key = key_of(g, at);

	if (g->dtype == KVGEN_F16)
		for (uint32_t i = 0; i < n; i++)
			out[i] = to_float(element(key, i));
	else
		for (uint32_t i = 0; i < n; i++)
			out[i] = word_float((uint32_t)to_bf16(to_float(element(key, i))) << 16);
}
