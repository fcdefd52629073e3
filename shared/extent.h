/* SPDX-License-Identifier: Apache-2.0 */
/* extent.h - how large the extents of a pool are when nobody says */
#ifndef SWAKV_EXTENT_H
#define SWAKV_EXTENT_H

#include <stdint.h>

/* Extents of a pool, at most: a search for free ones looks at all of them, some dozen times. */
#define EXTENT_MOST 8192

/*
 * A 64th of a half of @half_bytes, a multiple of 64 KiB (of 4 KiB in halves
 * below 4 MiB), at most 64 MiB, or an EXTENT_MOST-th; never less than
 * @largest_page bytes, never more than the half, so 0 of no half. Bytes of each half.
 */
static inline uint64_t extent_default(uint64_t half_bytes, uint64_t largest_page)
{
	const uint64_t kib = 1024, mib = 1024 * kib;
	uint64_t unit = half_bytes >= 4 * mib ? 64 * kib : 4 * kib;
	uint64_t extent = (half_bytes / 64 + unit - 1) / unit * unit;

	if (extent < unit) /* of a half below 64 bytes */
		extent = unit;
	if (extent > 64 * mib)
		extent = 64 * mib;
	while (half_bytes / extent >= EXTENT_MOST)
		extent *= 2;
	if (extent < largest_page)
		extent = largest_page;
	return extent < half_bytes ? extent : half_bytes;
}

#endif
