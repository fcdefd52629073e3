/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_check.c - every account of extents and page classes, from scratch
 *
 * Where a page lies is computed anew from its bytes; what the pool keeps about
 * it is only compared. Slow, and meant for tests.
 */
#include "pool_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "extents.h"

/* Beside the states of a page: free, and touching a chosen extent. */
enum { PAGE_WITHHELD = PAGE_QUARANTINED + 1, COUNTS };

struct view {
	const struct pool *p;
	const struct page_class *c;
	int index;
	char *buf;
	size_t size;
};

__attribute__((format(printf, 2, 3))) static bool wrong(const struct view *v, const char *format, ...)
{
	va_list ap;
	int n = snprintf(v->buf, v->size, "class %d ", v->index);

	if (n > 0 && (size_t)n < v->size) {
		va_start(ap, format);
		vsnprintf(v->buf + n, v->size - (size_t)n, format, ap);
		va_end(ap);
	}
	return false;
}

/* Page @page is usable, and starts and ends in extent @x. */
static bool lies_in(const struct view *v, int32_t page, int32_t x)
{
	int32_t first, last;

	page_extents(v->p, v->c, page, &first, &last);
	return first == x && last == x && page_is_whole(v->p, v->c, v->index, page);
}

static bool is_fresh(const struct view *v, int32_t page, int32_t x)
{
	bool fresh = false;

	for (int run = 0; run < v->c->n_runs; run++)
		fresh |= page >= v->p->extents[x].runs[run].fresh && page < v->p->extents[x].runs[run].end;
	return fresh;
}

/* Some extent that page @page touches, from @first on, is chosen. */
static bool touches_choice(const struct view *v, int32_t first, int32_t last)
{
	bool touches = false;

	for (int32_t x = first; x <= last; x++)
		touches |= v->p->extents[x].choice != NULL;
	return touches;
}

/* Usable exactly when all its extents are held, and known to be where it is. */
static bool check_page(const struct view *v, int32_t page, int32_t count[COUNTS])
{
	bool whole = page_is_whole(v->p, v->c, v->index, page);
	uint8_t state = v->c->state[page];
	int32_t first, last;

	if (page_is_middle(v->c, page))
		return state == PAGE_ABSENT || wrong(v, "page %" PRId32 " over the middle: state %d", page, state);
	page_extents(v->p, v->c, page, &first, &last);
	if (first == last && (!whole || is_fresh(v, page, first))) {
		if (state > PAGE_FREE)
			return wrong(v, "page %" PRId32 ": state %d though it is %s", page, state,
				     whole ? "fresh" : "not usable");
		if (!whole)
			return true;
		count[touches_choice(v, first, last) ? PAGE_WITHHELD : PAGE_FREE]++;
		return true;
	}
	if (whole != (state != PAGE_ABSENT))
		return wrong(v, "page %" PRId32 ": state %d does not fit its extents", page, state);
	if (whole && v->c->place[page] != (first == last ? first : ~first))
		return wrong(v, "page %" PRId32 " of extent %" PRId32 " is placed at %" PRId32, page, first,
			     v->c->place[page]);
	count[state == PAGE_FREE && touches_choice(v, first, last) ? PAGE_WITHHELD : state]++;
	return true;
}

/* The pages of @s are free and lie in the extent @x; *@n counts them, @most at most. */
static bool check_strip(const struct view *v, int32_t x, struct strip s, int32_t *n, int32_t most)
{
	for (int32_t page = s.first; page < s.first + s.n; page++) {
		if (++*n > most || page < 0 || page >= v->c->num_pages)
			return wrong(v, "extent %" PRId32 ": its chain has more than its %" PRId32 " free pages", x,
				     most);
		if (v->c->state[page] != PAGE_FREE || is_fresh(v, page, x) || !lies_in(v, page, x))
			return wrong(v, "extent %" PRId32 ": page %" PRId32 " in state %d is in its chain", x, page,
				     v->c->state[page]);
	}
	return true;
}

