/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.c - see fit.h
 *
 * Where a class ends rises with where it begins, so the least end of a set of
 * classes is the least, over which of them lies last, of what that one makes of
 * the least end of the others.
 *
 * A class in two places counts as two of its size.
 */
#include "fit.h"

#include <string.h>

#define NOWHERE UINT64_MAX

struct fit {
	uint64_t half, extent;
	const struct fit_need *needs;
	uint32_t n;
};

/* Where the first @pages pages end that begin at byte @at or later, as they lie from byte @from of the pool on. */
static uint64_t run_end(const struct fit *f, uint64_t size, uint64_t from, uint64_t at, uint64_t pages)
{
	uint64_t first = (from + at + size - 1) / size, most = (from + f->half) / size;

	return first > most || pages > most - first ? NOWHERE : (first + pages) * size - from;
}

/*
 * The same of joined pages, which lie in both halves. Their ends there are as
 * far apart in the one as in the other, so each half has every other one.
 */
static uint64_t joined_end(const struct fit *f, uint64_t size, uint64_t at, uint64_t pages)
{
	uint64_t k = run_end(f, size, 0, at, 1), v = run_end(f, size, f->half, at, 1);
	uint64_t k_pages = pages / 2 + (k <= v ? pages % 2 : 0), v_pages = pages - k_pages;

	k = k_pages ? run_end(f, size, 0, at, k_pages) : 0;
	v = v_pages ? run_end(f, size, f->half, at, v_pages) : 0;
	return k > v ? k : v;
}

/* First byte behind the extents of need @i, when those from byte @at on are free. */
static uint64_t end_of(const struct fit *f, uint32_t i, uint64_t at)
{
	uint64_t size = f->needs[i].key.bytes, pages = f->needs[i].pages, end;

	if (at == NOWHERE || pages == 0)
		return at;
	end = f->needs[i].key.joined ? joined_end(f, size, at, pages) : run_end(f, size, 0, at, pages);
	if (end == NOWHERE)
		return NOWHERE;
	end = (end + f->extent - 1) / f->extent * f->extent;
	return end < f->half ? end : f->half; /* the last extent may be short */
}

/* Every order. */
static uint64_t least_end(const struct fit *f, struct fit_plan *plan)
{
	uint64_t ends[1 << FIT_EXACT] = { 0 };
	uint8_t last[1 << FIT_EXACT] = { 0 };
	uint32_t all = (1u << f->n) - 1;

	for (uint32_t set = 1; set <= all; set++) {
		ends[set] = NOWHERE;
		for (uint32_t i = 0; i < f->n; i++) {
			uint64_t end = set & 1u << i ? end_of(f, i, ends[set & ~(1u << i)]) : NOWHERE;

			if (end < ends[set]) {
				ends[set] = end;
				last[set] = (uint8_t)i;
			}
		}
	}
	if (plan && ends[all] != NOWHERE) {
		plan->n = f->n;
		for (uint32_t set = all, at = f->n; at > 0; set &= ~(1u << last[set])) {
			plan->at[--at].need = last[set];
			plan->at[at].pages = f->needs[last[set]].pages;
		}
	}
	return ends[all];
}

/* @pages of need @i lie apart from the rest of it. */
static uint64_t end_in_two_places(const struct fit *f, uint32_t i, uint64_t pages, struct fit_plan *plan)
{
	struct fit_need needs[FIT_SPLIT + 1];
	const struct fit two = { f->half, f->extent, needs, f->n + 1 };
	uint64_t end;

	if (pages == 0 || pages >= f->needs[i].pages)
		return NOWHERE;
	memcpy(needs, f->needs, f->n * sizeof(needs[0]));
	needs[f->n] = (struct fit_need){ needs[i].key, pages };
	needs[i].pages -= pages;
	end = least_end(&two, plan);
	for (uint32_t k = 0; plan && end != NOWHERE && k < plan->n; k++)
		if (plan->at[k].need == f->n)
			plan->at[k].need = i;
	return end;
}

/* One of the classes in two places; the first that fits will do. */
static uint64_t some_end_in_two_places(const struct fit *f, struct fit_plan *plan)
{
	uint64_t end = NOWHERE;

	for (uint32_t i = 0; i < f->n && end == NOWHERE; i++) {
		for (uint64_t x = 1; x <= FIT_EXTENTS && end == NOWHERE; x++) {
			/* or one less in each half, as they lie */
			uint64_t runs = f->needs[i].key.joined ? 2 : 1;
			uint64_t most = x * f->extent / f->needs[i].key.bytes * runs;

			for (uint64_t less = 0; less <= runs && end == NOWHERE && less < most; less++)
				end = end_in_two_places(f, i, most - less, plan);
		}
	}
	return end;
}

static uint64_t end_largest_first(const struct fit *f, struct fit_plan *plan)
{
	uint32_t order[FIT_NEEDS];
	uint64_t end = 0;

	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t at = i;

		for (; at > 0 && f->needs[order[at - 1]].key.bytes < f->needs[i].key.bytes; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	for (uint32_t i = 0; i < f->n; i++) {
		end = end_of(f, order[i], end);
		if (plan) {
			plan->at[i].need = order[i];
			plan->at[i].pages = f->needs[order[i]].pages;
		}
	}
	if (plan)
		plan->n = f->n;
	return end;
}

/* More than the pool has, however they lie. */
static bool too_much(const struct fit *f)
{
	uint64_t left = 2 * f->half;

	for (uint32_t i = 0; i < f->n; i++) {
		uint64_t whole = page_key_whole(f->needs[i].key);

		if (f->needs[i].pages > left / whole)
			return true;
		left -= f->needs[i].pages * whole;
	}
	return false;
}

static bool some_joined(const struct fit *f)
{
	bool some = false;

	for (uint32_t i = 0; i < f->n; i++)
		some |= f->needs[i].key.joined;
	return some;
}

int64_t fit_extents(uint64_t half_bytes, uint64_t extent_bytes, const struct fit_need *needs, uint32_t n,
		    struct fit_plan *plan)
{
	const struct fit f = { half_bytes, extent_bytes, needs, n };
	uint64_t end;

	if (too_much(&f))
		return -1;
	end = n <= FIT_EXACT ? least_end(&f, plan) : end_largest_first(&f, plan);
	if (end == NOWHERE && n > (some_joined(&f) ? 1 : 2) && n <= FIT_SPLIT)
		end = some_end_in_two_places(&f, plan);
	return end == NOWHERE ? -1 : (int64_t)((end + extent_bytes - 1) / extent_bytes);
}

bool fit_add(struct fit_need *needs, uint32_t *n, struct page_key key, uint64_t pages)
{
	uint32_t i = 0;

	while (i < *n && !page_key_equal(needs[i].key, key))
		i++;
	if (i == *n) {
		if (*n == FIT_NEEDS)
			return false;
		needs[(*n)++] = (struct fit_need){ .key = key };
	}
	needs[i].pages += pages;
	return true;
}
