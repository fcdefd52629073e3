/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c - extents that are lent and come back, pages of classes (no session, no table)
 *
 * After nearly every change pool_check() recounts everything, and what a class
 * could have is counted here a second time, page by page.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

#define MAX_PAGES 4096

/* A class and the pages of it that are held. */
struct holder {
	struct page_class *c;
	int index;
	int32_t held[MAX_PAGES];
	int32_t n;
};

static void check(const struct pool *p)
{
	char why[256] = "";

	cr_assert(pool_check(p, why, sizeof(why)), "%s", why);
}

static struct pool *pool_make(uint64_t half, uint64_t extent, uint32_t scrub)
{
	struct pool *p = malloc(sizeof(*p));

	cr_assert_not_null(p);
	cr_assert_eq(pool_init(p, half, extent), 0);
	p->scrub = scrub;
	return p;
}

static void pool_drop(struct pool *p)
{
	pool_deinit(p);
	free(p);
}

static struct holder *holder_make(struct pool *p, uint64_t page_bytes)
{
	struct holder *h = calloc(1, sizeof(*h));

	cr_assert_not_null(h);
	h->c = pool_class(p, page_bytes, &h->index);
	cr_assert_not_null(h->c);
	return h;
}

static int provide(struct pool *p, struct holder *h, int64_t pages)
{
	struct pool_need need = { h->c, pages };
	int64_t available = -1;

	return pool_provide(p, &need, 1, &available);
}

/* Provides and takes @n pages, or fails the test. */
static void take(struct pool *p, struct holder *h, int32_t n)
{
	cr_assert_eq(provide(p, h, n), -1);
	page_class_take_many(h->c, h->held + h->n, n);
	h->n += n;
}

static void put_all(struct holder *h)
{
	page_class_put_many(h->c, h->held, h->n);
	h->n = 0;
}

/* Puts the held page @page back. */
static void put_page(struct holder *h, int32_t page)
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

static bool page_live(const struct page_class *c, int32_t page)
{
	return c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED;
}

/* No live page of any class has a byte in extent @x. */
static bool no_live_page(const struct pool *p, int32_t x)
{
	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];

		for (int32_t page = 0; page < c->num_pages; page++)
			if (page_live(c, page) && (uint64_t)page * c->page_bytes < extent_start(p, x + 1) &&
			    ((uint64_t)page + 1) * c->page_bytes > extent_start(p, x))
				return false;
	}
	return true;
}

static int64_t count_available(const struct pool *p, const struct page_class *c, int index)
{
	bool *serves = calloc((size_t)p->n_extents, sizeof(*serves));
	int64_t n = 0;

	cr_assert_not_null(serves);
	for (int32_t x = 0; x < p->n_extents; x++)
		serves[x] = p->extent_class[x] == index || no_live_page(p, x);
	for (int32_t page = 0; page < c->num_pages; page++) {
		uint64_t first = (uint64_t)page * c->page_bytes / p->extent_bytes;
		uint64_t last = (((uint64_t)page + 1) * c->page_bytes - 1) / p->extent_bytes;
		bool whole = true;

		for (uint64_t x = first; x <= last; x++)
			whole &= serves[x];
		n += whole && !page_live(c, page);
	}
	free(serves);
	return n;
}

/* No byte of the half lies in two live pages. */
static void check_bytes(const struct pool *p, uint64_t grain)
{
	size_t n = (size_t)(p->half_bytes / grain) + 1;
	uint8_t *owned = calloc(n, 1);

	cr_assert_not_null(owned);
	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];

		for (int32_t page = 0; page < c->num_pages; page++) {
			if (!page_live(c, page))
				continue;
			for (uint64_t g = 0; g < c->page_bytes / grain; g++)
				cr_assert_eq(owned[(uint64_t)page * c->page_bytes / grain + g]++, 0,
					     "class %d page %d: a byte of it has another owner", i, page);
		}
	}
	free(owned);
}

/* ---- extents given back ------------------------------------------------------------- */

