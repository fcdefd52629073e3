/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - see pool.h
 *
 * An extent changes hands only when it is empty, and then whole: the pages that
 * touch it stop being usable for one class and, as far as all their bytes are
 * held, start being usable for the other.
 */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

#include "bug.h"

int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes)
{
	uint64_t n;

	*p = (struct pool){ .half_bytes = half_bytes, .extent_bytes = extent_bytes, .first_moved = -1, .hands = 1 };
	if (half_bytes == 0 || extent_bytes == 0 || extent_bytes > half_bytes)
		return -EINVAL;
	n = half_bytes / extent_bytes + (half_bytes % extent_bytes != 0);
	if (n > INT32_MAX)
		return -EINVAL;
	p->n_extents = p->n_unassigned = (int32_t)n;
	p->extent_class = malloc(n * sizeof(*p->extent_class));
	p->extents = calloc(n, sizeof(*p->extents));
	p->candidates = calloc(2 * n + 1, sizeof(*p->candidates));
	if (!p->extent_class || !p->extents || !p->candidates)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		p->extent_class[i] = -1;
	for (uint64_t i = 0; i < n; i++)
		p->extents[i].unknown = INT32_MAX;
	return 0;
}

void pool_deinit(struct pool *p)
{
	for (int i = 0; i < p->n_classes; i++)
		page_class_free(p->classes[i]);
	free(p->extent_class);
	free(p->extents);
	free(p->candidates);
	*p = (struct pool){ 0 };
}

/* ---- where pages lie ------------------------------------------------------------ */

void pages_within(const struct pool *p, const struct page_class *c, int32_t first, int32_t last, int32_t *lo,
		  int32_t *hi)
{
	uint64_t a = extent_start(p, first), b = extent_start(p, last);

	*lo = (int32_t)((a + c->page_bytes - 1) / c->page_bytes);
	*hi = (int32_t)(b / c->page_bytes);
	if (*hi < *lo)
		*hi = *lo;
}

void page_extents(const struct pool *p, const struct page_class *c, int32_t page, int32_t *first, int32_t *last)
{
	uint64_t a = (uint64_t)page * c->page_bytes;

	*first = (int32_t)(a / p->extent_bytes);
	*last = (int32_t)((a + c->page_bytes - 1) / p->extent_bytes);
}

bool page_is_whole(const struct pool *p, const struct page_class *c, int index, int32_t page)
{
	int32_t first, last;

	page_extents(p, c, page, &first, &last);
	for (int32_t x = first; x <= last; x++)
		if (p->extent_class[x] != index)
			return false;
	return true;
}

int border_pages(const struct pool *p, const struct page_class *c, int32_t x, int32_t pages[2])
{
	uint64_t s = c->page_bytes, a = extent_start(p, x), b = extent_start(p, x + 1);
	int n = 0;

	if (a % s)
		pages[n++] = (int32_t)(a / s);
	if (b % s && (n == 0 || (uint64_t)pages[0] != b / s))
		pages[n++] = (int32_t)(b / s);
	/* The tail behind the last page of the half is no page. */
	return n > 0 && pages[n - 1] >= c->num_pages ? n - 1 : n;
}

/* ---- extents change hands --------------------------------------------------------- */

static void list_add(struct page_class *c, int32_t x, enum extent_kind kind)
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
}

static void list_remove(struct page_class *c, int32_t x)
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
}

static bool kind_is_empty(enum extent_kind kind)
{
	return kind == EXTENT_EMPTY || kind == EXTENT_BARE;
}

void extent_move(struct page_class *c, int32_t x, enum extent_kind kind)
{
	int32_t more = kind_is_empty(kind) - kind_is_empty(c->extents[x].kind);

	list_remove(c, x);
	list_add(c, x, kind);
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

	e->straddler = n > 0 ? page : -1;
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
	int32_t border[2], page = (int32_t)(extent_start(p, x) / c->page_bytes);
	int n = border_pages(p, c, x, border);

	if (c->scrub == WIRE_SCRUB_NEVER)
		return;
	p->extents[x].unknown = page;
	/* Those that end in another extent are forgotten at once, the others when they are taken. */
	for (int i = 0; i < n; i++)
		c->user[border[i]] = PAGE_USED;
}

void extent_assign(struct pool *p, struct page_class *c, int index, int32_t x)
{
	struct extent *e = &p->extents[x];
	int32_t lo, hi, border[2];
	int n;

	MUST(p->extent_class[x] < 0 && !e->choice);
	p->extent_class[x] = (int16_t)index;
	p->n_unassigned--;
	p->n_empty++;
	p->hands++;
	c->n_extents++;
	c->n_empty++;
	pages_within(p, c, x, x + 1, &lo, &hi);
	e->n_live = 0;
	e->n_free = hi - lo;
	e->top = e->straddler = -1;
	e->n_owed = 0;
	e->straddler_owed = false;
	e->fresh = lo;
	e->end = hi;
	list_add(c, x, hi > lo ? EXTENT_EMPTY : EXTENT_BARE);
	class_count(c, hi - lo);
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
	int32_t lo, hi, border[2];
	int n = border_pages(p, c, x, border);

	MUST(e->n_live == 0 && !e->choice);
	pages_within(p, c, x, x + 1, &lo, &hi);
	class_count(c, lo - hi); /* the states of those that lie in it stay: none is live, and that is all they say */
	for (int i = 0; i < n; i++) {
		int32_t page = border[i];

		if (c->state[page] == PAGE_ABSENT)
			continue;
		MUST(c->state[page] == PAGE_FREE);
		c->state[page] = PAGE_ABSENT;
		straddler_come(p, c, ~c->place[page], page, -1);
	}
	list_remove(c, x);
	p->extent_class[x] = -1;
	p->n_unassigned++;
	p->n_empty--;
	p->hands++;
	c->n_extents--;
	c->n_empty--;
}

