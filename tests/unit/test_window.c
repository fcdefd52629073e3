/* SPDX-License-Identifier: Apache-2.0 */
/* What a sequence reserves: by looking at every endpoint, and by walking sequences token by token. */
#include <criterion/criterion.h>
#include <string.h>

#include "window.h"

struct bounds {
	int64_t w, p, n, d, r;
};

static int32_t reserved(const struct bounds *b, int64_t width)
{
	struct window w = window_kept(b->w, b->r, (uint32_t)b->p);

	return window_reservation(&w, width * b->p, b->n, b->d);
}

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
	int32_t most = most_needed(b);

	cr_assert_eq(reserved(b, 1 << 20), most, "W %d, P %d, n %d, D %d, R %d: %d pages, not %d", (int)b->w, (int)b->p,
		     (int)b->n, (int)b->d, (int)b->r, reserved(b, 1 << 20), most);
	for (int32_t width = 1; width <= most; width++)
		cr_assert_eq(reserved(b, width), width);
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
	struct window w = window_kept(huge, huge, 16);

	cr_assert_eq(window_reservation(&w, 100 * 16, huge, 1024), 100);
	cr_assert_eq(window_reservation(&w, huge, 1, 1), INT32_MAX / 16 + 1);
	w = window_kept(0, 0, 16);
	cr_assert_eq(window_reservation(&w, 100 * 16, huge, 1024), 100);
	cr_assert_eq(window_reservation(&w, 100 * 16, 0, 1), 100, "a group of full attention keeps everything");
}

/* ---- walks ------------------------------------------------------------------- */

enum { MOST_PAGES = 512, STEPS = 24, WIDTH = MOST_PAGES };

/*
 * A sequence whose steps are seen to complete in order, each when @in_flight
 * more have been prepared. @ordered: what a step leaves behind can be used by
 * the next one; else only when the step is seen to be complete.
 */
struct walk {
	int64_t window, page_tokens; /* W + R, P */
	bool ordered;
	bool held[MOST_PAGES];
	int staged_by[MOST_PAGES]; /* step whose completion gives the page back; 0: in the row, or not held */
	int n_held, most;
	int64_t endpoint, highest;
};

static void give_back(struct walk *w, int64_t page)
{
	w->held[page] = false;
	w->staged_by[page] = 0;
	w->n_held--;
}

static void take_back(struct walk *w, int seen)
{
	for (int page = 0; page < MOST_PAGES; page++)
		if (w->held[page] && w->staged_by[page] > 0 && w->staged_by[page] <= seen)
			give_back(w, page);
}

/* Pages with a token from @from up to @endpoint that are not there yet. */
static void map_up_to(struct walk *w, int64_t endpoint, int64_t from)
{
	for (int64_t token = from; token < endpoint; token++) {
		int64_t page = token / w->page_tokens;

		cr_assert_lt(page, MOST_PAGES);
		if (w->held[page] && w->staged_by[page] == 0)
			continue;
		if (w->held[page]) /* another page in this place: count it as one more */
			w->n_held++;
		w->held[page] = true;
		w->staged_by[page] = 0;
		w->n_held++;
	}
	if (w->n_held > w->most)
		w->most = w->n_held;
}

/* The sequence has @endpoint tokens after step @step: what it does not keep leaves. */
static void settle(struct walk *w, int64_t endpoint, int step)
{
	w->endpoint = endpoint;
	w->highest = endpoint > w->highest ? endpoint : w->highest;
	for (int64_t page = 0; page < MOST_PAGES; page++) {
		bool kept = (page + 1) * w->page_tokens > w->highest - w->window && page * w->page_tokens < endpoint;

		if (!w->held[page] || w->staged_by[page] || kept)
			continue;
		if (w->ordered)
			give_back(w, page);
		else
			w->staged_by[page] = step;
	}
}

static void walk_start(struct walk *w, const struct bounds *b, int64_t start)
{
	memset(w, 0, sizeof(*w));
	w->window = b->w + b->r;
	w->page_tokens = b->p;
	w->ordered = b->d == 1;
	map_up_to(w, start, start > w->window ? start - w->window : 0);
	settle(w, start, 0);
}

static void walk_step(struct walk *w, const struct bounds *b, int64_t tokens, int64_t accepted, int step)
{
	if (!w->ordered)
		take_back(w, step - (int)b->d);
	map_up_to(w, w->endpoint + tokens, w->endpoint);
	settle(w, w->endpoint + accepted, step);
}

