/* SPDX-License-Identifier: Apache-2.0 */
/*
 * points.c - completion points, and where pages go when one is reached
 *
 * A point holds a chain of pages that may still be read by device work, and the
 * value of the line that proves the end of that work (spec section 6). Points
 * of a line stand in the order of their values, so reaching a value looks at
 * the points it closes and one more. A page is marked with the sequence whose
 * reservation it returns to.
 */
#include "points.h"

#include "bug.h"
#include "internal.h"
#include "shared_point.h"
#include "slice.h"

static struct point *point_new(struct session *s)
{
	struct point *p;

	MUST(s->free_point >= 0);
	p = &s->points[s->free_point];
	s->free_point = p->next;
	s->n_points++;
	return p;
}

/* @p has been opened just now. */
static void age_append(struct session *s, struct point *p)
{
	int32_t index = (int32_t)(p - s->points);

	p->older = s->newest_point;
	p->newer = -1;
	if (p->older < 0)
		s->oldest_point = index;
	else
		s->points[p->older].newer = index;
	s->newest_point = index;
}

static void age_remove(struct session *s, const struct point *p)
{
	if (p->older < 0)
		s->oldest_point = p->newer;
	else
		s->points[p->older].newer = p->newer;
	if (p->newer < 0)
		s->newest_point = p->older;
	else
		s->points[p->newer].older = p->older;
}

static void point_free(struct session *s, struct point *p)
{
	age_remove(s, p);
	p->next = s->free_point;
	s->free_point = (int32_t)(p - s->points);
	s->n_points -= p->request == POINT_SHARED ? p->n_members : 1;
}

/* Nearly always the last place of the line; requests of one stream may complete in another order. */
static void line_insert(struct session *s, struct line *l, struct point *p)
{
	int32_t index = (int32_t)(p - s->points), after = l->last_point, left = slice_part(s, INT32_MAX);

	for (; after >= 0 && s->points[after].value > p->value; after = s->points[after].prev)
		slice_step(s, &left, 1);
	slice_rest(s, left);
	p->prev = after;
	p->next = after < 0 ? l->first_point : s->points[after].next;
	if (p->prev < 0)
		l->first_point = index;
	else
		s->points[p->prev].next = index;
	if (p->next < 0)
		l->last_point = index;
	else
		s->points[p->next].prev = index;
}

static void line_remove(struct session *s, struct line *l, struct point *p)
{
	if (p->prev < 0)
		l->first_point = p->next;
	else
		s->points[p->prev].next = p->next;
	if (p->next < 0)
		l->last_point = p->prev;
	else
		s->points[p->next].prev = p->prev;
}

/* The others of its ring wait without @p. Returns one of them, NULL: there is none. */
static struct point *ring_leave(struct session *s, struct point *p)
{
	int32_t index = (int32_t)(p - s->points), other = p->beside;

	if (other == index)
		return NULL;
	while (s->points[other].beside != index)
		other = s->points[other].beside;
	s->points[other].beside = p->beside;
	p->beside = index;
	return &s->points[other];
}

void point_close(struct session *s, struct point *p)
{
	(void)ring_leave(s, p);
	line_remove(s, &s->lines[p->line], p);
	point_free(s, p);
}

/* Nearly always its newest, or none: values seldom fall. */
static struct point *point_of(struct session *s, const struct request *r, uint64_t value)
{
	int32_t left = slice_part(s, INT32_MAX), i = value > r->last_value ? -1 : r->first_point;

	for (; i >= 0 && s->points[i].value != value; i = s->points[i].same_request)
		slice_step(s, &left, 1);
	slice_rest(s, left);
	return i < 0 ? NULL : &s->points[i];
}

/* @p is the newest of its request. */
static void request_note(struct session *s, struct request *r, struct point *p)
{
	int32_t index = (int32_t)(p - s->points);

	p->request = (int32_t)(r - s->requests);
	p->same_request = r->first_point;
	p->after = -1;
	if (r->first_point >= 0)
		s->points[r->first_point].after = index;
	r->first_point = index;
	r->n_points++;
}

/* Takes @p out of its request's chain. */
static void request_forget(struct session *s, const struct point *p)
{
	struct request *r = &s->requests[p->request];

	if (p->after < 0)
		r->first_point = p->same_request;
	else
		s->points[p->after].same_request = p->same_request;
	if (p->same_request >= 0)
		s->points[p->same_request].after = p->after;
	r->n_points--;
}

struct point *point_add(struct session *s, uint32_t line, uint64_t value)
{
	struct point *p = point_new(s);

	*p = (struct point){
		.value = value,
		.line = line,
		.request = -1,
		.same_request = -1,
		.beside = (int32_t)(p - s->points),
		.stamp = s->engine->stamp,
	};
	for (uint32_t g = 0; g < s->n_groups; g++)
		*point_chain(s, p, g) = PAGE_CHAIN_EMPTY;
	line_insert(s, &s->lines[line], p);
	age_append(s, p);
	return p;
}

static void point_append(struct session *s, struct point *p, const struct page_chains *pages)
{
	for (uint32_t g = 0; g < s->n_groups; g++) {
		s->n_behind += pages->of[g].n;
		page_chain_append(s->groups[g].class, point_chain(s, p, g), &pages->of[g]);
		s->groups[g].n_leaving += p->request < 0 ? pages->of[g].n : 0;
	}
}

void point_wait(struct session *s, struct request *r, uint64_t value)
{
	if (value <= r->last_value && (point_of(s, r, value) || shared_point_has(s, r, value)))
		return;
	if (!shared_point_join(s, r, value))
		request_note(s, r, point_add(s, r->stream, value));
}