/* Every free page in the extent @x is fresh, or in a strip of its chain, once. */
static bool check_chain(const struct view *v, int32_t x, int32_t n_returned)
{
	const struct extent *e = &v->p->extents[x];
	struct strip s = e->back;
	int32_t n = 0, rest = e->rest;

	if (s.n == 0 && rest >= 0)
		return wrong(v, "extent %" PRId32 ": nothing came back last, and page %" PRId32 " before", x, rest);
	for (;; rest = v->c->link[rest]) {
		if (!check_strip(v, x, s, &n, n_returned))
			return false;
		if (rest < 0)
			break;
		s = (struct strip){ rest, rest < v->c->num_pages ? abs(v->c->owner[rest]) : 0, false };
		if (s.n < 1)
			return wrong(v, "extent %" PRId32 ": %" PRId32 " pages came back from page %" PRId32 " on", x,
				     s.n, rest);
	}
	if (n != n_returned)
		return wrong(v, "extent %" PRId32 ": %" PRId32 " of %" PRId32 " free pages are in its chain", x, n,
			     n_returned);
	return true;
}

/* Owed pages that start in other extents and end in @x or beyond it. */
static int32_t straddlers_owed(const struct view *v, int32_t x)
{
	int32_t n = 0, first, last;

	for (int32_t y = 0; y < x; y++) {
		for (int run = 0; run < v->c->n_runs && v->p->extent_class[y] == v->index; run++) {
			if (!v->p->extents[y].runs[run].straddler_owed)
				continue;
			page_extents(v->p, v->c, v->p->extents[y].runs[run].straddler, &first, &last);
			n += last >= x;
		}
	}
	return n;
}

/* What pages of an extent were found to be. */
struct found {
	int32_t live, quarantined, returned;
	int32_t free; /* fresh, returned, and straddlers that may be given, or are owed */
};

/* The pages of run @run of extent @x, beside what the extent keeps of them. */
static bool check_run(const struct view *v, int32_t x, int run, struct found *f)
{
	const struct extent_run *r = &v->p->extents[x].runs[run];
	uint64_t s = v->c->page_bytes, from = (uint64_t)run * v->p->half_bytes, start = from + extent_start(v->p, x);
	uint64_t end = (from + extent_start(v->p, x + 1) + s - 1) / s;
	int32_t fresh = 0, behind = -1, straddler = -1, page = (int32_t)(start / s);

	for (; (uint64_t)page < end && page < v->c->num_pages; page++) {
		uint8_t state = v->c->state[page];
		int32_t first, last;

		if ((uint64_t)page * s < from || (uint64_t)(page + 1) * s > from + v->p->half_bytes)
			continue; /* over the middle */
		page_extents(v->p, v->c, page, &first, &last);
		f->live += state == PAGE_LEASED || state == PAGE_QUARANTINED;
		f->quarantined += state == PAGE_QUARANTINED;
		if (first == x && last > x && page_is_whole(v->p, v->c, v->index, page)) {
			straddler = page;
			behind = last;
		}
		if (first == x && last == x)
			f->returned += page < r->fresh && state == PAGE_FREE;
		if (first == x && last == x)
			fresh += page >= r->fresh && state <= PAGE_FREE;
	}
	f->free += fresh + (straddler >= 0 && v->c->state[straddler] == PAGE_FREE &&
			    (r->straddler_owed || !touches_choice(v, x + 1, behind)));
	if (r->straddler_owed && (v->p->extents[x].n_owed == 0 || straddler < 0 || v->c->state[straddler] != PAGE_FREE))
		return wrong(v, "extent %" PRId32 ": it owes a page beyond its end that it does not have", x);
	if (straddler != r->straddler)
		return wrong(v, "extent %" PRId32 ": page %" PRId32 " ends beyond it, it knows %" PRId32, x, straddler,
			     r->straddler);
	if (fresh != r->end - r->fresh)
		return wrong(v, "extent %" PRId32 ": %" PRId32 " fresh pages, counted %" PRId32, x, r->end - r->fresh,
			     fresh);
	return true;
}

