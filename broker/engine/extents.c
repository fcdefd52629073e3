/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extents.c - see extents.h
 *
 * An extent changes hands only when it is empty, and then whole: the pages that
 * touch it stop being usable for one class and, as far as all their bytes are
 * held, start being usable for the other.
 */
#include "extents.h"
#include "dirty.h"

#include "bug.h"

/* The two, as part of extent_move(). */
static inline void enlist(struct page_class *c, int32_t x, enum extent_kind kind)
{
	struct extent_list *l = &c->lists[kind];
	struct extent *e = &c->extents[x];

	e->kind = (uint8_t)kind;
	e->prev = -1;
	e->next = l->first;
	if (l->first >= 0)
		c->extents[l->first].prev = x;
	else
		l->last = x;
	l->first = x;
	if (kind >= EXTENT_PARTIAL)
		c->partial |= UINT32_C(1) << (kind - EXTENT_PARTIAL);
}

static inline void unlist(struct page_class *c, int32_t x)
{
	struct extent_list *l = &c->lists[c->extents[x].kind];
	const struct extent *e = &c->extents[x];

	if (e->prev < 0)
		l->first = e->next;
	else
		c->extents[e->prev].next = e->next;
	if (e->next < 0)
		l->last = e->prev;
	else
		c->extents[e->next].prev = e->prev;
	if (e->kind >= EXTENT_PARTIAL && l->first < 0)
		c->partial &= ~(UINT32_C(1) << (e->kind - EXTENT_PARTIAL));
}

void extent_enlist(struct page_class *c, int32_t x, enum extent_kind kind)
{
	enlist(c, x, kind);
}

void extent_unlist(struct page_class *c, int32_t x)
{
	unlist(c, x);
}

bool extent_kind_is_empty(enum extent_kind kind)
{
	return kind == EXTENT_EMPTY || kind == EXTENT_BARE;
}

void extent_move(struct page_class *c, int32_t x, enum extent_kind kind)
{
	int32_t more = extent_kind_is_empty(kind) - extent_kind_is_empty(c->extents[x].kind);

	unlist(c, x);
	enlist(c, x, kind);
	c->n_empty += more;
	c->pool->n_empty += more;
	c->turns += more != 0;
	c->pool->turns += more != 0;
}

/* @n pages, negative when they leave, more or less that are usable and free. */
static void class_count(struct page_class *c, int32_t n)
{
	c->n_usable += n;
	c->n_free += n;
}

bool page_is_hidden(const struct pool *p, const struct page_class *c, int32_t page)
{
	int32_t first, last;

	page_extents(p, c, page, &first, &last);
	while (last > first && !p->extents[last].choice)
		last--;
	return last > first;
}

/* The free page @page, which starts in extent @first and ends beyond it, becomes usable (@n 1), or no longer is (-1).
 */
static void straddler_come(struct pool *p, struct page_class *c, int32_t first, int32_t page, int32_t n)
{
	struct extent *e = &p->extents[first];
	bool hidden = page_is_hidden(p, c, page);

	e->runs[page_run(c, page)].straddler = n > 0 ? page : -1;
	if (!hidden)
		e->n_free += n;
	class_count(c, n);
	if (hidden || e->choice) {
		c->n_free -= n;
		c->n_withheld += n;
	}
	if (!e->choice)
		extent_file(c, first, extent_kind(e));
}

void extent_forget(struct pool *p, struct page_class *c, int32_t x)
{
	int32_t border[BORDERS];
	int n = border_pages(p, c, x, border);

	if (c->scrub == WIRE_SCRUB_NEVER)
		return;
	for (int r = 0; r < c->n_runs; r++)
		p->extents[x].runs[r].unknown = (int32_t)((c->runs[r].from + extent_start(p, x)) / c->page_bytes);
	/* Those that end in another extent are forgotten at once, the others when they are taken. */
	for (int i = 0; i < n; i++)
		c->user[border[i]] = PAGE_USED;
}

void extent_assign(struct pool *p, struct page_class *c, int index, int32_t x)
{
	struct extent *e = &p->extents[x];
	int32_t border[BORDERS];
	int n;

	MUST(p->extent_class[x] < 0 && !e->choice);
	p->extent_class[x] = (int16_t)index;
	p->n_unassigned--;
	p->n_empty++;
	p->hands++;
	c->n_extents++;
	c->n_empty++;
	MUST(!e->emptying);
	e->n_live = e->n_free = 0;
	e->back.n = 0;
	e->rest = -1;
	e->n_owed = 0;
	for (int r = 0; r < c->n_runs; r++) {
		struct extent_run *run = &e->runs[r];

		pages_within(p, c, r, x, x + 1, &run->fresh, &run->end);
		run->straddler = -1;
		run->straddler_owed = false;
		e->n_free += run->end - run->fresh;
	}
	extent_enlist(c, x, e->n_free > 0 ? EXTENT_EMPTY : EXTENT_BARE);
	class_count(c, e->n_free);
	n = border_pages(p, c, x, border);
	for (int i = 0; i < n; i++) {
		int32_t page = border[i], first, last;

		if (!page_is_whole(p, c, index, page))
			continue;
		MUST(c->state[page] == PAGE_ABSENT);
		page_extents(p, c, page, &first, &last);
		c->state[page] = PAGE_FREE;
		c->place[page] = ~first;
		straddler_come(p, c, first, page, 1);
	}
}

void extent_return(struct pool *p, int32_t x)
{
	struct page_class *c = p->classes[p->extent_class[x]];
	struct extent *e = &p->extents[x];
	int32_t border[BORDERS];
	int n = border_pages(p, c, x, border);

	MUST(e->n_live == 0 && !e->choice);
	class_count(c, -(int32_t)pages_count(p, c, x, x + 1)); /* the states of those that lie in it stay: none is live,
								  and that is all they say */
	for (int i = 0; i < n; i++) {
		int32_t page = border[i];

		if (c->state[page] == PAGE_ABSENT)
			continue;
		MUST(c->state[page] == PAGE_FREE);
		c->state[page] = PAGE_ABSENT;
		straddler_come(p, c, ~c->place[page], page, -1);
	}
	extent_unlist(c, x);
	p->n_emptying -= e->emptying;
	c->n_emptying -= e->emptying;
	e->emptying = false;
	p->extent_class[x] = -1;
	p->n_unassigned++;
	p->n_empty--;
	p->hands++;
	c->n_extents--;
	c->n_empty--;
}
