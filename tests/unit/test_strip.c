/* SPDX-License-Identifier: Apache-2.0 */
/* test_strip.c - what is said of pages that lie side by side, as if it were said page by page; and strips that end at a
 * border */
#include "pool_fixture.h"
#include "strip.h"

enum { MOST = 200, BITS = 320 };

Test(strip, is_found_up_and_down_as_far_as_it_goes)
{
	int32_t ids[MOST];

	for (int32_t length = 1; length <= MOST; length++) {
		for (int down = 0; down < 2; down++) {
			struct strip s;

			for (int32_t i = 0; i < MOST; i++)
				ids[i] = i < length ? (down ? 1000 - i : 1000 + i) : -7;
			s = strip_find(ids, MOST);
			cr_assert_eq(s.n, length);
			cr_assert_eq(s.first, down ? 1000 - length + 1 : 1000);
			cr_assert(length == 1 || s.down == (down == 1));
			cr_assert_eq(strip_find(ids, length).n, length);
		}
	}
}

Test(strip, numbers_that_no_page_has_are_not_added_up_wrongly)
{
	const int32_t over[] = { INT32_MAX, INT32_MIN }, under[] = { INT32_MIN, INT32_MAX }, twice[] = { 5, 5 };

	cr_assert_eq(strip_find(over, 2).first, INT32_MAX);
	cr_assert_eq(strip_find(under, 2).first, INT32_MAX);
	cr_assert_eq(strip_find(twice, 2).n, 1);
}

Test(strip, is_written_in_its_order_and_not_one_number_more)
{
	for (int32_t n = 1; n < MOST; n++) {
		for (int down = 0; down < 2; down++) {
			int32_t ids[MOST + 1];
			struct strip s = { 40, n, down == 1 }, found;

			memset(ids, 0x55, sizeof(ids));
			strip_list(s, ids);
			found = strip_find(ids, n);
			cr_assert_eq(found.first, 40);
			cr_assert_eq(found.n, n);
			cr_assert_eq(ids[n], 0x55555555);
			strip_invert((uint32_t *)ids, n);
			for (int32_t i = 0; i < n; i++)
				cr_assert_eq(ids[i], ~(down ? 40 + n - 1 - i : 40 + i));
			cr_assert_eq(ids[n], 0x55555555);
		}
	}
}

Test(strip, bytes_turn_and_one_that_is_wrong_is_noticed_wherever_it_is)
{
	for (int32_t n = 1; n < MOST; n++) {
		uint8_t bytes[MOST + 1];

		memset(bytes, 2, sizeof(bytes));
		cr_assert(strip_turn(bytes, n, 2, 0, 1));
		for (int32_t i = 0; i <= MOST; i++)
			cr_assert_eq(bytes[i], i < n ? 1 : 2);
		bytes[n / 3] = 0;
		cr_assert(strip_turn(bytes, n, 0, 1, 2), "0 and 1 are allowed");
		for (int32_t wrong = 0; wrong < n; wrong++) {
			bytes[wrong] = 3;
			cr_assert_not(strip_turn(bytes, n, 2, 0, 2));
		}
	}
}

Test(strip, bits_are_those_of_its_pages)
{
	for (int32_t first = 0; first < 130; first++) {
		for (int32_t n = 1; n < 150; n++) {
			uint64_t bits[BITS / STRIP_WORD] = { 0 };
			struct strip s = { first, n, false };

			strip_set(bits, s);
			for (int32_t i = 0; i < BITS; i++)
				cr_assert_eq(bits[i / STRIP_WORD] >> (i % STRIP_WORD) & 1, i >= first && i < first + n);
			cr_assert(strip_is_set(bits, s));
			cr_assert_not(strip_is_set(bits, (struct strip){ first, n + 1, false }));
			strip_clear(bits, (struct strip){ first + n - 1, 1, false });
			cr_assert_not(strip_is_set(bits, s));
			strip_clear(bits, s);
			for (int32_t i = 0; i < BITS / STRIP_WORD; i++)
				cr_assert_eq(bits[i], 0);
		}
	}
}

/* Gives all pages of @h back in the order of their ids, or against it, in one call. */
static void put_in_order(struct pool *p, struct holder *h, bool down)
{
	int32_t ids[MAX_PAGES], n = 0;

	for (int32_t page = 0; page < h->c->num_pages; page++)
		if (h->c->state[page] == PAGE_LEASED)
			ids[n++] = page;
	cr_assert_eq(n, h->n);
	for (int32_t i = 0; down && i < n / 2; i++) {
		int32_t page = ids[i];

		ids[i] = ids[n - 1 - i];
		ids[n - 1 - i] = page;
	}
	page_class_put_many(h->c, ids, n);
	h->n = 0;
	check(p);
}

/* Four extents of four pages each in both halves, none over a border: page 15 and page 16 are neighbours. */
Test(strip, ends_where_its_extent_ends_and_its_half)
{
	for (int down = 0; down < 2; down++) {
		struct pool *p = pool_make(4 * 64, 64, WIRE_SCRUB_NEVER);
		struct holder *h = holder_make_joined(p, 16);

		for (int i = 0; i < 3; i++) {
			take(p, h, 32);
			check(p);
			put_in_order(p, h, down == 1);
			for (int32_t x = 0; x < 4; x++)
				cr_assert_eq(p->extents[x].n_free, 8);
		}
		free(h);
		pool_drop(p);
	}
}

/* Extents of 100 bytes, pages of 30: every third or so straddles. */
Test(strip, ends_at_a_page_that_lies_in_two_extents)
{
	for (int down = 0; down < 2; down++) {
		struct pool *p = pool_make(8 * 100, 100, WIRE_SCRUB_NEVER);
		struct holder *h = down ? holder_make_joined(p, 30) : holder_make(p, 30);

		for (int i = 0; i < 3; i++) {
			take(p, h, page_class_most(h->c));
			check(p);
			put_in_order(p, h, down == 1);
		}
		free(h);
		pool_drop(p);
	}
}

Test(strip, pages_that_came_back_last_go_out_first_whatever_lay_beside_them)
{
	struct pool *p = pool_make(64 * 16, 64 * 16, WIRE_SCRUB_NEVER);
	struct holder *h = holder_make(p, 16);
	static const int32_t back[] = { 4, 5, 6, 3, 20, 19, 21, 22, 7, 8 };
	int32_t n = sizeof(back) / sizeof(back[0]);

	take(p, h, 64);
	for (int32_t i = 0; i < n; i++) {
		put_page(h, back[i]);
		check(p);
	}
	for (int32_t i = n; i-- > 0;) {
		take(p, h, 1);
		cr_assert_eq(h->held[h->n - 1], back[i]);
		check(p);
	}
	free(h);
	pool_drop(p);
}
