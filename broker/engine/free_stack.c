/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_stack.c - see free_stack.h
 *
 * An extent counts the pages that it never gave (fresh) instead of listing them,
 * so memory of its class is touched only for pages that were really handed out.
 * Those that came back are strips (strip.h): one that goes on where the last one
 * ends makes that longer, any other is laid on top of it. Of those below, the class
 * keeps at the first page how many they are, as its owner; negative: in order from
 * the highest id on.
 */
#include "free_stack.h"
#include "dirty.h"

#include "bug.h"
#include "choice.h"
#include "extents.h"
#include "strip.h"

enum { BESIDE_LOOKS = 16 }; /* extents that are looked at for a page in place of one that moves */

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

/* A straddler that @r could give, and that is not owed yet. */
static bool straddler_is_there(const struct page_class *c, const struct extent_run *r)
{
	return r->straddler >= 0 && !r->straddler_owed && c->state[r->straddler] == PAGE_FREE &&
	       !page_is_hidden(c->pool, c, r->straddler);
}

/*
 * Of the free pages of extent @x no more than e->n_free may go to others. When
 * more of its straddlers are free than that, the rest is what it owes: it counts
 * as live at once, lest another extent that it touches leaves the class.
 */
static void straddlers_owe(struct page_class *c, int32_t x)
{
	struct extent *e = &c->extents[x];
	int32_t there = 0;

	if (e->n_owed == 0 || e->n_free >= c->n_runs)
		return;
	for (int r = 0; r < c->n_runs; r++)
		there += straddler_is_there(c, &e->runs[r]);
	for (int r = 0; r < c->n_runs && there > e->n_free; r++) {
		if (!straddler_is_there(c, &e->runs[r]))
			continue;
		e->runs[r].straddler_owed = true;
		straddler_count(c, x, e->runs[r].straddler, 1);
		there--;
	}
}

/* Leases the straddler of run @r. */
static int32_t straddler_take(struct page_class *c, struct extent_run *r)
{
	MUST(c->state[r->straddler] == PAGE_FREE);
	c->state[r->straddler] = PAGE_LEASED;
	return r->straddler;
}

/* The fresh pages [@first, @end) of @r have been taken: whoever had them wrote what is not known here. */
static void forget_taken(struct page_class *c, struct extent_run *r, int32_t first, int32_t end)
{
	if (r->unknown > first)
		first = r->unknown;
	strip_write(c->user + first, end - first, PAGE_USED, 0);
	r->unknown = end;
}

/* Leases fresh pages of run @r of extent @x to @out[-1] and so on down to @stop; where it ends. */
static int32_t *run_pop(struct page_class *c, int32_t x, struct extent_run *r, int32_t *out, const int32_t *stop)
{
	int32_t most = (int32_t)(out - stop), n = r->end - r->fresh < most ? r->end - r->fresh : most;
	struct strip fresh = { r->fresh, n, true };

	if (n == 0)
		return out;
	MUST(strip_turn(c->state + fresh.first, n, PAGE_ABSENT, PAGE_FREE, PAGE_LEASED));
	strip_write((uint32_t *)c->place + fresh.first, n, (uint32_t)x, 0);
	strip_list(fresh, out - n);
	r->fresh += n;
	if (r->fresh > r->unknown)
		forget_taken(c, r, fresh.first, r->fresh);
	return out - n;
}

/* The same of all its runs. Apart from pop(), which most calls do not leave. */
static __attribute__((noinline)) int32_t *pop_fresh(struct page_class *c, int32_t x, int32_t *out, const int32_t *stop)
{
	for (int r = 0; r < c->n_runs && out > stop; r++)
		out = run_pop(c, x, &c->extents[x].runs[r], out, stop);
	return out;
}

/* The strip of @e that came back last is gone: the one before it is. */
static void next_strip(const struct page_class *c, struct extent *e)
{
	int32_t first = e->rest, n;

	if (first < 0)
		return;
	n = c->owner[first];
	e->back = (struct strip){ first, n < 0 ? -n : n, n < 0 };
	e->rest = c->link[first];
}

/* Pages of @s came back after those of @b: both are one strip in that order, *@b. */
static bool strip_grows(struct strip *b, struct strip s)
{
	if (s.first == b->first + b->n && (s.n == 1 || !s.down) && (b->n == 1 || !b->down)) {
		*b = (struct strip){ b->first, b->n + s.n, false };
		return true;
	}
	if (s.first + s.n == b->first && (s.n == 1 || s.down) && (b->n == 1 || b->down)) {
		*b = (struct strip){ s.first, b->n + s.n, true };
		return true;
	}
	return false;
}

/* @s came back to @e, in its order. */
static void put_strip(struct page_class *c, struct extent *e, struct strip s)
{
	const struct strip *b = &e->back;

	if (b->n > 0) {
		if (strip_grows(&e->back, s))
			return;
		c->link[b->first] = e->rest;
		c->owner[b->first] = b->down ? -b->n : b->n;
		e->rest = b->first;
	}
	e->back = s;
}

/* Takes @n pages of @e->back, of as many: those that came back last, in the order in which they came. */
static struct strip back_take(struct extent *e, int32_t n)
{
	struct strip s = { e->back.first, n, e->back.down };

	e->back.n -= n;
	if (s.down)
		e->back.first += n;
	else
		s.first += e->back.n;
	return s;
}

/* Leases pages of extent @x, those that came back last, then fresh ones, to @out[-1] and so on down to @stop; where it
 * ends. */
