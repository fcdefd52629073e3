/* SPDX-License-Identifier: Apache-2.0 */
/*
 * givers.h - sessions that manage pages in extents which are to come empty (spec section 13)
 *
 * Such pages cannot be moved, but their sessions may be asked for them: they are
 * told which ones, as ranges of ids, beside how many they are asked for (press.h).
 */
#ifndef SWAKV_ENGINE_GIVERS_H
#define SWAKV_ENGINE_GIVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "page_range.h"

struct engine;
struct group;
struct page_class;
struct session;

/* The ranges of @group that the session is told, of those that manage pages there: how many, WIRE_RANGES at most. */
uint32_t session_give_ranges(const struct session *s, uint32_t group, struct page_range out[]);

/* Inside the engine: */

struct giver {
	struct session *session;
	struct group *group;
	bool asked; /* it may be, for pages that others lack */
};
enum { GIVERS_MOST = 256 };
struct givers {
	struct giver of[GIVERS_MOST];
	int32_t n;
	bool any_asked;
};

/* All groups with pages that their sessions manage, GIVERS_MOST at most. Valid until others are served. */
void givers_find(struct givers *l, struct engine *e);
/* A digest of which sessions manage pages that they may be asked for. */
uint64_t givers_askable(const struct engine *e);
/* Who manages page @page of @c; NULL: none of them. */
const struct giver *giver_of(const struct givers *l, const struct page_class *c, int32_t page);
/* Those that may be asked are told their pages in extents that are to come empty. */
void givers_tell(const struct givers *l, struct engine *e);
/* Nobody is told any. */
void givers_forget(struct engine *e);
/*
 * That was it: whoever is told other ones than before, or none any more, hears of that (press.h), since it may sleep.
 * A digest of what all are told.
 */
uint64_t givers_compare(struct engine *e);

#endif
