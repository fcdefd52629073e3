/* SPDX-License-Identifier: Apache-2.0 */
/* Joined pages: ids that count both halves as one run, two runs an extent, the page over the middle, a table of one
 * row. */
#include "dirty.h"
#include "engine_fixture.h"
#include "pool_fixture.h"

static bool holds(const struct holder *h, int32_t page)
{
	bool found = false;

	for (int32_t i = 0; i < h->n; i++)
		found |= h->held[i] == page;
	return found;
}

/* 2,000 bytes in pages of 96: page 10, from byte 960 on, would lie in both halves. */
Test(joined, the_page_over_the_middle_is_never_used)
{
	struct pool *p = pool_make(1000, 1000, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make_joined(p, 96);

	cr_assert_eq(a->c->num_pages, 20);
	cr_assert_eq(page_class_most(a->c), 19);
	cr_assert_eq(pool_available(p, a->c), 19);
	cr_assert_geq(provide(p, a, 20), 0);
	take(p, a, 19);
	check(p);
	check_bytes(p, 8);
	cr_assert_not(holds(a, 10));
	cr_assert(holds(a, 9) && holds(a, 11) && holds(a, 19));
	free(a);
	pool_drop(p);
}

Test(joined, where_pages_end_at_the_middle_none_is_lost)
{
	struct pool *p = pool_make(10 * 96, 5 * 96, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make_joined(p, 96);

	cr_assert_eq(page_class_most(a->c), 20);
	cr_assert_eq(pool_available(p, a->c), 20);
	take(p, a, 20);
	cr_assert(holds(a, 9) && holds(a, 10));
	check(p);
	free(a);
	pool_drop(p);
}

/*
 * Extents of 100 bytes, pages of 30: extent 0 has pages 0 to 2 in the K half and 14 and 15 in the V half; page 3 goes
 * on to extent 1 in the one, page 16 in the other.
 */
Test(joined, an_extent_has_a_run_of_ids_in_each_half_with_a_straddler_of_its_own)
{
	struct pool *p = pool_make(4 * 100, 100, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make_joined(p, 30);

	take(p, a, 1);
	cr_assert_eq(a->c->n_extents, 1);
	cr_assert_eq(a->c->n_usable, 5);
	cr_assert_eq(p->extents[0].runs[0].straddler, -1);
	take(p, a, 5); /* with a second one both become whole */
	cr_assert_eq(a->c->n_extents, 2);
	cr_assert_eq(p->extents[0].runs[0].straddler, 3);
	cr_assert_eq(p->extents[0].runs[1].straddler, 16);
	check(p);
	take(p, a, a->c->n_free);
	cr_assert(holds(a, 3) && holds(a, 16));
	cr_assert_eq(p->extents[1].n_live, a->n - 5);
	put_page(a, 16);
	put_page(a, 3);
	check(p);
	cr_assert_eq(p->extents[0].n_free, 2);
	put_all(a);
	check(p);
	cr_assert_eq(pool_trim(p, 4), 2);
	check(p);
	free(a);
	pool_drop(p);
}

/* Of 7 pages that start in extent 0, 6 are promised: one of its two straddlers must be among them. */
Test(joined, an_extent_that_owes_more_than_what_lies_within_it_keeps_a_straddler)
{
	for (int32_t promised = 1; promised <= 7; promised++) {
		struct pool *p = pool_make(2 * 100, 100, WIRE_SCRUB_NEVER);
		struct holder *a = holder_make_joined(p, 30), *b = holder_make(p, 10);
		int32_t out[16], n = 0;

		cr_assert_eq(provide(p, a, pool_available(p, a->c)), -1);
		cr_assert_eq(a->c->n_extents, 2);
		for (int32_t x = 0; x < 2; x++) /* what the other extent has goes first */
			n += x == 1 ? p->extents[x].n_free : 0;
		extent_move(a->c, 1, EXTENT_EMPTY);
		page_class_take_many(a->c, out, n);
		page_class_promise(a->c, promised < a->c->n_free ? promised : a->c->n_free);
		page_class_put_many(a->c, out, n);
		check(p);
		/* what can be had now does not break the promise */
		if (pool_available(p, b->c) > 0)
			cr_assert_eq(provide(p, b, pool_available(p, b->c)), -1);
		check(p);
		page_class_place(a->c, out, a->c->n_owed);
		check(p);
		free(a);
		free(b);
		pool_drop(p);
	}
}

/* Whoever had an extent in between wrote in both halves. */
Test(joined, content_is_forgotten_in_both_halves)
{
	struct pool *p = pool_make(2 * 100, 100, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *a = holder_make_joined(p, 30), *b = holder_make(p, 10);

	take(p, a, (int32_t)pool_available(p, a->c));
	for (int32_t i = 0; i < a->n; i++)
		cr_assert_not(page_class_bind(a->c, a->held[i], 7), "page %d", a->held[i]);
	put_all(a);
	take(p, a, (int32_t)pool_available(p, a->c));
	for (int32_t i = 0; i < a->n; i++)
		cr_assert_not(page_class_bind(a->c, a->held[i], 7), "page %d was its own", a->held[i]);
	put_all(a);
	take(p, b, 20);
	put_all(b);
	take(p, a, (int32_t)pool_available(p, a->c));
	cr_assert_gt(a->n, 10);
	for (int32_t i = 0; i < a->n; i++)
		cr_assert(page_class_bind(a->c, a->held[i], 7), "page %d", a->held[i]);
	free(a);
	free(b);
	pool_drop(p);
}

Test(joined, pages_of_one_size_and_two_forms_are_two_classes)
{
	struct pool *p = pool_make(1000, 100, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make_joined(p, 40), *b = holder_make(p, 40), *same = holder_make_joined(p, 40);

	cr_assert_neq(a->index, b->index);
	cr_assert_eq(a->index, same->index);
	take(p, a, 10);
	take(p, b, 10);
	check(p);
	check_bytes(p, 4);
	free(a);
	free(b);
	free(same);
	pool_drop(p);
}

/* ---- sessions ------------------------------------------------------------------------- */

enum { P = 16, T = P * TOKEN_BYTES * 2 };

static struct model joined_model(int32_t batch, int64_t max_seq)
{
	struct model m = make_model(64, P, batch, max_seq);

	m.groups[0].form = WIRE_JOINED;
	return m;
}

Test(joined, the_table_has_one_row_of_ids_a_slot)
{
	uint64_t half = 10 * T + T / 2;
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half });
	struct worker w;
	uint64_t h;

	worker_open(&w, e, joined_model(2, 4 * P), half, 1);
	cr_assert_eq(w.g.page_bytes, T);
	cr_assert_eq(w.g.num_pages, 21);
	h = begin(&w, 1);
	prefill(&w, h, 3 * P);
	for (int32_t c = 0; c < w.g.width; c++)
		cr_assert_eq(w.cells[c], -1, "slot 0 begins where the cells do");
	for (int32_t c = 0; c < w.g.width; c++)
		cr_assert_eq(w.cells[w.g.width + c] >= 0, c < 3, "slot 1, column %d", c);
	worker_close(&w);
	engine_free(e);
}

Test(joined, a_page_counts_once_in_the_bytes_that_a_session_holds)
{
	uint64_t half = 10 * T;
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half });
	struct session_counts n;
	struct worker w;

	worker_open(&w, e, joined_model(2, 4 * P), half, 1);
	begin(&w, 0);
	session_count(w.s, &n);
	cr_assert_eq(n.leased, 4);
	cr_assert_eq(n.bytes, 4 * T);
	worker_close(&w);
	engine_free(e);
}

/* All pages of both halves but the middle one, and no more. */
Test(joined, a_request_of_more_pages_than_both_halves_hold_is_never)
{
	uint64_t half = 5 * T + T / 2;
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half });
	struct model m = joined_model(11, P);
	int32_t slots[11];
	struct worker w;
	uint64_t h;

	for (int32_t i = 0; i < 11; i++)
		slots[i] = i;
	worker_open(&w, e, m, half, 1);
	cr_assert_eq(request_begin(w.s, 0, 0, slots, 11, &h, &w.f), SWAKV_ENEVER);
	cr_assert_eq(request_begin(w.s, 0, 0, slots, 10, &h, &w.f), 0);
	worker_close(&w);
	engine_free(e);
}
