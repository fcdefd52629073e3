/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_fixture.h - a pool, classes that hold pages of it, and a second count of what a class could have
 *
 * After nearly every change pool_check() recounts everything, and what a class
 * could have is counted here a second time, page by page.
 */
#ifndef SWAKV_POOL_FIXTURE_H
#define SWAKV_POOL_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pool_check.h"
#include "provision.h"

#define MAX_PAGES 4096

/* A class and the pages of it that are held. */
struct holder {
	struct page_class *c;
	int index;
	int32_t held[MAX_PAGES];
	int32_t n;
};

static inline void check(const struct pool *p)
{
	char why[256] = "";

	cr_assert(pool_check(p, why, sizeof(why)), "%s", why);
}

static inline struct pool *pool_make(uint64_t half, uint64_t extent, uint32_t scrub)
{
	struct pool *p = malloc(sizeof(*p));

	cr_assert_not_null(p);
	cr_assert_eq(pool_init(p, half, extent), 0);
	p->scrub = scrub;
	return p;
}

static inline void pool_drop(struct pool *p)
{
	pool_deinit(p);
	free(p);
}

static inline struct holder *holder_of(struct pool *p, struct page_key key)
{
	struct holder *h = calloc(1, sizeof(*h));
	struct page_class *spare = NULL;

	cr_assert_not_null(h);
	h->c = pool_class(p, key, &spare, &h->index);
	page_class_free(spare);
	cr_assert_not_null(h->c);
	return h;
}

static inline struct holder *holder_make(struct pool *p, uint64_t page_bytes)
{
	return holder_of(p, (struct page_key){ page_bytes, false });
}

static inline struct holder *holder_make_joined(struct pool *p, uint64_t page_bytes)
{
	return holder_of(p, (struct page_key){ page_bytes, true });
}

static inline int provide(struct pool *p, struct holder *h, int64_t pages)
{
	struct pool_need need = { h->c, pages };
	int64_t available = -1;

	return pool_provide(p, &need, 1, &available);
}

/* Provides and takes @n pages, or fails the test. */
static inline void take(struct pool *p, struct holder *h, int32_t n)
{
	cr_assert_eq(provide(p, h, n), -1);
	page_class_take_many(h->c, h->held + h->n, n);
	h->n += n;
}

static inline void put_all(struct holder *h)
{
	page_class_put_many(h->c, h->held, h->n);
	h->n = 0;
}

/* Puts the held page @page back. */
static inline void put_page(struct holder *h, int32_t page)
{
	for (int32_t i = 0; i < h->n; i++) {
		if (h->held[i] == page) {
			h->held[i] = h->held[--h->n];
			page_class_put(h->c, page);
			return;
		}
	}
	cr_assert(false, "page %d is not held", page);
}

/* ---- what a class could have, counted page by page -------------------------------- */

static inline bool page_live(const struct page_class *c, int32_t page)
{
	return c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED;
}

/* First byte of part @part (of a split page 0: K, 1: V) of page @page, counted over both halves. */
static inline uint64_t page_start(const struct pool *p, const struct page_class *c, int32_t page, int part)
{
	return (uint64_t)part * p->half_bytes + (uint64_t)page * c->key.bytes;
}

static inline int page_parts(const struct page_class *c)
{
	return c->key.joined ? 1 : 2;
}

/* Extents that page @page has bytes in: [*first, *last]; false: it lies over the middle of the pool. */
static inline bool page_touches(const struct pool *p, const struct page_class *c, int32_t page, int32_t *first,
				int32_t *last)
{
	uint64_t a = page_start(p, c, page, 0), b = a + c->key.bytes - 1;

	*first = (int32_t)(a % p->half_bytes / p->extent_bytes);
	*last = (int32_t)(b % p->half_bytes / p->extent_bytes);
	return a / p->half_bytes == b / p->half_bytes;
}

/* No live page of any class has a byte in extent @x. */
static inline bool no_live_page(const struct pool *p, int32_t x)
{
	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];

		for (int32_t page = 0; page < c->num_pages; page++) {
			int32_t first, last;

			if (page_live(c, page) && page_touches(p, c, page, &first, &last) && first <= x && x <= last)
				return false;
		}
	}
	return true;
}

static inline int64_t count_available(const struct pool *p, const struct page_class *c, int index)
{
	bool *serves = calloc((size_t)p->n_extents, sizeof(*serves));
	int64_t n = 0;

	cr_assert_not_null(serves);
	for (int32_t x = 0; x < p->n_extents; x++)
		serves[x] = p->extent_class[x] == index || no_live_page(p, x);
	for (int32_t page = 0; page < c->num_pages; page++) {
		int32_t first, last;
		bool whole = page_touches(p, c, page, &first, &last);

		for (int32_t x = first; x <= last; x++)
			whole &= serves[x];
		n += whole && !page_live(c, page);
	}
	free(serves);
	return n;
}

/* No byte of the pool lies in two live pages, and none over its middle in one. */
static inline void check_bytes(const struct pool *p, uint64_t grain)
{
	size_t n = (size_t)(2 * p->half_bytes / grain) + 1;
	uint8_t *owned = calloc(n, 1);

	cr_assert_not_null(owned);
	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];

		for (int32_t page = 0; page < c->num_pages; page++) {
			int32_t first, last;

			if (!page_live(c, page))
				continue;
			cr_assert(page_touches(p, c, page, &first, &last), "class %d page %d is the middle one", i,
				  page);
			for (int part = 0; part < page_parts(c); part++)
				for (uint64_t g = 0; g < c->key.bytes / grain; g++)
					cr_assert_eq(owned[page_start(p, c, page, part) / grain + g]++, 0,
						     "class %d page %d: a byte of it has another owner", i, page);
		}
	}
	free(owned);
}

/* Everything that a refused provision must leave alone. */
struct counts {
	int32_t n_unassigned, n_empty;
	int32_t of[8][6];
	int16_t extent_class[64];
};

static inline struct counts counts_of(const struct pool *p)
{
	struct counts k;

	memset(&k, 0, sizeof(k));
	k.n_unassigned = p->n_unassigned;
	k.n_empty = p->n_empty;
	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];
		int32_t of[6] = { c->n_usable, c->n_free, c->n_leased, c->n_quarantined, c->n_extents, c->n_empty };

		memcpy(k.of[i], of, sizeof(of));
	}
	memcpy(k.extent_class, p->extent_class, (size_t)p->n_extents * sizeof(*p->extent_class));
	return k;
}

static inline void check_unchanged(const struct pool *p, const struct counts *before)
{
	struct counts now = counts_of(p);

	cr_assert_arr_eq(&now, before, sizeof(now));
	check(p);
}

#endif
