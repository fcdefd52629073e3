/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "histogram.h"

Test(histogram, empty_has_no_quantile)
{
	static struct histogram h;

	cr_assert_eq(histogram_quantile(&h, 0.5), 0);
}

Test(histogram, small_values_are_exact)
{
	static struct histogram h;

	for (uint64_t v = 0; v < 64; v++)
		histogram_add(&h, v);
	cr_assert_eq(histogram_quantile(&h, 0), 0);
	cr_assert_eq(histogram_quantile(&h, 0.5), 32);
	cr_assert_eq(histogram_quantile(&h, 1), 63);
}

Test(histogram, quantiles_are_at_most_one_step_high)
{
	static struct histogram h;

	for (uint64_t v = 1; v <= 100000; v++)
		histogram_add(&h, v * 1000);
	for (int percent = 1; percent < 100; percent++) {
		uint64_t got = histogram_quantile(&h, percent / 100.0), want = (uint64_t)percent * 1000000;

		cr_assert(got >= want && got <= want + want / 31 + 1000, "p%d: %lu", percent, (unsigned long)got);
	}
}

Test(histogram, largest_value_has_a_step)
{
	static struct histogram h;

	histogram_add(&h, UINT64_MAX);
	cr_assert_eq(histogram_quantile(&h, 0.5), UINT64_MAX);
}
