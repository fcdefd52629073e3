/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transition.h - a request between a prepare and its complete
 *
 * At most one transition of a request is pending at a time.
 */
#ifndef SWAKV_ENGINE_TRANSITION_H
#define SWAKV_ENGINE_TRANSITION_H

#include "quarantine.h"
#include "session.h"

/* A complete may open two points (the request's own, and one of dropped sequences), a finish one. */
#define POINTS_PER_TRANSITION 2
static inline uint32_t points_spare(const struct session *s)
{
	return s->max_points - s->n_points - POINTS_PER_TRANSITION * s->n_transitions - s->n_requests;
}

/* What every prepare refuses first: SWAKV_EGONE or SWAKV_EPOISONED, as the session is; SWAKV_EINVALID: the handle. */
static inline int request_check_prepare(struct session *s, uint64_t handle, struct request **out, struct fault *f)
{
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	return request_find(s, handle, out, f);
}

/* The same, and SWAKV_EPHASE: a request that is not executing, or between a prepare and its complete. */
static inline int request_check_executing(struct session *s, uint64_t handle, struct request **out, struct fault *f)
{
	int code = request_check_prepare(s, handle, out, f);
	const struct request *r;

	if (code)
		return code;
	r = *out;
	if (r->phase != PHASE_EXECUTING)
		return fault_set(f, r->phase == PHASE_FINISHING ? FAULT_FINISHING : FAULT_NOT_EXECUTING, -1, r->phase,
				 0);
	if (r->transition != TRANSITION_NONE)
		return fault_set(f, FAULT_TRANSITION_PENDING, -1, r->transition, 0);
	return 0;
}

/* @t of @r is pending from now on, and no longer. */
static inline void transition_begin(struct session *s, struct request *r, enum transition t)
{
	r->transition = t;
	if (s->moved)
		r->stepped = s->engine->stamp;
	s->n_transitions++;
	s->change++;
}

static inline void transition_end(struct session *s, struct request *r)
{
	r->transition = TRANSITION_NONE;
	s->n_transitions--;
	s->change++;
}

/* 0 when @t is what is pending, else SWAKV_EPHASE. */
static inline int transition_check(const struct request *r, enum transition t, struct fault *f)
{
	if (r->transition != t)
		return fault_set(f, FAULT_NOT_PENDING, -1, r->transition, t);
	return 0;
}

#endif