Test(pool, a_class_takes_every_empty_extent_of_another)
{
	struct pool *p = pool_make(16 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16);

	take(p, a, 128);
	cr_assert_eq(a->c->n_extents, 16);
	cr_assert_eq(pool_available(p, b->c), 0);
	put_all(a);
	check(p);
	cr_assert_eq(a->c->n_extents, 16, "an empty extent stays until it is needed");
	cr_assert_eq(pool_available(p, b->c), 64);
	take(p, b, 64);
	check(p);
	cr_assert_eq(b->c->n_extents, 16);
	cr_assert_eq(a->c->n_extents, 0);
	cr_assert_eq(pool_available(p, a->c), 0);
	put_all(b);
	take(p, a, 128);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, unassigned_extents_go_before_empty_ones_of_others)
{
	struct pool *p = pool_make(8 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16);

	take(p, a, 32);
	put_all(a);
	take(p, b, 16);
	cr_assert_eq(a->c->n_extents, 4);
	cr_assert_eq(p->n_unassigned, 0);
	take(p, b, 4);
	cr_assert_eq(a->c->n_extents, 3, "one was needed, one was taken");
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, an_extent_with_one_live_page_is_never_taken)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16);

	for (int32_t keep = 0; keep < 32; keep++) {
		int64_t available = -1;

		take(p, a, 32);
		for (int32_t page = 0; page < 32; page++)
			if (page != keep)
				put_page(a, page);
		if (keep % 2)
			page_class_quarantine(a->c, keep);
		cr_assert_eq(pool_available(p, b->c), 12);
		cr_assert_eq(pool_provide(p, &(struct pool_need){ b->c, 13 }, 1, &available), 0);
		cr_assert_eq(available, 12);
		take(p, b, 12);
		cr_assert_eq(p->extent_class[keep / 8], a->index, "page %d was live", keep);
		check(p);
		check_bytes(p, 8);
		cr_assert_eq(pool_trim(p, 100), 0);
		put_all(b);
		page_class_put(a->c, keep);
		a->n = 0;
	}
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, a_live_page_that_straddles_keeps_both_extents)
{
	/* Pages of 24 in extents of 64: page 2 has [48, 72), page 5 has [120, 144). */
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 24), *b = holder_make(p, 64);

	take(p, a, 10);
	for (int32_t page = 0; page < 10; page++)
		if (page != 5)
			put_page(a, page);
	check(p);
	cr_assert_eq(pool_available(p, b->c), 2);
	take(p, b, 2);
	cr_assert_eq(p->extent_class[1], a->index);
	cr_assert_eq(p->extent_class[2], a->index);
	check(p);
	check_bytes(p, 8);
	cr_assert_eq(pool_trim(p, 100), 0);
	put_page(a, 5);
	cr_assert_eq(pool_available(p, b->c), 2);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, a_page_over_many_extents_keeps_them_all)
{
	/* Pages of 200 in extents of 64: page 1 has [200, 400), extents 3 to 6. */
	struct pool *p = pool_make(10 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 200), *b = holder_make(p, 64);

	take(p, a, 3);
	check(p);
	put_page(a, 0);
	put_page(a, 2);
	check(p);
	cr_assert_eq(pool_available(p, b->c), 6);
	take(p, b, 6);
	for (int32_t x = 3; x <= 6; x++)
		cr_assert_eq(p->extent_class[x], a->index, "extent %d", x);
	check(p);
	check_bytes(p, 8);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, a_class_alone_reaches_every_page)
{
	static const uint64_t sizes[] = { 8, 24, 56, 64, 72, 200, 512, 1000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pool *p = pool_make(4000, 64, WIRE_SCRUB_NEVER);
		struct holder *a = holder_make(p, sizes[i]);

		cr_assert_eq(pool_available(p, a->c), (int64_t)(4000 / sizes[i]));
		take(p, a, (int32_t)(4000 / sizes[i]));
		check(p);
		cr_assert_eq(provide(p, a, 1), 0);
		free(a);
		pool_drop(p);
	}
}

