/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice.h - which extents are kept for a class that lacks pages
 *
 * Those that cost the others least: empty ones first, then those with the fewest
 * live pages; after them such as were waited for in vain before, or somebody who
 * stays would be waited for again and again; and such with pages in quarantine last,
 * since nobody knows when these return; of equal ones the lowest. Chosen once: whatever comes free in
 * them joins, and nothing else does. One that others made up for is left again.
 */
#ifndef SWAKV_CHOICE_H
#define SWAKV_CHOICE_H

#include "extents.h"

/* Extents that were chosen together. */
struct choice {
	int32_t first;   /* chained by their next_chosen; -1: none */
	int32_t n;       /* of them */
	uint64_t joined; /* counts pages that came free in them */
};

/* All extents of @k are as others again; they stay chained, for choice_restore(). */
void choice_lift(struct pool *p, struct choice *k);
/* After choice_lift(): they are chosen again. */
void choice_restore(struct pool *p, struct choice *k);

/*
 * Chooses extents into @k, which is empty, until the free pages of @c above what
 * is promised to others (c->promised) and those that lie in chosen extents are
 * @pages, once these are empty. What was given up after @since comes later. Leaves what other classes are promised, and
 * @spare extents that are free. The free pages outside of @k that count are promised, too, and are returned in *@kept.
 * False, and nothing is chosen: there are not so many. Looks at each extent once, and takes them from a heap: n + k log
 * n steps.
 */
bool choice_make(struct pool *p, struct choice *k, struct page_class *c, int64_t pages, int64_t spare, uint64_t since,
		 int64_t *kept);
/*
 * Chooses extents into @k, which is empty, of those that other classes use: as
 * choice_make() would, until @pages pages of @c would lie in them and in empty ones
 * between them, or as far as it goes. Only such as @s allows, and whose live pages that
 * need another place have room among the free pages of their own class, above what that
 * is promised; those are promised then. Returns how many pages are lacking still.
 */
struct seek {
	int32_t (*places)(struct seek *s, int32_t x); /* pages of extent @x that need another place, -1: it must stay */
	void (*crowded)(struct seek *s, int32_t x);   /* there are not so many */
};
int64_t choice_seek(struct pool *p, struct choice *k, struct page_class *c, int64_t pages, struct seek *s);
/* Time is up: extents of @k that have live pages still were waited for in vain. */
void choice_give_up(struct pool *p, const struct choice *k, uint64_t stamp);
/* None is chosen any more. @lifted: by choice_lift() already. */
void choice_drop(struct pool *p, struct choice *k, bool lifted);

#endif
