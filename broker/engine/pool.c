/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - see pool.h
 *
 * An extent changes hands only when it is empty, and then whole: the pages that
 * touch it stop being usable for one class and, as far as all their bytes are
 * held, start being usable for the other. A class grows beside what it holds,
 * since there a page that straddles two extents becomes whole.
 *
 * What a class could have is counted over joined stretches of extents that it
 * holds or could take; a provision takes from the same stretches, so for one
 * class alone the count is exact. For several at once a provision is tried
 * class by class, and undone when one falls short.
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
	if (!p->extent_class || !p->extents)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		p->extent_class[i] = -1;
	return 0;
}

void pool_deinit(struct pool *p)
{
	for (int i = 0; i < p->n_classes; i++)
		page_class_free(p->classes[i]);
	free(p->extent_class);
	free(p->extents);
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

/* Pages that touch extent @x, but do not lie within it: at most one at each end. Returns how many. */
static int border_pages(const struct pool *p, const struct page_class *c, int32_t x, int32_t pages[2])
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

/* Pages in extent @x may hold what another class wrote since this one had them. */
static void forget_content(struct pool *p, struct page_class *c, int32_t x)
{
	uint64_t s = c->page_bytes;
	int32_t page = (int32_t)(extent_start(p, x) / s), end = (int32_t)((extent_start(p, x + 1) + s - 1) / s);

	if (c->scrub == WIRE_SCRUB_NEVER)
		return;
	for (end = end < c->num_pages ? end : c->num_pages; page < end; page++)
		c->user[page] = PAGE_USED;
}

/* Gives extent @x to class @c: every page that it completes becomes free. */
static void extent_assign(struct pool *p, struct page_class *c, int index, int32_t x)
{
	struct extent *e = &p->extents[x];
	int32_t lo, hi, border[2];
	int n;

	MUST(p->extent_class[x] < 0);
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
		p->extents[first].straddler = page;
		p->extents[first].n_free++;
		class_count(c, 1);
		extent_file(c, first, extent_kind(&p->extents[first]));
	}
}

/* Takes the empty extent @x from its class: no page that touches it is usable any more. */
static void extent_return(struct pool *p, int32_t x)
{
	struct page_class *c = p->classes[p->extent_class[x]];
	struct extent *e = &p->extents[x];
	int32_t lo, hi, border[2];
	int n = border_pages(p, c, x, border);

	MUST(e->n_live == 0);
	pages_within(p, c, x, x + 1, &lo, &hi);
	for (int32_t page = lo; page < e->fresh; page++) {
		MUST(c->state[page] == PAGE_FREE);
		c->state[page] = PAGE_ABSENT;
	}
	class_count(c, lo - hi);
	for (int i = 0; i < n; i++) {
		int32_t page = border[i], first;

		if (c->state[page] == PAGE_ABSENT)
			continue;
		MUST(c->state[page] == PAGE_FREE);
		c->state[page] = PAGE_ABSENT;
		first = ~c->place[page];
		p->extents[first].straddler = -1;
		p->extents[first].n_free--;
		class_count(c, -1);
		extent_file(c, first, extent_kind(&p->extents[first]));
	}
	list_remove(c, x);
	p->extent_class[x] = -1;
	p->n_unassigned++;
	p->n_empty--;
	p->hands++;
	c->n_extents--;
	c->n_empty--;
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

/* ---- what a class can have --------------------------------------------------------- */

/* Moves when pool_available() of @c may: an extent changed hands, or one of another class became empty or not. */
static uint64_t pool_epoch(const struct pool *p, const struct page_class *c)
{
	return p->hands + p->turns - c->turns;
}

/* Free pages that class @c loses with its empty extent @x. */
static int32_t pages_lost(const struct pool *p, const struct page_class *c, int32_t x)
{
	int32_t lo, hi, border[2];
	int n = border_pages(p, c, x, border);

	pages_within(p, c, x, x + 1, &lo, &hi);
	for (int i = 0; i < n; i++)
		hi += c->state[border[i]] == PAGE_FREE;
	return hi - lo;
}

/* Whether class @index holds extent @x or could take it; from other classes only when @others. */
static bool extent_serves(const struct pool *p, int32_t x, int index, bool others)
{
	const struct page_class *holder;

	if (p->extent_class[x] == index || p->extent_class[x] < 0)
		return true;
	if (!others || p->extents[x].n_live > 0)
		return false;
	holder = p->classes[p->extent_class[x]];
	return holder->promised == 0 || holder->n_free - pages_lost(p, holder, x) >= holder->promised;
}

/* The next stretch of extents that serve, from @x on: [*first, end), end returned; *first is n_extents when none. */
static int32_t next_stretch(const struct pool *p, int32_t x, int index, bool others, int32_t *first)
{
	while (x < p->n_extents && !extent_serves(p, x, index, others))
		x++;
	*first = x;
	while (x < p->n_extents && extent_serves(p, x, index, others))
		x++;
	return x;
}

static int class_index(const struct pool *p, const struct page_class *c)
{
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i] == c)
			return i;
	return -1;
}