Test(pool, trim_returns_empty_extents_within_its_budget)
{
	struct pool *p = pool_make(16 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 24);
	int32_t trimmed;

	take(p, a, 64);
	take(p, b, 20);
	cr_assert_eq(p->n_unassigned, 0);
	cr_assert_eq(pool_trim(p, 100), 0);
	put_all(a);
	for (int32_t i = 0; i < 12; i++)
		put_page(b, b->held[b->n - 1]);
	check(p);
	cr_assert_eq(pool_trim(p, 0), 0);
	cr_assert_eq(pool_trim(p, 3), 3);
	cr_assert_eq(p->n_unassigned, 3);
	check(p);
	trimmed = pool_trim(p, 100);
	cr_assert_eq(trimmed, p->n_unassigned - 3);
	cr_assert_eq(a->c->n_extents, 0);
	cr_assert_gt(b->c->n_extents, 0);
	cr_assert_eq(p->n_empty, 0);
	check(p);
	put_all(b);
	pool_trim(p, 100);
	cr_assert_eq(p->n_unassigned, 16);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, trim_leaves_what_was_in_use_last)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);

	take(p, a, 32);
	for (int32_t page = 31; page >= 0; page--)
		put_page(a, page);
	cr_assert_eq(pool_trim(p, 3), 3);
	cr_assert_eq(p->extent_class[0], a->index);
	free(a);
	pool_drop(p);
}

Test(pool, what_was_put_last_is_taken_first)
{
	struct pool *p = pool_make(64 * 8, 64 * 8, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);
	int32_t out[3];

	take(p, a, 10);
	for (int32_t i = 0; i < 10; i++)
		cr_assert_eq(a->held[9 - i], i, "the lowest fresh page first");
	page_class_put(a->c, 4);
	page_class_put_many(a->c, (int32_t[]){ 7, 2 }, 2);
	page_class_take_many(a->c, out, 3);
	cr_assert_eq(out[2], 2);
	cr_assert_eq(out[1], 7);
	cr_assert_eq(out[0], 4);
	cr_assert_eq(page_class_take(a->c), 10);
	check(p);
	free(a);
	pool_drop(p);
}

Test(pool, an_extent_in_use_is_filled_before_an_empty_one)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);

	take(p, a, 32);
	for (int32_t page = 0; page < 32; page++)
		if (page != 19)
			put_page(a, page);
	cr_assert_eq(a->c->n_empty, 3);
	for (int i = 0; i < 7; i++) {
		take(p, a, 1);
		cr_assert_eq(a->held[a->n - 1] / 8, 2);
	}
	cr_assert_eq(a->c->n_empty, 3);
	take(p, a, 1);
	cr_assert_eq(a->c->n_empty, 2);
	check(p);
	free(a);
	pool_drop(p);
}

/* ---- several needs at once -------------------------------------------------------------- */

/* Everything that a refused provision must leave alone. */
struct counts {
	int32_t n_unassigned, n_empty;
	int32_t of[8][6];
	int16_t extent_class[64];
};

static struct counts counts_of(const struct pool *p)
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

static void check_unchanged(const struct pool *p, const struct counts *before)
{
	struct counts now = counts_of(p);

	cr_assert_arr_eq(&now, before, sizeof(now));
	check(p);
}

Test(pool, needs_of_several_classes_are_met_all_or_none)
{
	struct pool *p = pool_make(10 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16), *c = holder_make(p, 32);
	struct pool_need needs[] = { { a->c, 40 }, { b->c, 12 }, { c->c, 5 } };
	struct counts before = counts_of(p);
	int64_t available = -1;

	/* 5 + 3 + 3 extents of 10 */
	cr_assert_eq(pool_provide(p, needs, 3, &available), 2);
	cr_assert_eq(available, 4);
	check_unchanged(p, &before);
	needs[2].pages = 4;
	cr_assert_eq(pool_provide(p, needs, 3, &available), -1);
	cr_assert_eq(a->c->n_free, 40);
	cr_assert_eq(b->c->n_free, 12);
	cr_assert_eq(c->c->n_free, 4);
	check(p);
	free(a);
	free(b);
	free(c);
	pool_drop(p);
}

Test(pool, a_need_does_not_live_off_an_earlier_one)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16);
	struct pool_need needs[] = { { a->c, 20 }, { b->c, 5 } };
	struct counts before;
	int64_t available = -1;

	take(p, a, 32);
	put_all(a);
	before = counts_of(p);
	cr_assert_eq(pool_provide(p, needs, 2, &available), 1, "20 pages of a keep three of four empty extents");
	cr_assert_eq(available, 4);
	check_unchanged(p, &before);
	needs[0].pages = 16;
	cr_assert_eq(pool_provide(p, needs, 2, &available), -1);
	cr_assert_eq(a->c->n_free, 16);
	cr_assert_eq(b->c->n_free, 8);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, needs_of_one_class_add_up)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);
	struct pool_need needs[] = { { a->c, 16 }, { a->c, 10 }, { a->c, 7 } };
	int64_t available = -1;

	cr_assert_eq(pool_provide(p, needs, 3, &available), 2);
	cr_assert_eq(available, 32);
	cr_assert_eq(a->c->n_extents, 0);
	needs[2].pages = 6;
	cr_assert_eq(pool_provide(p, needs, 3, &available), -1);
	cr_assert_eq(a->c->n_free, 32);
	check(p);
	free(a);
	pool_drop(p);
}

