/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choice.c - see choice.h
 *
 * What is chosen at a time is an extent, or, where pages are so large that an
 * extent need not hold a whole one, all extents that a page touches.
 */
#include "choice.h"

#include "bug.h"
#include "provision.h"

#define LEAVE_ROUNDS 4 /* over what was chosen, to see what is not needed: two, unless many hang together */

/* ---- extents that are chosen ------------------------------------------------------ */

/* The empty extent @x of @c can be had (@n 1), or no longer (-1). */
static void empty_count(struct pool *p, struct page_class *c, int32_t n)
{
	c->n_empty += n;
	p->n_empty += n;
	c->turns++;
	p->turns++;
}

/*
 * The free page of run @run that starts before extent @x and ends in or beyond
 * it, and counts where it starts as long as @x is not chosen; -1: none.
 */
static int32_t free_before(const struct pool *p, const struct page_class *c, int run, int32_t x)
{
	int32_t page = page_over(c, run, extent_start(p, x));

	if (page < 0 || c->state[page] != PAGE_FREE || page_is_hidden(p, c, page))
		return -1;
	return p->extents[~c->place[page]].runs[run].straddler_owed ? -1 : page;
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

/*
 * Extent @x joins @k: its free pages, and those that come free in it, are
 * withheld, and nobody can take it. It may be unassigned; it is in no choice.
 */
static void extent_choose(struct pool *p, int32_t x, struct choice *k)
{
	struct extent *e = &p->extents[x];
	struct page_class *c = p->extent_class[x] < 0 ? NULL : p->classes[p->extent_class[x]];

	MUST(!e->choice);
	for (int r = 0; c && r < c->n_runs; r++) {
		int32_t before = free_before(p, c, r, x);

		if (before >= 0)
			count_before(p, c, before, -1);
	}
	e->choice = k;
	p->n_chosen++;
	p->hands++;
	p->n_chosen_free += !c;
	if (!c)
		return;
	extent_unlist(c, x);
	if (extent_kind_is_empty(e->kind))
		empty_count(p, c, -1);
	c->n_free -= e->n_free;
	c->n_withheld += e->n_free;
}

/* Extent @x is as others again. It is no longer, or will soon not be, in its choice's chain. */
static void extent_lift(struct pool *p, int32_t x)
{
	struct extent *e = &p->extents[x];
	struct page_class *c = p->extent_class[x] < 0 ? NULL : p->classes[p->extent_class[x]];

	MUST(e->choice);
	e->choice = NULL;
	p->n_chosen--;
	p->hands++;
	p->n_chosen_free -= !c;
	if (!c)
		return;
	extent_enlist(c, x, extent_kind(e));
	if (extent_kind_is_empty(e->kind))
		empty_count(p, c, 1);
	c->n_free += e->n_free;
	c->n_withheld -= e->n_free;
	for (int r = 0; r < c->n_runs; r++) {
		int32_t before = free_before(p, c, r, x);

		if (before >= 0)
			count_before(p, c, before, 1);
	}
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

/* ---- which are -------------------------------------------------------------------- */

struct picking {
	struct pool *p;
	struct page_class *c;
	int index;
	struct choice *k;
	int64_t lack;   /* pages; kept ones and those of chosen extents are no longer lacking */
	int64_t kept;   /* free pages outside */
	int64_t spare;  /* free extents that may be chosen */
	bool all;       /* also what helps only together with others */
	uint64_t since; /* what was given up after this stamp comes later */
	uint64_t *heap;
	int32_t n_heap;
	struct seek *seek; /* such as others have: which may be chosen; NULL: all, and nothing in them needs a place */
};

/* ---- what an extent would give, and cost ---------------------------------------- */

/*
 * Pages of the class that become whole with extent @x, which has just been
 * chosen. Those that end in one that is its own, but not chosen, do not count:
 * another class may have that one before they are free.
 */
static int64_t gain_of(const struct picking *k, int32_t x)
{
	int32_t border[BORDERS], n = border_pages(k->p, k->c, x, border);
	int64_t gain = pages_count(k->p, k->c, x, x + 1);

	for (int32_t i = 0; i < n; i++) {
		int32_t y, last;

		page_extents(k->p, k->c, border[i], &y, &last);
		while (y <= last && k->p->extents[y].choice == k->k)
			y++;
		gain += y > last;
	}
	return gain;
}

static int32_t places_of(const struct extent *e)
{
	return e->n_live > 0 ? e->n_places : 0;
}

/* Chooses extent @x, when what it takes from others is not promised to them. */
static bool pick_extent(struct picking *k, int32_t x)
{
	struct extent *e = &k->p->extents[x];
	int32_t holder = k->p->extent_class[x], free;
	struct page_class *d = holder < 0 ? NULL : k->p->classes[holder];

	if (e->choice)
		return e->choice == k->k;
	if (e->n_live == 0 && holder != k->index && k->spare-- <= 0)
		return false;
	if (k->seek && e->n_live > 0) {
		e->n_places = holder == k->index ? -1 : k->seek->places(k->seek, x);
		if (e->n_places < 0)
			return false;
	}
	free = d ? d->n_free : 0;
	extent_choose(k->p, x, k->k);
	k->p->extents[x].next_chosen = k->k->first;
	k->k->first = x;
	k->k->n++;
	k->lack -= gain_of(k, x);
	if (!d)
		return true;
	if (k->seek)
		d->promised += places_of(e); /* of what is free elsewhere */
	free -= d->n_free;                   /* so many pages are withheld now */
	if (d != k->c) {
		if (k->seek && e->n_live > 0 && d->n_free < d->promised)
			k->seek->crowded(k->seek, x);
		return d->n_free >= d->promised;
	}
	k->kept -= free;
	k->c->promised -= free;
	k->lack += free;
	return k->kept >= 0;
}

/* The extents that were chosen since there were @n are as before. */
static void unpick(struct picking *k, int32_t n)
{
	while (k->k->n > n) {
		int32_t x = k->k->first;

		k->k->first = k->p->extents[x].next_chosen;
		k->k->n--;
		extent_lift(k->p, x);
		if (k->seek && k->p->extent_class[x] >= 0)
			k->p->classes[k->p->extent_class[x]]->promised -= places_of(&k->p->extents[x]);
	}
}

/* All of extents [first, last], or none; and only when that helps. */
static void pick(struct picking *k, int32_t first, int32_t last)
{
	const struct picking before = *k;
	int64_t promised = k->c->promised;
	int32_t n = k->k->n;
	bool good = true;

	for (int32_t x = first; x <= last && good; x++)
		good = pick_extent(k, x);
	if (good && (k->all || k->lack < before.lack))
		return;
	unpick(k, n);
	*k = before;
	k->c->promised = promised;
}

/* ---- in which order --------------------------------------------------------------- */

/* What comes first has the smaller key: quarantine, waited for in vain, live pages, number. */
static uint64_t key_of(const struct picking *k, int32_t first, int32_t last, int32_t number)
{
	uint64_t live = 0, quarantined = 0, most = UINT32_MAX >> 1, vain = 0;

	for (int32_t x = first; x <= last; x++) {
		live += (uint64_t)k->p->extents[x].n_live;
		quarantined += (uint64_t)k->p->extents[x].n_quarantined;
		vain |= k->p->extents[x].n_live > 0 && k->p->extents[x].waited > k->since;
	}
	return (uint64_t)(quarantined > 0) << 63 | vain << 62 | (live < most ? live : most) << 31 | (uint64_t)number;
}

static void sink(struct picking *k, int32_t i)
{
	uint64_t *h = k->heap, key = h[i];

	for (;;) {
		int32_t child = 2 * i + 1;

		if (child + 1 < k->n_heap && h[child + 1] < h[child])
			child++;
		if (child >= k->n_heap || h[child] >= key)
			break;
		h[i] = h[child];
		i = child;
	}
	h[i] = key;
}

static int32_t take_first(struct picking *k)
{
	int32_t number = (int32_t)(k->heap[0] & INT32_MAX);

	k->heap[0] = k->heap[--k->n_heap];
	if (k->n_heap > 0)
		sink(k, 0);
	return number;
}

/* An extent need not hold a whole page. */
static bool by_page(const struct picking *k)
{
	return 2 * k->c->page_bytes > k->p->extent_bytes;
}

/* Some of extents [first, last] has pages in use, so it can be had only once these are elsewhere. */
static bool is_sought(const struct picking *k, int32_t first, int32_t last)
{
	bool live = false;

	for (int32_t x = first; x <= last; x++)
		live |= k->p->extents[x].n_live > 0;
	return live;
}

/* What is free in the class already is kept as it is, unless nothing else will do. */
static void find_candidates(struct picking *k)
{
	int32_t n = by_page(k) ? k->c->num_pages : k->p->n_extents, first, last;

	k->n_heap = 0;
	k->p->looked += 4 * (uint64_t)n; /* and put in order */
	for (int32_t i = 0; i < n; i++) {
		first = last = i;
		if (by_page(k) && page_is_middle(k->c, i))
			continue;
		if (by_page(k))
			page_extents(k->p, k->c, i, &first, &last);
		if (k->seek && !is_sought(k, first, last))
			continue;
		if (k->all || (by_page(k) ? k->c->state[i] != PAGE_FREE
					  : k->p->extent_class[i] != k->index || k->p->extents[i].n_live > 0))
			k->heap[k->n_heap++] = key_of(k, first, last, i);
	}
	for (int32_t i = k->n_heap / 2; i-- > 0;)
		sink(k, i);
}

/* Picks in order until nothing is lacking, or nothing is left. */
static void pick_all(struct picking *k)
{
	find_candidates(k);
	while (k->lack > 0 && k->n_heap > 0) {
		int32_t number = take_first(k), first = number, last = number;

		if (by_page(k))
			page_extents(k->p, k->c, number, &first, &last);
		pick(k, first, last);
	}
}

/* Leaves the chosen extent @x, which comes out of the chain at @at, if there is enough without it. */
static bool leave(struct picking *k, int32_t *at, int32_t x, int64_t pages)
{
	int64_t lost = gain_of(k, x), kept = k->kept - k->c->n_free;

	extent_lift(k->p, x);
	kept += k->c->n_free; /* what is free in it is kept as such */
	kept = kept < pages ? kept : pages;
	if (k->lack + lost - (kept - k->kept) > 0) {
		extent_choose(k->p, x, k->k);
		return false;
	}
	k->lack += lost - (kept - k->kept);
	k->c->promised += kept - k->kept;
	k->kept = kept;
	*at = k->p->extents[x].next_chosen;
	k->k->n--;
	return true;
}

/*
 * What a later extent gave may make up for an earlier one: those that are not
 * needed after all are left, the last first, as it costs others most. With one
 * of them gone its neighbour may give less, and be the next.
 */
static void leave_spare(struct picking *k, int64_t pages)
{
	bool again = true;

	for (int i = 0; i < LEAVE_ROUNDS && again; i++) {
		again = false;
		for (int32_t *at = &k->k->first; *at >= 0;) {
			int32_t x = *at;

			if (leave(k, at, x, pages))
				again = true;
			else
				at = &k->p->extents[x].next_chosen;
		}
	}
}

void choice_give_up(struct pool *p, const struct choice *k, uint64_t stamp)
{
	for (int32_t x = k->first; x >= 0; x = p->extents[x].next_chosen)
		if (p->extents[x].n_live > 0)
			p->extents[x].waited = stamp;
}

bool choice_make(struct pool *p, struct choice *chosen, struct page_class *c, int64_t pages, int64_t spare,
		 uint64_t since, int64_t *kept)
{
	int64_t free = c->n_free > c->promised ? c->n_free - c->promised : 0, promised = c->promised, most;
	struct picking k = {
		.p = p, .c = c, .index = pool_class_index(p, c), .k = chosen, .since = since, .heap = p->candidates
	};

	MUST(chosen->n == 0);
	most = spare > 0 ? pool_spare_extents(p) - spare : INT64_MAX;
	for (int once = 0; once < 2 && (once == 0 || k.lack > 0); once++) {
		choice_drop(p, chosen, false);
		k.spare = most;
		k.kept = free < pages ? free : pages;
		k.lack = pages - k.kept;
		k.all = once > 0;
		c->promised = promised + k.kept;
		if (k.lack > 0)
			pick_all(&k);
	}
	if (k.lack <= 0) {
		leave_spare(&k, pages);
		*kept = k.kept;
		return true;
	}
	c->promised = promised;
	choice_drop(p, chosen, false);
	return false;
}

int64_t choice_seek(struct pool *p, struct choice *chosen, struct page_class *c, int64_t pages, struct seek *s)
{
	struct picking k = { .p = p,
			     .c = c,
			     .index = pool_class_index(p, c),
			     .k = chosen,
			     .lack = pages,
			     .spare = INT64_MAX,
			     .since = UINT64_MAX, /* what was waited for in vain may move now */
			     .heap = p->candidates,
			     .seek = s };

	pick_all(&k);
	return k.lack;
}

void choice_drop(struct pool *p, struct choice *k, bool lifted)
{
	if (!lifted)
		choice_lift(p, k);
	k->first = -1;
	k->n = 0;
}
