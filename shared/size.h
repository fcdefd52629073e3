/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.h - bytes as people write them: "4096", "64M", "1.5 GiB"
 *
 * dehumanize_number(3) is not strict enough: it takes "1Mx", reads "010" as 8
 * and "0x10" as 16.
 */
#ifndef SWAKV_SIZE_H
#define SWAKV_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* What is allowed, for messages. */
#define SIZE_RULE "bytes, or a number with a suffix K, M, G or T (or KiB, MiB, GiB or TiB; powers of 1024)"

/*
 * Decimal digits, then perhaps one of K, M, G, T, P or E (or a small one), each
 * 1024 of the one before, with or without "iB", and a blank before it; with a
 * suffix, digits behind a point, too. Nothing else (GB is 1000 MB to some, and
 * 1024 to others), and no more than INT64_MAX. False leaves *@out alone.
 */
bool size_read(const char *text, uint64_t *out);

/* @percent, 0 to 100, of @total. */
static inline uint64_t size_share(uint64_t total, uint32_t percent)
{
	return (uint64_t)((unsigned __int128)total * percent / 100);
}

/* "64.0 GiB", "1.5 MiB", "512 B". Writes to @buf and returns it. */
#define SIZE_TEXT 16
const char *size_text(uint64_t bytes, char buf[SIZE_TEXT]);

#endif