Test(pool, what_an_empty_pool_could_not_hold_together_is_known)
{
	struct pool *p = pool_make(10 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 24), *b = holder_make(p, 64);
	struct pool_need needs[] = { { a->c, 8 }, { b->c, 6 }, { a->c, 2 } };

	/* 10 pages of 24 touch 4 extents. */
	cr_assert(pool_could_provide(p, needs, 3));
	needs[2].pages = 3;
	cr_assert_not(pool_could_provide(p, needs, 3));
	needs[1].pages = 5;
	cr_assert(pool_could_provide(p, needs, 3));
	needs[1].pages = 11;
	cr_assert_not(pool_could_provide(p, needs + 1, 1));
	take(p, a, 20);
	needs[1].pages = 5;
	cr_assert(pool_could_provide(p, needs, 3), "what is held now does not count");
	free(a);
	free(b);
	pool_drop(p);
}

/* A class whose first need was of no pages counted twice: what fits was said never to fit. */
Test(pool, a_need_of_no_pages_does_not_count_its_class_again)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16);
	struct pool_need needs[] = { { a->c, 0 }, { b->c, 8 }, { a->c, 16 } };

	cr_assert(pool_could_provide(p, needs, 3));
	needs[2].pages = 17;
	cr_assert_not(pool_could_provide(p, needs, 3));
	free(a);
	free(b);
	pool_drop(p);
}

/* The extent of a class whose need came later was taken, although it fits no other, and the provision refused. */
Test(pool, a_class_keeps_what_its_own_need_asks_for)
{
	struct pool *p = pool_make(2 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 48), *c = holder_make(p, 64);
	struct pool_need needs[] = { { a->c, 8 }, { b->c, 1 } };
	int64_t available = -1;

	take(p, b, 1);
	take(p, c, 1);
	put_all(b);
	put_all(c);
	cr_assert_eq(p->extent_class[0], 1);
	cr_assert_eq(pool_provide(p, needs, 2, &available), -1, "b's only page lies in the first extent");
	cr_assert_eq(a->c->n_free, 8);
	cr_assert_eq(b->c->n_free, 1);
	check(p);
	free(a);
	free(b);
	free(c);
	pool_drop(p);
}

/* ---- dirty pages --------------------------------------------------------------------------- */

Test(pool, a_page_that_another_class_had_is_dirty)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 24);

	take(p, a, 32);
	for (int32_t i = 0; i < 32; i++)
		cr_assert_not(page_class_bind(a->c, i, 1), "nobody had it yet");
	put_all(a);
	take(p, b, 10);
	for (int32_t i = 0; i < 10; i++)
		cr_assert(page_class_bind(b->c, i, 2), "page %d", i);
	put_all(b);
	take(p, a, 32);
	for (int32_t i = 0; i < 32; i++)
		cr_assert(page_class_bind(a->c, i, 1), "page %d", i);
	put_all(a);
	pool_trim(p, 100);
	take(p, a, 32);
	for (int32_t i = 0; i < 32; i++)
		cr_assert_not(page_class_bind(a->c, i, 1), "page %d was away, but nobody had it", i);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, a_refused_provision_makes_no_page_dirty)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *a = holder_make(p, 8), *b = holder_make(p, 16), *c = holder_make(p, 64);
	struct pool_need needs[] = { { b->c, 12 }, { c->c, 2 } };
	int64_t available = -1;

	take(p, a, 32);
	for (int32_t i = 0; i < 32; i++)
		page_class_bind(a->c, i, 1);
	put_all(a);
	cr_assert_eq(pool_provide(p, needs, 2, &available), 1);
	take(p, a, 32);
	for (int32_t i = 0; i < 32; i++)
		cr_assert_not(page_class_bind(a->c, i, 1), "page %d", i);
	free(a);
	free(b);
	free(c);
	pool_drop(p);
}

/* ---- places of classes ------------------------------------------------------------------------ */