static bool check_extent(const struct view *v, int32_t x)
{
	const struct extent *e = &v->p->extents[x];
	struct found f = { 0 };

	for (int run = 0; run < (v->c->key.joined ? 2 : 1); run++)
		if (!check_run(v, x, run, &f))
			return false;
	if (f.quarantined != e->n_quarantined)
		return wrong(v, "extent %" PRId32 ": %" PRId32 " pages in quarantine, counted %" PRId32, x,
			     e->n_quarantined, f.quarantined);
	f.live += e->n_owed + straddlers_owed(v, x);
	if (f.live != e->n_live)
		return wrong(v, "extent %" PRId32 ": %" PRId32 " live pages, counted %" PRId32, x, e->n_live, f.live);
	if (f.free + f.returned != e->n_free + e->n_owed)
		return wrong(v, "extent %" PRId32 ": free pages %" PRId32 " and owed %" PRId32 ", found %" PRId32, x,
			     e->n_free, e->n_owed, f.free + f.returned);
	return check_chain(v, x, f.returned);
}

/* The list of @kind holds extents of the class, of that kind, linked both ways. */
static bool check_list(const struct view *v, enum extent_kind kind, int32_t *n_listed)
{
	int32_t before = -1;

	for (int32_t x = v->c->lists[kind].first; x >= 0; x = v->p->extents[x].next) {
		const struct extent *e = &v->p->extents[x];
		enum extent_kind fits = extent_kind(e);

		if (++*n_listed > v->c->n_extents || v->p->extent_class[x] != v->index || e->choice)
			return wrong(v, "list %d: extent %" PRId32 " of class %d, one too many", (int)kind, x,
				     v->p->extent_class[x]);
		if (e->kind != kind || fits != kind)
			return wrong(v, "list %d: extent %" PRId32 " is marked %d and should be in %d", (int)kind, x,
				     e->kind, (int)fits);
		if (e->prev != before)
			return wrong(v, "list %d: extent %" PRId32 " stands behind %" PRId32 ", not %" PRId32,
				     (int)kind, x, before, e->prev);
		before = x;
	}
	if (v->c->lists[kind].last != before)
		return wrong(v, "list %d ends with extent %" PRId32 ", not %" PRId32, (int)kind, before,
			     v->c->lists[kind].last);
	return true;
}

static bool check_extents(const struct view *v)
{
	int32_t n_held = 0, n_empty = 0, n_chosen = 0, n_listed = 0, n_owed = 0, n_owing = 0;

	for (int32_t x = 0; x < v->p->n_extents; x++) {
		if (v->p->extent_class[x] != v->index)
			continue;
		if (!check_extent(v, x))
			return false;
		n_held++;
		n_empty += v->p->extents[x].n_live == 0 && !v->p->extents[x].choice;
		n_chosen += v->p->extents[x].choice != NULL;
		n_owed += v->p->extents[x].n_owed;
		n_owing += v->p->extents[x].n_owed > 0;
	}
	for (int32_t x = v->c->first_owed; x >= 0 && n_owing >= 0; x = v->p->extents[x].next_owed)
		n_owing = v->p->extent_class[x] == v->index && v->p->extents[x].n_owed > 0 ? n_owing - 1 : -1;
	if (n_owed != v->c->n_owed || n_owing != 0)
		return wrong(v, "owes %" PRId32 " pages, counted %" PRId32 ", or its list of who owes is wrong",
			     v->c->n_owed, n_owed);
	for (int k = 0; k < EXTENT_N_KINDS; k++) {
		bool used = k < EXTENT_PARTIAL || (v->c->partial & (UINT32_C(1) << (k - EXTENT_PARTIAL)));

		if (!check_list(v, (enum extent_kind)k, &n_listed))
			return false;
		if (k >= EXTENT_PARTIAL && used == (v->c->lists[k].first < 0))
			return wrong(
				v, "list %d begins with extent %" PRId32 ", and the bits of lists in use are %" PRIx32,
				k, v->c->lists[k].first, v->c->partial);
	}
	if (n_held != v->c->n_extents || n_empty != v->c->n_empty || n_listed != n_held - n_chosen)
		return wrong(v,
			     "holds %" PRId32 " extents, %" PRId32 " empty, %" PRId32 " chosen, %" PRId32
			     " in lists; counted %" PRId32 " and %" PRId32,
			     n_held, n_empty, n_chosen, n_listed, v->c->n_extents, v->c->n_empty);
	return true;
}

