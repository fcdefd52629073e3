/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - window arithmetic (spec section 2), all in 64 bits
 *
 * The window counts the current token: a sequence with endpoint e reads
 * positions [e - W, e). Logical page j holds positions [j * P, (j + 1) * P).
 */
#ifndef SWAKV_WINDOW_H
#define SWAKV_WINDOW_H

#include <stdint.h>

#define WINDOW_UNLIMITED (INT64_MAX / 4) /* tokens of a full group: nothing ever leaves */

struct window {
	int64_t tokens;   /* W > 0 */
	int64_t per_page; /* P > 0, a power of two */
	int shift;        /* log2 P */
};

static inline struct window window_make(int64_t tokens, uint32_t per_page)
{
	return (struct window){ tokens, per_page, __builtin_ctz(per_page) };
}

/* One past the last logical page that endpoint @e retains. */
static inline int32_t window_end(const struct window *w, int64_t e)
{
	return (int32_t)((e + w->per_page - 1) >> w->shift);
}

/* First logical page that endpoint @e retains. Saturates: a window longer than the sequence starts at 0. */
static inline int32_t window_begin(const struct window *w, int64_t e)
{
	return e > w->tokens ? (int32_t)((e - w->tokens) >> w->shift) : 0;
}

/* M: the most pages one window can touch, plus the page-boundary allowance. */
static inline int64_t window_most_pages(const struct window *w)
{
	return (w->tokens >> w->shift) + ((w->tokens & (w->per_page - 1)) != 0) + 1;
}

/* Pages a sequence reserves that may grow to @width pages: min(2M + 1, width). */
static inline int32_t window_private_pages(const struct window *w, int32_t width)
{
	int64_t m = window_most_pages(w);

	return m >= width ? width : (int32_t)(2 * m + 1 < width ? 2 * m + 1 : width);
}

/*
 * Pages that a sequence needs at most at a time when it advances by at most @n
 * tokens a step, with @in_flight steps prepared whose completion nobody has
 * seen, the new one included, and @rewind settled tokens that may be taken back:
 * the oldest position that must stay and the newest one that is mapped lie less
 * than W + R + D * n tokens apart, and so many tokens touch at most
 * ceil((that - 1) / P) + 1 pages. @n, @in_flight and @rewind below 2^31.
 */
static inline int32_t window_bounded_pages(const struct window *w, int32_t width, int64_t n, int64_t in_flight,
					   int64_t rewind)
{
	int64_t span = in_flight * n - 1 + rewind;
	int64_t most = (int64_t)width << w->shift;

	/* Compared as differences: W may be close to the largest integer. */
	if (span >= most || w->tokens >= most - span)
		return width;
	span = (w->tokens + span + w->per_page - 1) >> w->shift;
	return span + 1 < width ? (int32_t)span + 1 : width;
}

/* Columns of a row that holds @tokens. */
static inline int32_t window_width(const struct window *w, int64_t tokens)
{
	return (int32_t)((tokens + w->per_page - 1) >> w->shift);
}

/*
 * Least endpoint above @e at which the retained range changes, or @limit + 1
 * (the first endpoint that does not fit) when that comes first. Steps of one
 * token below it change no table entry.
 */
static inline int64_t window_next_change(const struct window *w, int64_t e, int64_t limit)
{
	int64_t maps = ((e + w->per_page - 1) & ~(w->per_page - 1)) + 1;
	int64_t over = e > w->tokens ? e - w->tokens : 0;
	int64_t least = maps < limit + 1 ? maps : limit + 1;

	/* Compared as differences: W may be close to the largest integer. */
	int64_t stages = (over & ~(w->per_page - 1)) + w->per_page;

	return w->tokens < least - stages ? w->tokens + stages : least;
}

#endif