/* A class that a session uses. */
static void holder_make_used(struct pool *p, uint64_t page_bytes)
{
	struct holder *h = holder_make(p, page_bytes);

	h->c->n_sessions++;
	free(h);
}

Test(pool, the_place_of_an_unused_class_is_taken_when_all_are_given)
{
	struct pool *p = pool_make(4096, 64, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *first = holder_make(p, 1), *next;
	int index;

	for (uint64_t i = 1; i < POOL_MAX_CLASSES; i++)
		holder_make_used(p, 1 + i);
	take(p, first, 65);
	page_class_bind(first->c, first->held[0], 7);
	cr_assert_null(pool_class(p, 100, &index), "all are in use: one has live pages, the others sessions");
	put_all(first);
	check(p);
	next = holder_make(p, 100);
	cr_assert_eq(next->index, 0);
	cr_assert_eq(p->n_unassigned, p->n_extents);
	check(p);
	take(p, next, 40);
	for (int32_t i = 0; i < 40; i++)
		cr_assert_eq(page_class_bind(next->c, i, 7), i < 2, "page %d", i);
	check(p);
	free(first);
	free(next);
	pool_drop(p);
}

/* ---- at random ---------------------------------------------------------------------------------- */

struct dice {
	uint64_t state;
};

static uint32_t dice_below(struct dice *d, uint32_t n)
{
	d->state = d->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(d->state >> 33) % n;
}

static void put_some(struct dice *d, struct holder *h)
{
	int32_t out[MAX_PAGES], n = 0, most = (int32_t)dice_below(d, (uint32_t)h->n + 1);
	bool all = dice_below(d, 8) == 0;

	while (h->n > 0 && (all || n < most)) {
		int32_t i = (int32_t)dice_below(d, (uint32_t)h->n);
		int32_t page = h->held[i];

		h->held[i] = h->held[--h->n];
		if (dice_below(d, 16) == 0) {
			page_class_quarantine(h->c, page);
			page_class_put(h->c, page);
		} else {
			out[n++] = page;
		}
	}
	page_class_put_many(h->c, out, n);
}

/* A provision for up to three classes, checked against what each could have alone; then takes it, or not. */
static void provide_some(struct pool *p, struct dice *d, struct holder *h[3])
{
	struct pool_need needs[3];
	struct counts before = counts_of(p);
	int64_t sum[3] = { 0 }, available = -1;
	uint32_t n = 1 + dice_below(d, 3);
	int hopeless = -1, got;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = dice_below(d, 3);
		int64_t most = count_available(p, h[k]->c, h[k]->index);

		cr_assert_eq(pool_available(p, h[k]->c), most, "class %u: %ld for %ld", k,
			     (long)pool_available(p, h[k]->c), (long)most);
		needs[i].class = h[k]->c;
		needs[i].pages = dice_below(d, 1 + (uint32_t)most / n + dice_below(d, 3));
		sum[k] += needs[i].pages;
		if (hopeless < 0 && sum[k] > most)
			hopeless = (int)i;
	}
	got = pool_provide(p, needs, n, &available);
	if (hopeless >= 0 || got >= 0) {
		cr_assert(got >= 0 && (hopeless < 0 || got == hopeless), "need %d, %d expected", got, hopeless);
		check_unchanged(p, &before);
		return;
	}
	for (int k = 0; k < 3; k++)
		cr_assert_geq(h[k]->c->n_free, sum[k]);
	for (uint32_t i = 0; i < n && dice_below(d, 4) > 0; i++) {
		for (int k = 0; k < 3; k++) {
			if (h[k]->c != needs[i].class)
				continue;
			page_class_take_many(h[k]->c, h[k]->held + h[k]->n, (int32_t)needs[i].pages);
			h[k]->n += (int32_t)needs[i].pages;
		}
	}
}

