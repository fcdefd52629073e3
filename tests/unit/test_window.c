/* SPDX-License-Identifier: Apache-2.0 */
/* What a sequence reserves: by looking at every endpoint, and by walking sequences token by token. */
#include <criterion/criterion.h>
#include <string.h>

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

/* ---- walks ------------------------------------------------------------------- */

enum { MOST_PAGES = 512, STEPS = 24, WIDTH = MOST_PAGES };

/* A sequence whose steps are seen to complete in order, each when D more have been prepared. */
struct walk {
	int64_t window, page_tokens; /* W + R, P */
	bool held[MOST_PAGES];
	int staged_by[MOST_PAGES]; /* step whose completion gives the page back; 0: in the row, or not held */
	int n_held, most;
};

static void take_back(struct walk *w, int seen)
{
	for (int page = 0; page < MOST_PAGES; page++) {
		if (!w->held[page] || w->staged_by[page] == 0 || w->staged_by[page] > seen)
			continue;
		w->held[page] = false;
		w->n_held--;
	}
}

/* Pages with a token below @endpoint that are not there yet. */
static void map_up_to(struct walk *w, int64_t endpoint, int64_t from)
{
	for (int64_t token = from; token < endpoint; token++) {
		int64_t page = token / w->page_tokens;

		cr_assert_lt(page, MOST_PAGES);
		if (w->held[page])
			continue;
		w->held[page] = true;
		w->staged_by[page] = 0;
		w->n_held++;
	}
	if (w->n_held > w->most)
		w->most = w->n_held;
}

/* Pages whose last token the window of @endpoint does not reach are staged by step @step. */
static void leave(struct walk *w, int64_t endpoint, int step)
{
	for (int64_t page = 0; (page + 1) * w->page_tokens <= endpoint - w->window; page++)
		if (w->held[page] && w->staged_by[page] == 0)
			w->staged_by[page] = step;
}

/* The most pages held by a sequence that starts with @start tokens and takes steps of @n with @in_flight at a time. */
static int walk_steps(int64_t window, int64_t page_tokens, int64_t start, int64_t n, int in_flight)
{
	static struct walk w;
	int64_t first = start > window ? start - window : 0;

	memset(&w, 0, sizeof(w));
	w.window = window;
	w.page_tokens = page_tokens;
	map_up_to(&w, start, first);
	for (int step = 1; step <= STEPS; step++) {
		take_back(&w, step - in_flight);
		map_up_to(&w, start + step * n, start + (step - 1) * n);
		leave(&w, start + step * n, step);
	}
	return w.most;
}

/* Over all places on a page where a sequence may stand, the bound is never exceeded and once reached. */
static void check_bound(int64_t window, int64_t rewind, uint32_t page_tokens, int64_t n, int in_flight)
{
	struct window kept = window_make(window + rewind, page_tokens), read = window_make(window, page_tokens);
	int32_t bound = window_bounded_pages(&kept, WIDTH, n, in_flight, 0);
	int most = 0;

	cr_assert_eq(bound, window_bounded_pages(&read, WIDTH, n, in_flight, rewind));
	for (int64_t start = window + rewind; start < window + rewind + page_tokens; start++) {
		int held = walk_steps(window + rewind, page_tokens, start, n, in_flight);

		most = held > most ? held : most;
	}
	cr_assert_eq(most, bound, "W %lld R %lld P %u n %lld D %d: up to %d pages are held, the bound is %d",
		     (long long)window, (long long)rewind, page_tokens, (long long)n, in_flight, most, bound);
}

Test(window, bound_of_max_advance_is_reached_and_never_exceeded)
{
	for (uint32_t page_tokens = 1; page_tokens <= 8; page_tokens *= 2)
		for (int64_t window = 1; window <= 13; window++)
			for (int64_t rewind = 0; rewind <= 5; rewind++)
				for (int64_t n = 1; n <= 9; n++)
					for (int in_flight = 1; in_flight <= 4; in_flight++)
						check_bound(window, rewind, page_tokens, n, in_flight);
}

Test(window, steps_shorter_than_max_advance_need_no_more)
{
	for (uint32_t page_tokens = 1; page_tokens <= 8; page_tokens *= 2)
		for (int64_t window = 1; window <= 20; window++)
			for (int64_t most = 1; most <= 9; most++)
				for (int64_t n = 1; n <= most; n++)
					for (int64_t start = 0; start < 2 * page_tokens; start++) {
						struct window w = window_make(window, page_tokens);

						cr_assert_leq(walk_steps(window, page_tokens, window + start, n, 3),
							      window_bounded_pages(&w, WIDTH, most, 3, 0));
					}
}

/* Pages that two windows hold together: the one that is replaced, and as much of the new one as is not in it. */
static int pages_of_two_windows(const struct window *w, int64_t from, int64_t to)
{
	int32_t end = window_end(w, from), begin = window_begin(w, to);

	return end - window_begin(w, from) + window_end(w, to) - (begin > end ? begin : end);
}

Test(window, any_advance_finds_room_beside_the_window_it_replaces)
{
	for (uint32_t page_tokens = 1; page_tokens <= 8; page_tokens *= 2)
		for (int64_t window = 1; window <= 40; window++)
			for (int64_t from = 0; from <= 64; from++)
				for (int64_t to = from + 1; to <= 256; to++) {
					struct window w = window_make(window, page_tokens);

					cr_assert_leq(pages_of_two_windows(&w, from, to),
						      window_private_pages(&w, WIDTH));
				}
}

Test(window, bound_in_numbers)
{
	struct window w = window_make(1024, 128);

	/* ceil((1024 + 2 - 1) / 128) + 1: one page more than the window alone touches */
	cr_assert_eq(window_bounded_pages(&w, 1000, 1, 2, 0), 10);
	cr_assert_eq(window_bounded_pages(&w, 1000, 1, 1, 0), 9);
	cr_assert_eq(window_bounded_pages(&w, 1000, 8, 2, 0), 10);
	cr_assert_eq(window_bounded_pages(&w, 1000, 65, 2, 0), 11);
	cr_assert_eq(window_bounded_pages(&w, 4, 1, 2, 0), 4);
	cr_assert_eq(window_private_pages(&w, 1000), 19);
}
