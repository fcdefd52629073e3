/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emptying.h - extents that are to come empty for another class (spec section 13)
 *
 * Chosen anew again and again while a class lacks pages: those with the fewest
 * live pages, all of which can move. Nothing is kept for anybody by that: only,
 * new pages come from such extents last, and whose pages lie in them is moved
 * (moves.h).
 */
#ifndef SWAKV_ENGINE_EMPTYING_H
#define SWAKV_ENGINE_EMPTYING_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct seq;
struct session;

/* A request that has prepared nothing for so long, in milliseconds, is idle: its pages are not waited for. */
#define EMPTYING_IDLE_MS 1000
/* So often, in milliseconds, it is decided anew. */
#define EMPTYING_AGAIN_MS 20
/* Pages looked at in one decision, whether they can move. */
#define EMPTYING_LOOKS (1 << 18)

struct emptying {
	uint64_t due;   /* stamp: when it is decided anew */
	uint64_t moved; /* pages, ever */
	/* extents that the last decision passed over: whoever has a page in them */
	uint32_t fixed;  /* says that it must stay, or manages it itself, */
	uint32_t pinned; /* has pinned it, */
	uint32_t idle;   /* or does not step */
};

/* What can be asked of it. */
struct emptying_counts {
	uint32_t extents; /* that are to come empty */
	uint32_t fixed, pinned, idle;
	uint64_t moved;
};
void engine_count_emptying(const struct engine *e, struct emptying_counts *out);
/* True when extent @extent is to come empty. */
bool engine_extent_emptying(const struct engine *e, uint32_t extent);

/* Inside the engine: */

#define TENANT_LEAVES UINT32_MAX /* of a page: nobody's any more, it waits for its step */

/*
 * Of each class @lacks[index] pages are lacking beyond what is free, or on its
 * way; NULL: none is. Which extents are to come empty for that.
 */
void emptying_review(struct engine *e, const int64_t *lacks);
/* To whom a page is leased; never 0. */
uint32_t emptying_tenant(const struct session *s, const struct seq *q);

#endif
