/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_stack.c - see free_stack.h
 *
 * An extent counts the pages that it never gave (fresh) instead of listing them,
 * so memory of its class is touched only for pages that were really handed out.
 */
#include "free_stack.h"

#include "bug.h"
#include "choice.h"
#include "extents.h"

/* A page that starts in extent @x and ends beyond it became live (@delta 1) or free (-1): those behind @x count it. */
static void straddler_count(struct page_class *c, int32_t x, int32_t page, int32_t delta)
{
	int32_t first, last;

	page_extents(c->pool, c, page, &first, &last);
	while (++x <= last) {
		c->extents[x].n_live += delta;
		if (!c->extents[x].choice)
			extent_file(c, x, extent_kind(&c->extents[x]));
	}
}

/*
 * Of extent @x no page is free but those that it owes. Is the straddler free,
 * it is one of these: it counts as live at once, lest another extent that it
 * touches leaves the class.
 */
static void straddler_owe(struct page_class *c, int32_t x)
{
	struct extent *e = &c->extents[x];

	if (e->n_owed == 0 || e->straddler_owed || e->straddler < 0 || c->state[e->straddler] != PAGE_FREE ||
	    page_is_hidden(c->pool, c, e->straddler))
		return;
	e->straddler_owed = true;
	straddler_count(c, x, e->straddler, 1);
}

/* The fresh pages of @e below @end have been taken: whoever had them wrote what is not known here. */
static void forget_taken(struct page_class *c, struct extent *e, int32_t end)
{
	for (int32_t page = e->unknown > e->fresh ? e->unknown : e->fresh; page < end; page++)
		c->user[page] = PAGE_USED;
	e->unknown = end;
}

/* Leases the pages of extent @x that came back last, then fresh ones, to @out[-1] and so on down to @stop; where it
 * ends. */
static int32_t *pop(struct page_class *c, int32_t x, int32_t *out, const int32_t *stop)
{
	struct extent *e = &c->extents[x];
	int32_t page = e->top, *place = c->place;
	const int32_t *link = c->link;
	uint8_t *state = c->state;

	for (; out > stop && page >= 0; page = link[page]) {
		MUST(state[page] == PAGE_FREE);
		state[page] = PAGE_LEASED;
		*--out = page;
	}
	e->top = page;
	if (out > stop) {
		int32_t fresh = e->fresh, fresh_end = e->end;

		for (; out > stop && fresh < fresh_end; fresh++) {
			MUST(state[fresh] <= PAGE_FREE);
			state[fresh] = PAGE_LEASED;
			place[fresh] = x;
			*--out = fresh;
		}
		if (fresh > e->unknown)
			forget_taken(c, e, fresh);
		e->fresh = fresh;
	}
	return out;
}

/* Takes up to @n free pages that start in extent @x, the first to @end[-1] and so on downwards; how many. */
static int32_t extent_take(struct page_class *c, int32_t x, int32_t *end, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t taken = n < e->n_free ? n : e->n_free, page;
	int32_t *stop = end - taken, *out = pop(c, x, end, stop);

	e->n_live += taken;
	e->n_free -= taken;
	extent_file(c, x, e->n_free > 0 ? EXTENT_PARTIAL : EXTENT_FULL);
	if (out > stop) {
		page = e->straddler;
		MUST(out - stop == 1 && page >= 0 && c->state[page] == PAGE_FREE && !e->straddler_owed);
		c->state[page] = PAGE_LEASED;
		*--out = page;
		straddler_count(c, x, page, 1);
	} else if (e->n_owed > 0 && e->n_free == 0) {
		straddler_owe(c, x);
	}
	return taken;
}

/* An extent of @c that has free pages, one that is in use as long as there is one. */
static int32_t extent_with_free(const struct page_class *c)
{
	int32_t x = c->lists[EXTENT_PARTIAL].first;

	if (x < 0)
		x = c->lists[EXTENT_EMPTY].first;
	MUST(x >= 0);
	return x;
}

void free_stack_take(struct page_class *c, int32_t *out, int32_t n)
{
	for (int32_t left = n; left > 0;)
		left -= extent_take(c, extent_with_free(c), out + left, left);
}