int64_t pool_available(struct pool *p, struct page_class *c)
{
	uint64_t now = pool_epoch(p, c);

	if (c->cached_at != now) {
		int index = class_index(p, c);
		int32_t first, lo, hi;
		int64_t usable = 0;

		for (int32_t x = 0; x < p->n_extents;) {
			x = next_stretch(p, x, index, true, &first);
			pages_within(p, c, first, x, &lo, &hi);
			usable += hi - lo;
		}
		c->cached_available = usable - c->n_usable;
		c->cached_at = now;
	}
	return c->n_free + c->cached_available;
}

/* ---- provision ---------------------------------------------------------------------- */

/* What one class is being given. */
struct provision {
	struct pool *pool;
	struct page_class *class;
	int index;
	bool others; /* also empty extents of other classes */
};

/* Notes where extent @x was before this provision. */
static void note_moved(struct pool *p, int32_t x)
{
	struct extent *e = &p->extents[x];

	if (e->moved)
		return;
	e->moved = true;
	e->was = p->extent_class[x];
	e->next_moved = p->first_moved;
	p->first_moved = x;
}

/* Extent @x stays where it is now. Who had it within the provision wrote nothing. */
static void extent_settled(struct pool *p, int32_t x)
{
	struct extent *e = &p->extents[x];
	int32_t index = p->extent_class[x];

	if (index < 0)
		return;
	if (e->former != 0 && e->former != index + 1)
		forget_content(p, p->classes[index], x);
	e->former = (int16_t)(index + 1);
}

/* Forgets what was noted; with @undo every extent goes back to where it was, else those that nobody took. */
static void end_moves(struct pool *p, bool undo)
{
	for (int32_t x = p->first_moved; undo && x >= 0; x = p->extents[x].next_moved)
		if (p->extent_class[x] >= 0)
			extent_return(p, x);
	while (p->first_moved >= 0) {
		int32_t x = p->first_moved;
		struct extent *e = &p->extents[x];

		p->first_moved = e->next_moved;
		e->moved = false;
		if (p->extent_class[x] < 0 && e->was >= 0)
			extent_assign(p, p->classes[e->was], e->was, x);
		if (!undo)
			extent_settled(p, x);
	}
}

/* Takes extent @x if it is there to be taken and a page of bytes [from, to) lies in it. */
static void take_extent(const struct provision *v, int32_t x, uint64_t from, uint64_t to)
{
	struct pool *p = v->pool;

	if (p->extent_class[x] == v->index || extent_start(p, x) >= to || extent_start(p, x + 1) <= from ||
	    !extent_serves(p, x, v->index, v->others))
		return;
	note_moved(p, x);
	if (p->extent_class[x] >= 0)
		extent_return(p, x);
	extent_assign(p, v->class, v->index, x);
}

/* Takes extents of the stretch [first, end) until @n pages are free: upwards from @own, then downwards. */
static void take_stretch(const struct provision *v, int32_t first, int32_t own, int32_t end, int64_t n)
{
	uint64_t s = v->class->page_bytes;
	int32_t lo, hi;

	pages_within(v->pool, v->class, first, end, &lo, &hi);
	for (int32_t x = own; x < end && v->class->n_free < n; x++)
		take_extent(v, x, (uint64_t)lo * s, (uint64_t)hi * s);
	for (int32_t x = own - 1; x >= first && v->class->n_free < n; x--)
		take_extent(v, x, (uint64_t)lo * s, (uint64_t)hi * s);
}

