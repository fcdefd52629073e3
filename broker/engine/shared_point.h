/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_point.h - a completion point at which several requests wait
 *
 * A mark ends the step of every request in a batch, so those that are given the
 * same value of a line, and have no pages behind it, wait at one point. It counts
 * as one for each of them, as if they had their own: what may still be promised
 * (transition.h), and what is told of a request or a session, does not depend on
 * who shares.
 *
 * Those of a line are numbered in the order of their values, and a request has a
 * bit for each of the last SHARED_MOST: joining costs a shift, and when one is
 * reached nobody looks at its requests. Who cannot join has a point of its own.
 */
#ifndef SWAKV_ENGINE_SHARED_POINT_H
#define SWAKV_ENGINE_SHARED_POINT_H

#include "session.h"

/*
 * The one of @line at @value, which is the newest or higher than all before, for
 * requests that are still to join; NULL: there is none, and no more can be open.
 */
struct point *shared_point_open(struct session *s, uint32_t line, uint64_t value);

/* @r, which has no point of its value yet, waits at @p, one of its line that is the newest. */
static inline void shared_point_add(struct session *s, struct request *r, struct point *p)
{
	uint64_t shift = p->number - r->shared_last;

	r->shared_mask = (shift < SHARED_MOST ? r->shared_mask << shift : 0) | 1;
	r->shared_last = p->number;
	p->n_members++;
	s->n_points++;
}

/* @p is closed unless somebody waits at it. */
void shared_point_settle(struct session *s, struct point *p);
/* @r waits for @value at a shared point from now on; false: it cannot. */
bool shared_point_join(struct session *s, struct request *r, uint64_t value);
/* It does so. */
bool shared_point_has(const struct session *s, const struct request *r, uint64_t value);
/* It does so no longer, if it did: a point that nobody waits at is closed. */
void shared_point_leave(struct session *s, struct request *r, uint64_t value);
/* The same of all values. When the session has ended its points are closed with their lines instead. */
void shared_point_leave_all(struct session *s, struct request *r);
/* @p is reached. */
void shared_point_reached(struct session *s, const struct point *p);
/* The open ones at which @r waits: bit i is number shared_last - i. */
uint32_t shared_points_of(const struct session *s, const struct request *r);
/* What @r waits at, shared and its own. */
static inline uint32_t request_open_points(const struct session *s, const struct request *r)
{
	return r->n_points + (uint32_t)__builtin_popcount(shared_points_of(s, r));
}

#endif