static void run_at_random(uint64_t seed, int turns)
{
	struct dice d = { seed * 7919 + 1 };
	uint64_t extent = 8 * (1 + dice_below(&d, 12)), half = extent * (2 + dice_below(&d, 20)) + dice_below(&d, 64);
	struct pool *p = pool_make(half, extent, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *h[3];

	for (int i = 0; i < 3;) {
		uint64_t size = 8 * (1 + dice_below(&d, dice_below(&d, 2) ? 6 : 24));
		bool same = false;

		for (int k = 0; k < i; k++)
			same |= h[k]->c->page_bytes == size;
		if (!same && size <= half)
			h[i++] = holder_make(p, size);
	}
	for (int turn = 0; turn < turns; turn++) {
		switch (dice_below(&d, 8)) {
		case 0:
			pool_trim(p, (int32_t)dice_below(&d, 3));
			break;
		case 1:
		case 2:
		case 3:
			put_some(&d, h[dice_below(&d, 3)]);
			break;
		default:
			provide_some(p, &d, h);
		}
		if (turn % 4 == 0)
			check(p);
		if (turn % 16 == 0)
			check_bytes(p, 8);
	}
	for (int i = 0; i < 3; i++) {
		put_all(h[i]);
		free(h[i]);
	}
	check(p);
	pool_trim(p, INT32_MAX);
	cr_assert_eq(p->n_unassigned, p->n_extents);
	check(p);
	pool_drop(p);
}

Test(pool, a_million_changes_at_random_keep_every_account, .timeout = 110)
{
	for (uint64_t seed = 0; seed < 200; seed++)
		run_at_random(seed, 5000);
}

/* Extents that a class must hold for @need free pages, beyond those with live pages. */
static int64_t extents_needed(const struct pool *p, const struct holder *h, int64_t need)
{
	int64_t per = (int64_t)(p->extent_bytes / h->c->page_bytes), left = need - (h->c->n_free - per * h->c->n_empty);

	return left > 0 ? (left + per - 1) / per : 0;
}

Test(pool, when_pages_fill_extents_exactly_needs_are_refused_only_for_lack_of_extents)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct dice d = { seed + 77 };
		struct pool *p = pool_make(24 * 64, 64, WIRE_SCRUB_NEVER);
		struct holder *h[3] = { holder_make(p, 8), holder_make(p, 16), holder_make(p, 64) };

		for (int turn = 0; turn < 500; turn++) {
			struct pool_need needs[3];
			struct counts before;
			int64_t sum = 0, available;
			int got;

			put_some(&d, h[dice_below(&d, 3)]);
			for (int i = 0; i < 3; i++) {
				needs[i] = (struct pool_need){ h[i]->c, dice_below(&d, 10 * (uint32_t)(3 - i)) };
				sum += extents_needed(p, h[i], needs[i].pages);
			}
			before = counts_of(p);
			got = pool_provide(p, needs, 3, &available);
			cr_assert_eq(got < 0, sum <= before.n_unassigned + before.n_empty);
			if (got >= 0)
				check_unchanged(p, &before);
			for (int i = 0; got < 0 && i < 3; i++) {
				page_class_take_many(h[i]->c, h[i]->held + h[i]->n, (int32_t)needs[i].pages);
				h[i]->n += (int32_t)needs[i].pages;
			}
			check(p);
		}
		for (int i = 0; i < 3; i++)
			free(h[i]);
		pool_drop(p);
	}
}

/* ---- large pools --------------------------------------------------------------------------------- */

Test(pool, offsets_do_not_wrap_in_a_pool_of_139_gib)
{
	const uint64_t gib = 1ull << 30, half = 139 * gib / 2;
	struct pool *p = pool_make(half, 64ull << 20, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 3ull << 20), *b = holder_make(p, 1039680);
	int64_t n = (int64_t)(half / (3ull << 20)), m = (int64_t)(half / 1039680);

	cr_assert_eq(pool_available(p, a->c), n);
	cr_assert_eq(provide(p, a, n), -1);
	cr_assert_eq(a->c->n_free, n);
	check(p);
	cr_assert_eq(pool_available(p, b->c), m);
	cr_assert_eq(provide(p, b, m), -1);
	cr_assert_eq(a->c->n_extents, 0);
	check(p);
	free(a);
	free(b);
	pool_drop(p);
}

Test(pool, ten_million_pages_touch_memory_only_for_those_taken)
{
	struct pool *p = pool_make(10000000ull * 256, 10000000ull * 256, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 256);

	take(p, a, 1000);
	cr_assert_eq(a->c->n_free, 10000000 - 1000);
	cr_assert_eq(p->extents[0].fresh, 1000, "no list is made of pages that nobody took");
	put_all(a);
	cr_assert_eq(pool_trim(p, 1), 1);
	cr_assert_eq(a->c->n_free, 0);
	free(a);
	pool_drop(p);
}
