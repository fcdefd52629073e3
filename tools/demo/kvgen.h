/* SPDX-License-Identifier: Apache-2.0 */
/* kvgen.h - the K, V and Q of a model that does not exist: a pure function of where they belong */
#ifndef DEMO_KVGEN_H
#define DEMO_KVGEN_H

#include <stdint.h>

enum kvgen_kind { KVGEN_K = 1, KVGEN_V, KVGEN_Q };
enum kvgen_dtype { KVGEN_F16, KVGEN_BF16 };

/* Every value follows from these two and its coordinates. */
struct kvgen {
	uint64_t seed;
	enum kvgen_dtype dtype;
};

/* Coordinates of one head's vector. */
struct kvgen_at {
	enum kvgen_kind kind;
	uint64_t sequence;
	int64_t position;
	uint32_t layer;
	uint32_t head;
};

/* Writes the @n elements of the vector at @at as the page holds them (bits of the dtype). */
void kvgen_bits(const struct kvgen *g, struct kvgen_at at, uint32_t n, uint16_t *out);
/* The same values as floats: exactly what the bits stand for. */
void kvgen_values(const struct kvgen *g, struct kvgen_at at, uint32_t n, float *out);

#endif
