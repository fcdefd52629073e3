/* SPDX-License-Identifier: Apache-2.0 */
/* page_key.h - what pages must have in common to share extents: form and bytes (spec section 1) */
#ifndef SWAKV_PAGE_KEY_H
#define SWAKV_PAGE_KEY_H

#include <stdbool.h>
#include <stdint.h>

struct page_key {
	uint64_t bytes; /* of a split page: S, of one half; of a joined one: T, all of it */
	bool joined;
};

static inline bool page_key_equal(struct page_key a, struct page_key b)
{
	return a.bytes == b.bytes && a.joined == b.joined;
}

/* Bytes of a page, K and V. */
static inline uint64_t page_key_whole(struct page_key k)
{
	return k.joined ? k.bytes : 2 * k.bytes;
}

#endif
