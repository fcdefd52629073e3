/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "device/area.h"

Test(area, first_fit_reuses_the_lowest_gap)
{
	struct area_piece *a, *b, *c, *d;
	struct area area;

	area_init(&area, 4096);
	a = area_take(&area, 1024);
	b = area_take(&area, 1024);
	c = area_take(&area, 1000);
	cr_assert_eq(a->offset, 0);
	cr_assert_eq(b->offset, 1024);
	cr_assert_eq(c->offset, 2048);
	cr_assert_eq(c->bytes, 1024);
	cr_assert_eq(area.used, 3072);
	area_give(&area, b);
	cr_assert_eq(area_largest(&area), 1024);
	cr_assert_null(area_take(&area, 1025));
	d = area_take(&area, 512);
	cr_assert_eq(d->offset, 1024);
	cr_assert_eq(area_largest(&area), 1024);
	area_give(&area, a);
	area_give(&area, c);
	area_give(&area, d);
	cr_assert_eq(area.used, 0);
	cr_assert_eq(area_largest(&area), 4096);
	area_deinit(&area);
}

Test(area, nothing_and_too_much_are_refused)
{
	struct area area;

	area_init(&area, 4096);
	cr_assert_null(area_take(&area, 0));
	cr_assert_null(area_take(&area, 4097));
	cr_assert_null(area_take(&area, UINT64_MAX));
	area_deinit(&area);
	area_deinit(&area);
}

Test(area, pieces_never_overlap)
{
	struct area_piece *pieces[64] = { 0 };
	unsigned int seed = 7;
	struct area area;

	area_init(&area, 1 << 20);
	for (int round = 0; round < 20000; round++) {
		size_t i = (size_t)rand_r(&seed) % 64;

		if (pieces[i])
			pieces[i] = area_give(&area, pieces[i]);
		else
			pieces[i] = area_take(&area, 1 + (uint64_t)rand_r(&seed) % 40000);
		for (size_t k = 0; pieces[i] && k < 64; k++)
			cr_assert(k == i || !pieces[k] || pieces[k]->offset + pieces[k]->bytes <= pieces[i]->offset ||
				  pieces[i]->offset + pieces[i]->bytes <= pieces[k]->offset);
		cr_assert(!pieces[i] || pieces[i]->offset + pieces[i]->bytes <= area.bytes);
	}
	area_deinit(&area);
}

/* Between two others, too, and when nothing else is left. */
Test(area, a_gap_of_exactly_that_size_is_taken)
{
	struct area a;
	struct area_piece *p[3];
	uint64_t at;

	area_init(&a, 3 * (uint64_t)AREA_ALIGN);
	for (int i = 0; i < 3; i++)
		cr_assert_not_null(p[i] = area_take(&a, AREA_ALIGN));
	cr_assert_null(area_take(&a, 1));
	for (int i = 0; i < 3; i++) {
		at = p[i]->offset;
		area_give(&a, p[i]);
		cr_expect_eq(area_largest(&a), AREA_ALIGN);
		cr_assert_not_null(p[i] = area_take(&a, AREA_ALIGN), "place %d", i);
		cr_expect_eq(p[i]->offset, at);
	}
	area_deinit(&a);
}
