/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "window.h"

struct bounds {
	int64_t w, p, n, d, r;
};

/* The most pages that endpoint after endpoint needs, found by looking at each. */
static int32_t most_needed(const struct bounds *b)
{
	struct window w = window_make(b->w, (uint32_t)b->p);
	int32_t most = 0;

	for (int64_t settled = 0; settled <= b->w + b->r + 3 * b->p; settled++) {
		int32_t pages = window_end(&w, settled + b->d * b->n) - window_begin(&w, settled - b->r);

		most = pages > most ? pages : most;
	}
	return most;
}

static void compare(const struct bounds *b)
{
	struct window w = window_make(b->w, (uint32_t)b->p);
	int32_t most = most_needed(b);

	cr_assert_eq(window_bounded_pages(&w, INT32_MAX, b->n, b->d, b->r), most,
		     "W %d, P %d, n %d, D %d, R %d: %d pages, not %d", (int)b->w, (int)b->p, (int)b->n, (int)b->d,
		     (int)b->r, window_bounded_pages(&w, INT32_MAX, b->n, b->d, b->r), most);
	for (int32_t width = 1; width <= most; width++)
		cr_assert_eq(window_bounded_pages(&w, width, b->n, b->d, b->r), width);
}

Test(window, a_bounded_advance_needs_what_its_rule_says_and_no_page_less)
{
	for (int64_t p = 1; p <= 16; p *= 2)
		for (int64_t w = 1; w <= 40; w++)
			for (int64_t n = 1; n <= 9; n += 2)
				for (int64_t d = 1; d <= 3; d++)
					for (int64_t r = 0; r <= 6; r += 2)
						compare(&(struct bounds){ w, p, n, d, r });
}

Test(window, a_bounded_advance_of_huge_numbers_takes_the_width)
{
	const int64_t huge = INT32_MAX;
	struct window w = window_make(huge, 16);

	cr_assert_eq(window_bounded_pages(&w, 100, huge, huge, huge), 100);
	cr_assert_eq(window_bounded_pages(&w, INT32_MAX / 16 + 1, 1, 1, 0), INT32_MAX / 16 + 1);
}
