/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_random.c - extents and pages under random changes, and in pools of the largest sizes
 */
#include "pool_fixture.h"

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
	uint64_t extent = 8 * (1 + dice_below(&d, 12)),
		 half = extent * (2 + dice_below(&d, 20)) + 8 * dice_below(&d, 8);
	struct pool *p = pool_make(half, extent, WIRE_SCRUB_OWNER_CHANGE);
	struct holder *h[3];

	for (int i = 0; i < 3;) {
		uint64_t size = 8 * (1 + dice_below(&d, dice_below(&d, 2) ? 6 : 24));
		struct page_key key = { size, dice_below(&d, 2) };
		bool same = false;

		for (int k = 0; k < i; k++)
			same |= page_key_equal(h[k]->c->key, key);
		if (!same && size <= half)
			h[i++] = holder_of(p, key);
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

Test(pool_random, a_million_changes_at_random_keep_every_account, .timeout = 110)
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

Test(pool_random, when_pages_fill_extents_exactly_needs_are_refused_only_for_lack_of_extents)
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

Test(pool_random, offsets_do_not_wrap_in_a_pool_of_139_gib)
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

Test(pool_random, ten_million_pages_touch_memory_only_for_those_taken)
{
	struct pool *p = pool_make(10000000ull * 256, 10000000ull * 256, WIRE_SCRUB_NEVER);
	struct holder *a = holder_make(p, 256);

	take(p, a, 1000);
	cr_assert_eq(a->c->n_free, 10000000 - 1000);
	cr_assert_eq(p->extents[0].runs[0].fresh, 1000, "no list is made of pages that nobody took");
	put_all(a);
	cr_assert_eq(pool_trim(p, 1), 1);
	cr_assert_eq(a->c->n_free, 0);
	free(a);
	pool_drop(p);
}