void point_open(struct session *s, uint32_t line, uint64_t value, struct request *r, const struct page_chains *pages)
{
	struct point *p = r ? point_of(s, r, value) : NULL;

	if (!p && r)
		shared_point_leave(s, r, value);
	if (!p) {
		p = point_add(s, line, value);
		if (r)
			request_note(s, r, p);
	}
	point_append(s, p, pages);
}

/* The last point of @line, when pages that wait for @value alone may join it; NULL: it is another one. */
static struct point *last_alike(struct session *s, uint32_t line, uint64_t value)
{
	int32_t last = s->lines[line].last_point;
	struct point *p = last < 0 ? NULL : &s->points[last];

	return p && p->value == value && p->request == -1 && p->beside == last ? p : NULL;
}

void pages_release_behind(struct session *s, const struct line_value *values, uint32_t n,
			  const struct page_chains *chains)
{
	struct point *first = n == 1 ? last_alike(s, values[0].line, values[0].value) : NULL;

	if (n == 0) {
		FOR_EACH_GROUP (g, s)
			page_chain_return(s, g, &chains->of[g->index]);
		return;
	}
	if (!first)
		first = point_add(s, values[0].line, values[0].value);
	for (uint32_t i = 1; i < n; i++) {
		struct point *p = point_add(s, values[i].line, values[i].value);

		p->beside = first->beside;
		first->beside = (int32_t)(p - s->points);
	}
	point_append(s, first, chains);
}

/* Every page of @chain returns to the sequence it is marked with. */
static void chain_give_back(struct session *s, struct group *g, const struct page_chain *chain)
{
	int32_t left = slice_part(s, INT32_MAX);

	for (int32_t page = chain->first, next; page >= 0; page = next) {
		struct seq *q = &s->seqs[g->class->owner[page]];

		next = g->class->link[page];
		seq_span(g, q)->n_staged--;
		seq_give_back(g, q, page);
		slice_step(s, &left, SLICE_PUT);
	}
	slice_rest(s, left);
}

static void point_reached(struct session *s, struct point *p)
{
	struct point *other = ring_leave(s, p);

	line_remove(s, &s->lines[p->line], p);
	if (p->request == POINT_SHARED)
		shared_point_reached(s, p);
	if (p->request >= 0)
		request_forget(s, p);
	FOR_EACH_GROUP (g, s) {
		const struct page_chain *chain = point_chain(s, p, g->index);

		if (other) {
			page_chain_append(g->class, point_chain(s, other, g->index), chain);
			continue;
		}
		s->n_behind -= chain->n;
		if (p->request < 0) {
			g->n_leaving -= chain->n;
			page_chain_return(s, g, chain);
		} else {
			chain_give_back(s, g, chain);
		}
	}
	point_free(s, p);
	slice_spend(s, 1);
}

void session_reach(struct session *s, uint32_t line, uint64_t word)
{
	struct line *l;

	if (line >= s->model.n_streams || word <= s->lines[line].reached || s->ended)
		return;
	l = &s->lines[line];
	l->reached = word;
	s->change++;
	while (l->first_point >= 0 && s->points[l->first_point].value <= word)
		point_reached(s, &s->points[l->first_point]);
}

bool session_oldest_point(const struct session *s, uint64_t *stamp, uint32_t *line)
{
	if (s->oldest_point < 0)
		return false;
	*stamp = s->points[s->oldest_point].stamp;
	*line = s->points[s->oldest_point].line;
	return true;
}

bool session_has_open(const struct session *s, int line)
{
	return line < 0 ? s->n_points > 0 : s->lines[line].first_point >= 0;
}

void point_absorb(struct session *s, struct request *r, struct page_chains *chains)
{
	shared_point_leave_all(s, r);
	while (r->first_point >= 0) {
		struct point *p = &s->points[r->first_point];

		for (uint32_t g = 0; g < s->n_groups; g++) {
			s->n_behind -= point_chain(s, p, g)->n;
			page_chain_append(s->groups[g].class, &chains->of[g], point_chain(s, p, g));
		}
		r->first_point = p->same_request;
		point_close(s, p);
		slice_spend(s, (int32_t)s->n_groups);
	}
	r->n_points = 0;
}

static void chain_extract(struct session *s, struct page_class *c, struct page_chain *from, struct page_chain *chain)
{
	struct page_chain rest = PAGE_CHAIN_EMPTY;
	int32_t before = from->n;

	for (int32_t page = from->first, next; page >= 0; page = next) {
		int32_t seq = c->owner[page];

		next = c->link[page];
		page_chain_add(c, s->seqs[seq].map < 0 ? chain : &rest, page, seq);
		slice_spend(s, 1);
	}
	*from = rest;
	s->n_behind -= before - rest.n;
}

void point_extract(struct session *s, struct request *r, struct page_chains *chains)
{
	for (int32_t i = r->first_point; i >= 0; i = s->points[i].same_request) {
		for (uint32_t g = 0; g < s->n_groups; g++)
			chain_extract(s, s->groups[g].class, point_chain(s, &s->points[i], g), &chains->of[g]);
		slice_spend(s, (int32_t)s->n_groups);
	}
}

void pages_release(struct session *s, uint32_t line, uint64_t value, const struct page_chains *chains)
{
	if (page_chains_count(chains, s->n_groups) == 0)
		return;
	if (value > s->lines[line].reached) {
		point_open(s, line, value, NULL, chains);
		return;
	}
	pages_release_behind(s, NULL, 0, chains);
}