/* ---- extents that are chosen ------------------------------------------------------ */

/* The empty extent @x of @c can be had (@n 1), or no longer (-1). */
static void empty_count(struct pool *p, struct page_class *c, int32_t n)
{
	c->n_empty += n;
	p->n_empty += n;
	c->turns++;
	p->turns++;
}

/* The free page that starts before extent @x and ends in or beyond it, -1: none. */
static int32_t free_before(const struct pool *p, const struct page_class *c, int32_t x)
{
	uint64_t start = extent_start(p, x);
	int32_t page = (int32_t)(start / c->page_bytes);

	if (start % c->page_bytes == 0 || page >= c->num_pages || c->state[page] != PAGE_FREE)
		return -1;
	return p->extents[~c->place[page]].straddler_owed ? -1 : page;
}

/* The free page @page before extent @x, which was chosen (@n -1) or lifted (1), stops or starts to count where it
 * starts. */
static void count_before(struct pool *p, struct page_class *c, int32_t page, int32_t n)
{
	int32_t first = ~c->place[page];
	struct extent *e = &p->extents[first];

	e->n_free += n;
	if (e->choice)
		return; /* withheld it is anyway */
	c->n_free += n;
	c->n_withheld -= n;
	extent_file(c, first, extent_kind(e));
}

void extent_choose(struct pool *p, int32_t x, struct choice *k)
{
	struct extent *e = &p->extents[x];
	struct page_class *c = p->extent_class[x] < 0 ? NULL : p->classes[p->extent_class[x]];
	int32_t before = c ? free_before(p, c, x) : -1;

	MUST(!e->choice);
	if (before >= 0 && !page_is_hidden(p, c, before))
		count_before(p, c, before, -1);
	e->choice = k;
	p->n_chosen++;
	p->hands++;
	p->n_chosen_free += !c;
	if (!c)
		return;
	list_remove(c, x);
	if (kind_is_empty(e->kind))
		empty_count(p, c, -1);
	c->n_free -= e->n_free;
	c->n_withheld += e->n_free;
}

void extent_lift(struct pool *p, int32_t x)
{
	struct extent *e = &p->extents[x];
	struct page_class *c = p->extent_class[x] < 0 ? NULL : p->classes[p->extent_class[x]];
	int32_t before = c ? free_before(p, c, x) : -1;

	MUST(e->choice);
	e->choice = NULL;
	p->n_chosen--;
	p->hands++;
	p->n_chosen_free -= !c;
	if (!c)
		return;
	list_add(c, x, extent_kind(e));
	if (kind_is_empty(e->kind))
		empty_count(p, c, 1);
	c->n_free += e->n_free;
	c->n_withheld -= e->n_free;
	if (before >= 0 && !page_is_hidden(p, c, before))
		count_before(p, c, before, 1);
}

void choice_lift(struct pool *p, struct choice *k)
{
	for (int32_t x = k->first; x >= 0; x = p->extents[x].next_chosen)
		extent_lift(p, x);
}

void choice_restore(struct pool *p, struct choice *k)
{
	for (int32_t x = k->first; x >= 0; x = p->extents[x].next_chosen)
		extent_choose(p, x, k);
}

static int32_t class_trim(struct pool *p, struct page_class *c, int32_t budget)
{
	int32_t n = 0;

	for (; n < budget && c->n_empty > 0; n++) {
		int32_t bare = c->lists[EXTENT_BARE].last;

		extent_return(p, bare >= 0 ? bare : c->lists[EXTENT_EMPTY].last);
	}
	return n;
}

int32_t pool_trim(struct pool *p, int32_t budget)
{
	int32_t n = 0;

	for (int i = 0; i < p->n_classes && n < budget && p->n_empty > 0; i++)
		n += class_trim(p, p->classes[i], budget - n);
	return n;
}

/* ---- classes ------------------------------------------------------------------ */

/* The class at @index goes: what it held before keeps no record of it. */
static void class_drop(struct pool *p, int index)
{
	class_trim(p, p->classes[index], INT32_MAX);
	for (int32_t x = 0; x < p->n_extents; x++)
		if (p->extents[x].former == index + 1)
			p->extents[x].former = EXTENT_OF_MANY;
	page_class_free(p->classes[index]);
}

/* Where a new class goes: a place of its own, or that of one that nobody uses and that has no live page; -1: none. */
static int class_place(const struct pool *p)
{
	if (p->n_classes < POOL_MAX_CLASSES)
		return p->n_classes;
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i]->n_sessions == 0 && p->classes[i]->n_extents == p->classes[i]->n_empty)
			return i;
	return -1;
}

struct page_class *pool_class(struct pool *p, uint64_t page_bytes, int *index)
{
	struct page_class *c;

	for (int i = 0; i < p->n_classes; i++) {
		if (p->classes[i]->page_bytes == page_bytes) {
			*index = i;
			return p->classes[i];
		}
	}
	*index = class_place(p);
	c = *index < 0 ? NULL : page_class_new(p, page_bytes);
	if (!c)
		return NULL;
	if (*index < p->n_classes)
		class_drop(p, *index);
	else
		p->n_classes++;
	p->classes[*index] = c;
	return c;
}