/*
 * Where a class begins in a stretch [first, end) that holds none of its extents:
 * with room to grow on, since each extent that is not beside one of its own
 * loses the pages that straddle it. At the bottom of the pool, down from its
 * top, else in the middle between two others.
 */
static int32_t begin_apart(const struct pool *p, int32_t first, int32_t end)
{
	if (first == 0)
		return first;
	return end == p->n_extents ? end : first + (end - first) / 2;
}

/* Takes extents until @n pages are free; with @beside only where the class holds one in the same stretch. */
static void take_extents(const struct provision *v, bool beside, int64_t n)
{
	struct pool *p = v->pool;
	int32_t first, own, end;

	for (int32_t x = 0; x < p->n_extents && v->class->n_free < n; x = end) {
		end = next_stretch(p, x, v->index, v->others, &first);
		for (own = first; own < end && p->extent_class[own] != v->index; own++)
			;
		if (own < end)
			take_stretch(v, first, own, end, n);
		else if (!beside)
			take_stretch(v, first, p->apart ? begin_apart(p, first, end) : first, end, n);
	}
}

/* Makes sure that @n pages of @c are free, as far as it goes. */
static void class_provide(struct pool *p, struct page_class *c, int64_t n)
{
	struct provision v = { .pool = p, .class = c };

	if (c->n_free >= n)
		return;
	v.index = class_index(p, c);
	if (p->n_unassigned > 0) {
		take_extents(&v, true, n);
		take_extents(&v, false, n);
	}
	v.others = true;
	if (p->n_empty > c->n_empty) {
		take_extents(&v, true, n);
		take_extents(&v, false, n);
	}
}

/* Pages that needs [0, n) want of class @c. */
static int64_t pages_wanted(const struct pool_need *needs, uint32_t n, const struct page_class *c)
{
	int64_t pages = 0;

	for (uint32_t i = 0; i < n; i++)
		pages += needs[i].class == c ? needs[i].pages : 0;
	return pages;
}

/* The first need that cannot be met by its class alone, -1: none. */
static int find_hopeless(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	for (uint32_t i = 0; i < n; i++) {
		struct page_class *c = needs[i].class;
		int64_t pages = pages_wanted(needs, i + 1, c);

		if (pages <= c->n_free)
			continue;
		*available = pool_available(p, c);
		if (pages > *available)
			return (int)i;
	}
	return -1;
}

/* All empty extents leave their classes, for a provision that does not build on where they lay. */
static void start_afresh(struct pool *p)
{
	for (int32_t x = 0; x < p->n_extents && p->n_empty > 0; x++) {
		if (p->extent_class[x] < 0 || p->extents[x].n_live > 0)
			continue;
		note_moved(p, x);
		extent_return(p, x);
	}
}

static int provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	int failed = find_hopeless(p, needs, n, available);

	if (failed >= 0)
		return failed;
	if (p->afresh)
		start_afresh(p);
	/* All promises first: what a later class has already is not taken from it to be replaced. */
	for (uint32_t i = 0; i < n; i++)
		needs[i].class->promised += needs[i].pages;
	for (uint32_t i = 0; i < n && failed < 0; i++) {
		struct page_class *c = needs[i].class;

		class_provide(p, c, c->promised);
		if (c->n_free >= c->promised)
			continue;
		*available = c->n_free;
		failed = (int)i;
	}
	for (uint32_t i = 0; i < n; i++)
		needs[i].class->promised = 0;
	end_moves(p, failed >= 0);
	return failed;
}

int pool_provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	int failed;

	p->apart = true;
	failed = provide(p, needs, n, available);
	p->apart = false;
	/* Classes packed one behind the other may just fit where those that are apart do not. */
	if (failed >= 0)
		failed = provide(p, needs, n, available);
	if (failed < 0 || p->n_empty == 0)
		return failed;
	p->afresh = true;
	failed = provide(p, needs, n, available);
	p->afresh = false;
	return failed;
}

