/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_extents.h - what the floors of several models take, in pages and in whole extents
 *
 * A floor in bytes becomes pages in the proportion in which one sequence of
 * max_seq takes them. Each size of pages lies in extents of its own, so floors
 * that fit in bytes need not fit. Arithmetic only: a pool need not exist.
 */
#ifndef SWAKV_FLOOR_EXTENTS_H
#define SWAKV_FLOOR_EXTENTS_H

#include "fault.h"
#include "fit.h"

/* What one sequence of max_seq takes of one size. */
struct floor_share {
	struct page_key key;
	uint64_t pages;
};

/* Pages of share @i in a floor of @bytes, K and V. */
uint64_t floor_pages(uint64_t bytes, const struct floor_share *shares, uint32_t n, uint32_t i);

struct floors {
	uint64_t half_bytes, extent_bytes;
	uint64_t bytes; /* of all, K and V; UINT64_MAX: more than can be counted */
	struct fit_need needs[FIT_NEEDS];
	uint32_t n;
	int64_t extents; /* beside these: of models whose pages are not known */
};

void floors_init(struct floors *f, uint64_t half_bytes, uint64_t extent_bytes);
/* One of @bytes; @n 0: of pages that are not known, so whole extents. */
void floors_add(struct floors *f, uint64_t bytes, const struct floor_share *shares, uint32_t n);
/* 0, or SWAKV_EINVALID with how many extents they need, and how many there are. */
int floors_check(const struct floors *f, struct fault *fault);

#endif
