/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - window arithmetic and what a sequence reserves (spec section 2), all in 64 bits
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

/* What a layer group keeps of an endpoint: its window (0: full attention) and what a rewind may bring back. */
static inline struct window window_kept(int64_t window, int64_t max_rewind, uint32_t per_page)
{
	return window_make(window ? window + max_rewind : WINDOW_UNLIMITED, per_page);
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

/* Columns of a row that holds @tokens. */
static inline int32_t window_width(const struct window *w, int64_t tokens)
{
	return (int32_t)((tokens + w->per_page - 1) >> w->shift);
}

/* Pages of steps of any length, of a row of @width: min(2M + 1, width). */
static inline int32_t window_private_pages(const struct window *w, int32_t width)
{
	int64_t m = window_most_pages(w);

	return m >= width ? width : (int32_t)(2 * m + 1 < width ? 2 * m + 1 : width);
}

/*
 * Pages of a window and of @tokens behind it: so many positions in a row touch at
 * most ceil((W + @tokens - 1) / P) + 1, wherever they begin on a page. @tokens
 * below 2^62.
 */
static inline int32_t window_bounded_pages(const struct window *w, int32_t width, int64_t tokens)
{
	int64_t span = tokens - 1, most = (int64_t)width << w->shift;

	/* Compared as differences: W may be close to the largest integer. */
	if (span >= most || w->tokens >= most - span)
		return width;
	span = (w->tokens + span + w->per_page - 1) >> w->shift;
	return span + 1 < width ? (int32_t)span + 1 : width;
}

/*
 * Pages that a sequence of up to @tokens tokens reserves, of a group that keeps
 * @w (W + R tokens, or everything), when its longest step has @max_advance
 * tokens (0: any). @overlapping is 1 where the steps of a request run in the
 * order of its stream, whatever their number in flight.
 *
 * Between two steps a sequence holds what lies in [H - R - W, E), H the highest
 * endpoint it ever had and E <= H; a step of n tokens maps up to E + n, and what
 * it leaves behind comes back when it completes, for the steps behind it on its
 * stream. So it never holds more than W + R + n tokens in a row touch, and for
 * some E as many: how many steps are in flight does not matter. Where steps have
 * no order, what D of them use is there at a time: W + R + D n.
 */
static inline int32_t window_reservation(const struct window *w, int64_t tokens, int64_t max_advance,
					 int64_t overlapping)
{
	int32_t width = window_width(w, tokens);

	if (max_advance == 0)
		return window_private_pages(w, width);
	return window_bounded_pages(w, width, overlapping * max_advance);
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
