/* SPDX-License-Identifier: Apache-2.0 */
/* wire_pages.h - what is to be done with pages before the work of a step: such as move, and such as are dirty */
#ifndef SWAKV_WIRE_PAGES_H
#define SWAKV_WIRE_PAGES_H

#include <stdint.h>

#define WIRE_MAX_MOVES 64 /* with one answer */

enum { WIRE_GROUP_MOVABLE = 1 /* of a group's flags: a step of a request may find its pages elsewhere */ };

/*
 * The page `from` of row `row` has moved: its column has the page `to` by the
 * updates of the same answer. On the stream of the row's slot, behind all that is
 * enqueued there and before the updates, the client copies all of it, K and V. `from`
 * is leased until the greatest value that the request was given, with the complete of
 * this step, has been reached. No page is named twice.
 */
struct wire_move {
	uint32_t row;
	int32_t from, to;
	uint32_t reserved;
};

/*
 * Columns [first, first + n) of row `row` have just been bound, and some of
 * those pages are dirty: the client fills K and V of all of them with zeroes, on
 * the stream of the row's slot, before the updates. Nothing of the session has
 * touched them yet. A row comes at most once, also one that is not touched.
 */
struct wire_scrub {
	uint32_t row;
	uint32_t first;
	uint32_t n;
	uint32_t reserved;
};

#endif
