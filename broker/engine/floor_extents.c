/* SPDX-License-Identifier: Apache-2.0 */
/* floor_extents.c - see floor_extents.h */
#include "floor_extents.h"

uint64_t floor_pages(uint64_t bytes, const struct floor_share *shares, uint32_t n, uint32_t i)
{
	unsigned __int128 sequence = 0;

	for (uint32_t k = 0; k < n; k++)
		sequence += (unsigned __int128)shares[k].pages * page_key_whole(shares[k].key);
	return sequence ? (uint64_t)((unsigned __int128)bytes * shares[i].pages / sequence) : 0;
}

void floors_init(struct floors *f, uint64_t half_bytes, uint64_t extent_bytes)
{
	*f = (struct floors){ .half_bytes = half_bytes, .extent_bytes = extent_bytes };
}

static int64_t extents_of(const struct floors *f, uint64_t bytes)
{
	return (int64_t)(bytes / f->extent_bytes) + (bytes % f->extent_bytes != 0);
}

void floors_add(struct floors *f, uint64_t bytes, const struct floor_share *shares, uint32_t n)
{
	f->bytes = bytes > UINT64_MAX - f->bytes ? UINT64_MAX : f->bytes + bytes;
	if (n == 0)
		f->extents += extents_of(f, bytes / 2);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t pages = floor_pages(bytes, shares, n, i);

		if (!fit_add(f->needs, &f->n, shares[i].key, pages))
			f->extents += extents_of(f, (pages * page_key_whole(shares[i].key) + 1) /
							    2); /* more sizes than a pool has */
	}
}

/* In a pool that is large enough. */
static int64_t extents_needed(const struct floors *f)
{
	uint64_t half = f->half_bytes;

	for (uint32_t i = 0; i < f->n; i++)
		half += (f->needs[i].pages + 1) * f->needs[i].key.bytes + f->extent_bytes;
	return fit_extents(half / f->extent_bytes * f->extent_bytes + f->extent_bytes, f->extent_bytes, f->needs, f->n,
			   NULL) +
	       f->extents;
}

int floors_check(const struct floors *f, struct fault *fault)
{
	int64_t have = extents_of(f, f->half_bytes), needed, fit;

	if (f->bytes > 2 * f->half_bytes)
		return fault_set(fault, FAULT_FLOORS_BYTES, -1, f->bytes > INT64_MAX ? INT64_MAX : (int64_t)f->bytes,
				 (int64_t)(2 * f->half_bytes));
	fit = fit_extents(f->half_bytes, f->extent_bytes, f->needs, f->n, NULL);
	if (fit >= 0 && fit + f->extents <= have)
		return 0;
	needed = extents_needed(f);
	return fault_set(fault, FAULT_LIMIT_EXTENTS, -1, needed > have ? needed : have + 1, have);
}