/* The most pages held by a sequence that starts with @start tokens and takes steps of @n, all of them accepted. */
static int walk_steps(const struct bounds *b, int64_t start)
{
	static struct walk w;

	walk_start(&w, b, start);
	for (int step = 1; step <= STEPS; step++)
		walk_step(&w, b, b->n, b->n, step);
	return w.most;
}

/* Over all places on a page where a sequence may stand, the bound is never exceeded and once reached. */
static void check_bound(const struct bounds *b)
{
	int32_t bound = reserved(b, WIDTH);
	int most = 0;

	for (int64_t start = b->w + b->r; start < b->w + b->r + b->p; start++) {
		int held = walk_steps(b, start);

		most = held > most ? held : most;
	}
	cr_assert_eq(most, bound, "W %lld R %lld P %lld n %lld D %lld: up to %d pages are held, the bound is %d",
		     (long long)b->w, (long long)b->r, (long long)b->p, (long long)b->n, (long long)b->d, most, bound);
}

Test(window, bound_of_max_advance_is_reached_and_never_exceeded)
{
	for (int64_t page_tokens = 1; page_tokens <= 8; page_tokens *= 2)
		for (int64_t window = 1; window <= 13; window++)
			for (int64_t rewind = 0; rewind <= 5; rewind++)
				for (int64_t n = 1; n <= 9; n++)
					for (int64_t overlapping = 1; overlapping <= 4; overlapping++)
						check_bound(&(struct bounds){ window, page_tokens, n, overlapping,
									      rewind });
}

/* Numbers from 0 to @most. */
static int64_t draw(uint64_t *seed, int64_t most)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((*seed >> 33) % (uint64_t)(most + 1));
}

/* Steps of any length up to n of which a part is accepted, and rewinds, hold no more than the bound. */
static void wander(uint64_t *seed)
{
	const struct bounds b = {
		.w = 1 + draw(seed, 40), .p = 1ll << draw(seed, 4), .n = 1 + draw(seed, 11), .d = 1, .r = draw(seed, 9)
	};
	static struct walk w;
	int32_t bound = reserved(&b, WIDTH);

	walk_start(&w, &b, 1 + draw(seed, 60));
	for (int step = 1; step <= 2 * STEPS; step++) {
		int64_t tokens = 1 + draw(seed, b.n - 1), room = b.r - (w.highest - w.endpoint);

		walk_step(&w, &b, tokens, draw(seed, tokens), step);
		if (draw(seed, 3) == 0 && room > 0 && w.endpoint > room)
			settle(&w, w.endpoint - draw(seed, b.r - (w.highest - w.endpoint)), step);
		cr_assert_leq(w.most, bound, "W %lld R %lld P %lld n %lld: %d pages are held, the bound is %d",
			      (long long)b.w, (long long)b.r, (long long)b.p, (long long)b.n, w.most, bound);
	}
}

Test(window, rejected_and_rewound_tokens_hold_no_more_than_the_bound)
{
	uint64_t seed = 1;

	for (int i = 0; i < 20000; i++)
		wander(&seed);
}

Test(window, steps_shorter_than_max_advance_need_no_more)
{
	for (int64_t page_tokens = 1; page_tokens <= 8; page_tokens *= 2)
		for (int64_t window = 1; window <= 20; window++)
			for (int64_t most = 1; most <= 9; most++)
				for (int64_t n = 1; n <= most; n++)
					for (int64_t start = 0; start < 2 * page_tokens; start++) {
						const struct bounds b = { window, page_tokens, n, 3, 0 },
								    longest = { window, page_tokens, most, 3, 0 };

						cr_assert_leq(walk_steps(&b, window + start),
							      reserved(&longest, WIDTH));
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
	/* ceil((1024 + 1 - 1) / 128) + 1: no page more than the window alone touches, whatever is in flight */
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 1, 1, 0 }, 1000), 9);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 2, 1, 0 }, 1000), 10);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 32, 1, 8 }, 1000), 10);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 130, 1, 0 }, 1000), 11);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 1, 1, 0 }, 4), 4);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 0, 1, 0 }, 1000), 19);
	/* without order: ceil((1024 + 2 - 1) / 128) + 1 */
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 1, 2, 0 }, 1000), 10);
	cr_assert_eq(reserved(&(struct bounds){ 1024, 128, 65, 2, 0 }, 1000), 11);
}
