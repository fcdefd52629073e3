/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool.c - extents that are lent and come back, pages of classes (no session, no table)
 */
#include "dirty.h"
#include "pool_fixture.h"

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

/* What comes free in the others then adds up to whole extents. */
Test(pool, new_pages_come_from_the_fullest_extents_first)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);

	take(p, a, 32);
	/* 7, 1, 4 and 2 pages come free, in an order that says nothing */
	for (int32_t page = 0; page < 7; page++)
		put_page(a, page);
	for (int32_t page = 16; page < 20; page++)
		put_page(a, page);
	put_page(a, 8);
	put_page(a, 24);
	put_page(a, 25);
	check(p);
	for (int i = 0; i < 14; i++) {
		int32_t extent = i < 1 ? 1 : i < 3 ? 3 : i < 7 ? 2 : 0;

		take(p, a, 1);
		cr_assert_eq(a->held[a->n - 1] / 8, extent, "page %d came from extent %d, not %d", i,
			     a->held[a->n - 1] / 8, extent);
		check(p);
	}
	free(a);
	pool_drop(p);
}

Test(pool, extents_whose_free_pages_are_about_as_many_take_turns_last_in_first_out)
{
	struct pool *p = pool_make(2 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 8);

	take(p, a, 16);
	put_page(a, 0);
	put_page(a, 1);
	put_page(a, 8);
	put_page(a, 9);
	put_page(a, 10);
	take(p, a, 1);
	cr_assert_eq(a->held[a->n - 1], 10, "two free pages and three count alike: the last that changed is first");
	check(p);
	free(a);
	pool_drop(p);
}

/* ---- several needs at once -------------------------------------------------------------- */

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

/* In use, so nothing is laid out anew: small pages went to the first extent, where alone a large page had been whole.
 */
Test(pool, small_pages_take_the_only_place_of_a_large_one_only_when_there_is_no_other)
{
	struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 16), *b = holder_make(p, 128), *c = holder_make(p, 64);
	struct pool_need needs[] = { { a->c, 2 }, { b->c, 1 } };
	int64_t available = -1;

	take(p, c, 4);
	page_class_put(c->c, c->held[0]);
	page_class_put(c->c, c->held[1]);
	page_class_put(c->c, c->held[2]);
	memmove(c->held, c->held + 3, sizeof(c->held[0]));
	c->n = 1;
	cr_assert_eq(pool_provide(p, needs, 2, &available), -1);
	cr_assert_eq(a->c->n_free, 4);
	cr_assert_eq(b->c->n_free, 1);
	check(p);
	put_all(c);
	free(a);
	free(b);
	free(c);
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
	struct page_class *spare = NULL;
	int index;

	for (uint64_t i = 1; i < POOL_MAX_CLASSES; i++)
		holder_make_used(p, 1 + i);
	take(p, first, 65);
	page_class_bind(first->c, first->held[0], 7);
	cr_assert_null(pool_class(p, (struct page_key){ 100, false }, &spare, &index),
		       "all are in use: one has live pages, the others sessions");
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

/* Arrays of millions of pages are neither made nor freed by the thread that everybody waits for. */
Test(pool, a_class_is_made_and_freed_by_whoever_brings_one)
{
	struct pool *p = pool_make(4096, 64, WIRE_SCRUB_OWNER_CHANGE);
	struct page_class *brought = page_class_make((struct page_key){ 1, false }, 4096), *first = brought,
			  *spare = brought;
	int index;

	cr_assert_eq(pool_class(p, (struct page_key){ 1, false }, &spare, &index), brought);
	cr_expect_null(spare, "it is the pool's now");
	brought = spare = page_class_make((struct page_key){ 1, false }, 4096);
	cr_assert_eq(pool_class(p, (struct page_key){ 1, false }, &spare, &index), first);
	cr_expect_eq(spare, brought, "there was one");
	page_class_free(spare);
	for (uint64_t i = 1; i < POOL_MAX_CLASSES; i++)
		holder_make_used(p, 1 + i);
	brought = spare = page_class_make((struct page_key){ 100, false }, 40);
	cr_assert_eq(pool_class(p, (struct page_key){ 100, false }, &spare, &index), brought);
	cr_expect_eq(spare, first, "its place was taken");
	page_class_free(spare);
	check(p);
	pool_drop(p);
}
