/* SPDX-License-Identifier: Apache-2.0 */
/* shared_point.c - see shared_point.h */
#include "shared_point.h"

#include "internal.h"
#include "slice.h"

/* Number @number of @l; NULL: nobody waits at it. It is not reached. */
static struct point *numbered(const struct session *s, const struct line *l, uint64_t number)
{
	int32_t index = l->shared[number % SHARED_MOST];

	return index < 0 ? NULL : &s->points[index];
}

/* Looks at SHARED_MOST at most. */
static struct point *find(const struct session *s, const struct line *l, uint64_t value)
{
	for (uint64_t i = l->shared_last; i > l->shared_reached && value <= l->shared_value; i--) {
		struct point *p = numbered(s, l, i);

		if (p && p->value <= value)
			return p->value == value ? p : NULL;
	}
	return NULL;
}

struct point *shared_point_open(struct session *s, uint32_t line, uint64_t value)
{
	struct line *l = &s->lines[line];
	struct point *p;

	if (value <= l->shared_value) {
		p = l->shared_last > l->shared_reached ? numbered(s, l, l->shared_last) : NULL;
		return p && p->value == value ? p : NULL;
	}
	if (l->shared_last - l->shared_reached == SHARED_MOST)
		return NULL;
	p = point_add(s, line, value);
	s->n_points--; /* its requests are counted */
	p->request = POINT_SHARED;
	p->number = ++l->shared_last;
	l->shared_value = value;
	l->shared[p->number % SHARED_MOST] = (int32_t)(p - s->points);
	return p;
}

bool shared_point_join(struct session *s, struct request *r, uint64_t value)
{
	struct point *p = shared_point_open(s, r->stream, value);

	if (p)
		shared_point_add(s, r, p);
	return p;
}

uint32_t shared_points_of(const struct session *s, const struct request *r)
{
	uint64_t reached = s->lines[r->stream].shared_reached;

	if (r->shared_last <= reached)
		return 0;
	if (r->shared_last - reached >= SHARED_MOST)
		return r->shared_mask;
	return r->shared_mask & ((1u << (r->shared_last - reached)) - 1);
}

/* @r waits at @p. */
static bool waits_at(const struct session *s, const struct request *r, const struct point *p)
{
	uint64_t back = r->shared_last - p->number;

	return back < SHARED_MOST && shared_points_of(s, r) >> back & 1;
}

bool shared_point_has(const struct session *s, const struct request *r, uint64_t value)
{
	const struct point *p = find(s, &s->lines[r->stream], value);

	return p && waits_at(s, r, p);
}

/* Up to number @number all are reached, or closed. */
static void pass(const struct session *s, struct line *l, uint64_t number)
{
	l->shared_reached = number;
	while (l->shared_reached < l->shared_last && !numbered(s, l, l->shared_reached + 1))
		l->shared_reached++;
}

void shared_point_settle(struct session *s, struct point *p)
{
	struct line *l = &s->lines[p->line];

	if (p->n_members > 0)
		return;
	l->shared[p->number % SHARED_MOST] = -1;
	pass(s, l, l->shared_reached);
	point_close(s, p);
}

static void leave(struct session *s, struct request *r, struct point *p)
{
	r->shared_mask &= ~(1u << (r->shared_last - p->number));
	p->n_members--;
	s->n_points--;
	shared_point_settle(s, p);
}

void shared_point_leave(struct session *s, struct request *r, uint64_t value)
{
	struct point *p = find(s, &s->lines[r->stream], value);

	if (p && waits_at(s, r, p))
		leave(s, r, p);
}

void shared_point_leave_all(struct session *s, struct request *r)
{
	uint32_t mask = s->ended ? 0 : shared_points_of(s, r);

	for (; mask; mask &= mask - 1) {
		leave(s, r, numbered(s, &s->lines[r->stream], r->shared_last - (uint64_t)__builtin_ctz(mask)));
		slice_spend(s, 1);
	}
}

void shared_point_reached(struct session *s, const struct point *p)
{
	pass(s, &s->lines[p->line], p->number);
}