/*
 * Recounts class @index of @p from its page states and the extents; false, with
 * a sentence, when an account, a list or a state is wrong.
 */
static bool page_class_check(const struct pool *p, const struct page_class *c, int index, char *buf, size_t size)
{
	const struct view v = { p, c, index, buf, size };
	int32_t count[COUNTS] = { 0 };

	for (int32_t page = 0; page < c->num_pages; page++)
		if (!check_page(&v, page, count))
			return false;
	if (count[PAGE_FREE] + count[PAGE_WITHHELD] != c->n_free + c->n_withheld + c->n_owed ||
	    count[PAGE_LEASED] != c->n_leased - c->n_owed || count[PAGE_QUARANTINED] != c->n_quarantined ||
	    (c->n_owed == 0 && count[PAGE_WITHHELD] != c->n_withheld) ||
	    c->n_free + c->n_withheld + c->n_leased + c->n_quarantined != c->n_usable)
		return wrong(&v,
			     "free %" PRId32 "/%" PRId32 " leased %" PRId32 "/%" PRId32 " quarantined %" PRId32
			     "/%" PRId32 " withheld %" PRId32 "/%" PRId32 " (counted/kept), usable %" PRId32,
			     count[PAGE_FREE], c->n_free, count[PAGE_LEASED], c->n_leased, count[PAGE_QUARANTINED],
			     c->n_quarantined, count[PAGE_WITHHELD], c->n_withheld, c->n_usable);
	return check_extents(&v);
}

bool pool_check(const struct pool *p, char *buf, size_t size)
{
	int32_t n_unassigned = 0, n_empty = 0, n_chosen = 0, n_chosen_free = 0, n_emptying = 0;

	for (int i = 0; i < p->n_classes; i++) {
		if (!page_class_check(p, p->classes[i], i, buf, size))
			return false;
		n_empty += p->classes[i]->n_empty;
		n_emptying -= p->classes[i]->n_emptying;
	}
	if (n_emptying != -p->n_emptying) {
		snprintf(buf, size, "%" PRId32 " extents are to come empty, their classes count %" PRId32,
			 p->n_emptying, -n_emptying);
		return false;
	}
	n_emptying = 0;
	for (int32_t x = 0; x < p->n_extents; x++) {
		n_unassigned += p->extent_class[x] < 0;
		n_chosen += p->extents[x].choice != NULL;
		n_emptying += p->extents[x].emptying;
		n_chosen_free += p->extents[x].choice && p->extent_class[x] < 0;
		if (p->extent_class[x] >= p->n_classes) {
			snprintf(buf, size, "extent %" PRId32 " belongs to class %d of %d", x, p->extent_class[x],
				 p->n_classes);
			return false;
		}
	}
	if (n_emptying != p->n_emptying) {
		snprintf(buf, size, "%" PRId32 " extents are to come empty, counted %" PRId32, p->n_emptying,
			 n_emptying);
		return false;
	}
	if (n_unassigned == p->n_unassigned && n_empty == p->n_empty && n_chosen == p->n_chosen &&
	    n_chosen_free == p->n_chosen_free)
		return true;
	snprintf(buf, size,
		 "%" PRId32 " extents unassigned, %" PRId32 " empty, %" PRId32 " chosen, %" PRId32
		 " of these unassigned; counted %" PRId32 ", %" PRId32 ", %" PRId32 " and %" PRId32,
		 p->n_unassigned, p->n_empty, p->n_chosen, p->n_chosen_free, n_unassigned, n_empty, n_chosen,
		 n_chosen_free);
	return false;
}
