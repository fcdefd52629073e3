/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.h - pages that leave an extent which another class waits for (spec section 13)
 *
 * The step of a request that holds such pages binds others in their place: the
 * answer says what the worker is to copy, and the old ones wait for the end of
 * that very step. Which extents those are is emptying.h's.
 */
#ifndef SWAKV_ENGINE_MOVES_H
#define SWAKV_ENGINE_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

struct delivery;
struct group;
struct page_chains;
struct request;
struct seq;
struct session;

enum {
	MOVES_LOOKS = 2048 /* pages that one prepare looks at, whether they are to move */
};

/*
 * From now on (@pinned), or no longer, the pages of the request stay where they
 * are. 0; SWAKV_EGONE; SWAKV_EINVALID: the handle.
 */
int request_pin(struct session *s, uint64_t handle, bool pinned, struct fault *f);

/* Inside the engine: */

/* The @n pages are leased to @q, of a group that is movable. */
void moves_note(const struct session *s, struct group *g, const struct seq *q, const int32_t *pages, int32_t n);
/*
 * A step of @r has been prepared, and @r has pages in extents that are to be empty: as many of them as a prepare may
 * move are replaced, those in its rows with a record in @d. Before the delivery is collected.
 */
void moves_make(struct session *s, struct request *r, struct delivery *d);
/*
 * That step is completed with @value (0: it has ended): the old pages go to their class when that, and all that @r
 * was given before, is reached.
 */
void moves_release(struct session *s, struct request *r, uint64_t value);
/* @r ends in the middle of that step: they go to @chains (NULL: to their class). */
void moves_dissolve(struct session *s, struct request *r, struct page_chains *chains);
/* Operations that moves_make() and what follows may come to. */
uint64_t moves_weight(const struct session *s, const struct request *r);

#endif