bool pool_is_idle(const struct pool *p)
{
	return p->n_unassigned + p->n_empty == p->n_extents;
}

/* One class behind the other, each in extents of its own: what pool_provide() does with an empty pool. */
bool pool_could_provide(const struct pool *p, const struct pool_need *needs, uint32_t n)
{
	uint64_t at = 0; /* the first byte of the extents that are left */

	for (uint32_t i = 0; i < n; i++) {
		const struct page_class *c = needs[i].class;
		uint64_t first = (at + c->page_bytes - 1) / c->page_bytes, pages;

		if (needs[i].pages == 0 || pages_wanted(needs, i, c) > 0)
			continue; /* counted with the first need of the class */
		pages = (uint64_t)pages_wanted(needs, n, c);
		if (first + pages > (uint64_t)c->num_pages)
			return false;
		at = ((first + pages) * c->page_bytes + p->extent_bytes - 1) / p->extent_bytes * p->extent_bytes;
	}
	return true;
}

/* ---- beside others -------------------------------------------------------------------- */

/* Makes free what @c was promised; false: so many pages cannot be had. */
static bool keep_promise(struct pool *p, struct page_class *c)
{
	class_provide(p, c, c->promised);
	return c->n_free >= c->promised;
}

/* Extents in no class, and empty ones whose pages nobody was promised; too few rather than too many. */
static int64_t spare_extents(const struct pool *p)
{
	int64_t n = p->n_unassigned;

	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];
		int64_t most = (int64_t)(p->extent_bytes / c->page_bytes) + 2; /* pages that touch an extent */
		int64_t spare = c->promised ? (c->n_free - c->promised) / most : c->n_empty;

		n += spare < c->n_empty ? spare : c->n_empty;
	}
	return n;
}

/*
 * Floors, as far as it goes, then claims; of each kind all promises first, as in
 * provide(). False: the claims cannot all be met.
 */
static bool promise_kept(struct pool *p, const struct pool_keep *keep)
{
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised = keep->floors[i];
	for (int i = 0; i < p->n_classes; i++)
		if (keep->floors[i] && !keep_promise(p, p->classes[i]))
			p->classes[i]->promised = p->classes[i]->n_free;
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised += keep->claims[i];
	for (int i = 0; i < p->n_classes; i++)
		if (keep->claims[i] && !keep_promise(p, p->classes[i]))
			return false;
	return true;
}

static int provide_beside(struct pool *p, const struct pool_keep *keep, const struct pool_need *needs, uint32_t n,
			  int64_t *available)
{
	int result;
	int64_t spare;

	if (p->afresh)
		start_afresh(p);
	result = promise_kept(p, keep) ? POOL_PROVIDED : POOL_CLAIMED;
	spare = keep->extents ? spare_extents(p) : 0;
	/* All promises first, as in provide(). */
	for (uint32_t i = 0; i < n && result == POOL_PROVIDED; i++)
		needs[i].class->promised += needs[i].pages;
	for (uint32_t i = 0; i < n && result == POOL_PROVIDED; i++) {
		struct page_class *c = needs[i].class;

		if (keep_promise(p, c))
			continue;
		*available = c->n_free - c->promised + pages_wanted(needs, n, c);
		result = (int)i;
	}
	if (result == POOL_PROVIDED && keep->extents &&
	    spare_extents(p) < (spare < keep->extents ? spare : keep->extents))
		result = POOL_KEPT;
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised = 0;
	end_moves(p, result != POOL_PROVIDED);
	return result;
}

int pool_provide_beside(struct pool *p, const struct pool_keep *keep, const struct pool_need *needs, uint32_t n,
			int64_t *available)
{
	int result;

	p->apart = true;
	result = provide_beside(p, keep, needs, n, available);
	p->apart = false;
	if (result != POOL_PROVIDED)
		result = provide_beside(p, keep, needs, n, available);
	if (result == POOL_PROVIDED || p->n_empty == 0)
		return result;
	p->afresh = true;
	result = provide_beside(p, keep, needs, n, available);
	p->afresh = false;
	return result;
}
