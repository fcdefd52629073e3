/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - numbers that look random and follow from a seed */
#ifndef SWAKV_TEST_RNG_H
#define SWAKV_TEST_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state; /* the seed, at first */
};

uint64_t rng_next(struct rng *r);
/* A number in [low, high]. */
int64_t rng_between(struct rng *r, int64_t low, int64_t high);
/* True once in @n; never when @n is 0. */
bool rng_one_in(struct rng *r, uint32_t n);

#endif
