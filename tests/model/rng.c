/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

uint64_t rng_next(struct rng *r)
{
	/* splitmix64 */
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

int64_t rng_between(struct rng *r, int64_t low, int64_t high)
{
	return high <= low ? low : low + (int64_t)(rng_next(r) % (uint64_t)(high - low + 1));
}

bool rng_one_in(struct rng *r, uint32_t n)
{
	return n > 0 && rng_next(r) % n == 0;
}