/* Promises up to @n free pages that start in extent @x; how many. */
static int32_t extent_promise(struct page_class *c, int32_t x, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t owed = n < e->n_free ? n : e->n_free;

	if (e->n_owed == 0) {
		e->next_owed = -1;
		if (c->first_owed < 0)
			c->first_owed = x;
		else
			c->extents[c->last_owed].next_owed = x;
		c->last_owed = x;
	}
	e->n_owed += owed;
	e->n_live += owed;
	e->n_free -= owed;
	extent_file(c, x, e->n_free > 0 ? EXTENT_PARTIAL : EXTENT_FULL);
	if (e->n_free == 0)
		straddler_owe(c, x);
	return owed;
}

void free_stack_promise(struct page_class *c, int32_t n)
{
	while (n > 0)
		n -= extent_promise(c, extent_with_free(c), n);
}

/* Places up to @n of the pages that extent @x owes, the first to @end[-1]; how many. */
static int32_t extent_place(struct page_class *c, int32_t x, int32_t *end, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t placed = n < e->n_owed ? n : e->n_owed, *out = end;

	if (e->straddler_owed) {
		MUST(c->state[e->straddler] == PAGE_FREE);
		c->state[e->straddler] = PAGE_LEASED;
		*--out = e->straddler;
		e->straddler_owed = false;
	}
	out = pop(c, x, out, end - placed);
	MUST(out == end - placed);
	e->n_owed -= placed;
	if (e->n_owed == 0)
		c->first_owed = e->next_owed;
	return placed;
}

void free_stack_place(struct page_class *c, int32_t *out, int32_t n)
{
	for (int32_t left = n; left > 0;) {
		MUST(c->first_owed >= 0);
		left -= extent_place(c, c->first_owed, out + left, left);
	}
}

/* @n pages came free in the chosen extent @x, counted as free by the caller: they are withheld. */
static void extent_joined(struct page_class *c, int32_t x, int32_t n)
{
	c->n_free -= n;
	c->n_withheld += n;
	c->extents[x].choice->joined += (uint64_t)n;
}

/* The page that straddles the end of extent @x is free again. */
static void straddler_put(struct page_class *c, int32_t x, int32_t page)
{
	struct extent *e = &c->extents[x];
	int32_t first, last;

	c->state[page] = PAGE_FREE;
	e->n_live--;
	page_extents(c->pool, c, page, &first, &last);
	while (last > x && !c->extents[last].choice)
		last--;
	if (last == x)
		e->n_free++;
	if (c->extents[last].choice)
		extent_joined(c, last, 1);
	if (!e->choice)
		extent_file(c, x, extent_kind(e));
	straddler_count(c, x, page, -1);
}

/* Gives back as many of @pages as lie in extent @x, up to the first that does not; how many. */
static int32_t extent_put(struct page_class *c, int32_t x, const int32_t *pages, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t top = e->top, i = 0, *link = c->link;
	uint32_t num_pages = (uint32_t)c->num_pages;
	const int32_t *place = c->place;
	uint8_t *state = c->state;

	for (; i < n; i++) {
		int32_t page = pages[i];

		if ((uint32_t)page >= num_pages || place[page] != x)
			break;
		MUST(state[page] == PAGE_LEASED);
		state[page] = PAGE_FREE;
		link[page] = top;
		top = page;
	}
	e->top = top;
	e->n_free += i;
	e->n_live -= i;
	if (e->choice)
		extent_joined(c, x, i);
	else
		extent_file(c, x, e->n_live > 0 ? EXTENT_PARTIAL : EXTENT_EMPTY);
	return i;
}

void free_stack_put(struct page_class *c, const int32_t *pages, int32_t n)
{
	for (int32_t i = 0; i < n;) {
		int32_t page = pages[i];

		MUST(page >= 0 && page < c->num_pages && c->state[page] == PAGE_LEASED);
		if (c->place[page] >= 0)
			i += extent_put(c, c->place[page], pages + i, n - i);
		else
			straddler_put(c, ~c->place[pages[i++]], page);
	}
}

void free_stack_put_one(struct page_class *c, int32_t page)
{
	int32_t x = c->place[page];
	struct extent *e;

	if (x < 0) {
		straddler_put(c, ~x, page);
		return;
	}
	e = &c->extents[x];
	c->state[page] = PAGE_FREE;
	c->link[page] = e->top;
	e->top = page;
	e->n_free++;
	e->n_live--;
	if (e->choice)
		extent_joined(c, x, 1);
	else
		extent_file(c, x, e->n_live > 0 ? EXTENT_PARTIAL : EXTENT_EMPTY);
}