static int32_t *pop(struct page_class *c, int32_t x, int32_t *out, const int32_t *stop)
{
	struct extent *e = &c->extents[x];

	while (out > stop && e->back.n > 0) {
		int32_t most = (int32_t)(out - stop);
		struct strip s = back_take(e, e->back.n < most ? e->back.n : most);

		MUST(strip_turn(c->state + s.first, s.n, PAGE_FREE, 0, PAGE_LEASED));
		out -= s.n;
		strip_list(s, out);
		if (e->back.n == 0)
			next_strip(c, e);
	}
	return out > stop ? pop_fresh(c, x, out, stop) : out;
}

/* Takes up to @n free pages that start in extent @x, the first to @end[-1] and so on downwards; how many. */
static int32_t extent_take(struct page_class *c, int32_t x, int32_t *end, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t taken = n < e->n_free ? n : e->n_free;
	int32_t *stop = end - taken, *out = pop(c, x, end, stop);

	e->n_live += taken;
	e->n_free -= taken;
	extent_file(c, x, extent_kind(e));
	for (int r = 0; r < c->n_runs && out > stop; r++) {
		if (!straddler_is_there(c, &e->runs[r]))
			continue;
		*--out = straddler_take(c, &e->runs[r]);
		straddler_count(c, x, *out, 1);
	}
	MUST(out == stop);
	if (e->n_owed > 0)
		straddlers_owe(c, x);
	return taken;
}

/*
 * An extent of @c that has free pages: of those in use one of the fullest, so that
 * the others come empty; one that is empty when there is no other.
 */
static int32_t extent_with_free(const struct page_class *c)
{
	int32_t x = c->lists[c->partial ? EXTENT_PARTIAL + __builtin_ctz(c->partial) : EXTENT_EMPTY].first;

	MUST(x >= 0);
	return x;
}

void free_stack_take(struct page_class *c, int32_t *out, int32_t n)
{
	for (int32_t left = n; left > 0;)
		left -= extent_take(c, extent_with_free(c), out + left, left);
}

/* It has a free page that ends in no other extent, beside those that it owes. */
static bool has_inner(const struct page_class *c, const struct extent *e)
{
	bool inner = e->back.n > 0;

	for (int r = 0; r < c->n_runs; r++)
		inner |= e->runs[r].fresh < e->runs[r].end;
	return inner && e->n_owed == 0;
}

bool free_stack_take_beside(struct page_class *c, int32_t *out)
{
	uint32_t kinds = c->partial & ~(UINT32_C(1) << (EXTENT_EMPTYING - EXTENT_PARTIAL));

	for (int looks = 0; kinds && looks < BESIDE_LOOKS; kinds &= kinds - 1) {
		int32_t x = c->lists[EXTENT_PARTIAL + __builtin_ctz(kinds)].first;

		for (; x >= 0 && looks < BESIDE_LOOKS; x = c->extents[x].next, looks++)
			if (has_inner(c, &c->extents[x]))
				return extent_take(c, x, out + 1, 1) == 1;
	}
	return false;
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
	extent_file(c, x, extent_kind(e));
	straddlers_owe(c, x);
	return owed;
}

void free_stack_promise(struct page_class *c, int32_t n)
{
	while (n > 0)
		n -= extent_promise(c, extent_with_free(c), n);
}

/* Places the straddlers that @e owes, to @out[-1] and so on down to @stop; where it ends. */
static __attribute__((noinline)) int32_t *place_straddlers(struct page_class *c, struct extent *e, int32_t *out,
							   const int32_t *stop)
{
	for (int r = 0; r < c->n_runs && out > stop; r++) {
		if (!e->runs[r].straddler_owed)
			continue;
		*--out = straddler_take(c, &e->runs[r]);
		e->runs[r].straddler_owed = false;
	}
	return out;
}

/* Places up to @n of the pages that extent @x owes, the first to @end[-1]; how many. */
static int32_t extent_place(struct page_class *c, int32_t x, int32_t *end, int32_t n)
{
	struct extent *e = &c->extents[x];
	int32_t placed = n < e->n_owed ? n : e->n_owed, *out = end;

	if (e->runs[0].straddler_owed || e->runs[1].straddler_owed)
		out = place_straddlers(c, e, out, end - placed);
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

/* Of @pages, which are leased, the first strip that lies in extent @x, as the first of them does. */
static struct strip strip_within(const struct page_class *c, int32_t x, const int32_t *pages, int32_t n)
{
	struct strip s = strip_find(pages, n);
	int32_t last = pages[s.n - 1];

	MUST(last >= 0 && last < c->num_pages);
	/* What lies between two pages of one extent and half does, too. */
	if (c->place[last] == x && page_run(c, last) == page_run(c, pages[0]))
		return s;
	for (n = 1; n < s.n && c->place[pages[n]] == x; n++)
		;
	return (struct strip){ s.down ? pages[n - 1] : pages[0], n, s.down };
}

/* Gives back as many of @pages as lie in extent @x, up to the first that does not; how many. */
static int32_t extent_put(struct page_class *c, int32_t x, const int32_t *pages, int32_t n)
{
	struct extent *e = &c->extents[x];
	uint32_t num_pages = (uint32_t)c->num_pages;
	int32_t i = 0;

	while (i < n && (uint32_t)pages[i] < num_pages && c->place[pages[i]] == x) {
		struct strip s = strip_within(c, x, pages + i, n - i);

		MUST(strip_turn(c->state + s.first, s.n, PAGE_LEASED, 0, PAGE_FREE));
		put_strip(c, e, s);
		i += s.n;
	}
	e->n_free += i;
	e->n_live -= i;
	if (e->choice)
		extent_joined(c, x, i);
	else
		extent_file(c, x, extent_kind(e));
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
	put_strip(c, e, (struct strip){ page, 1, false });
	e->n_free++;
	e->n_live--;
	if (e->choice)
		extent_joined(c, x, 1);
	else
		extent_file(c, x, extent_kind(e));
}
