/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision.c - see provision.h
 *
 * A class grows beside what it holds, since there a page that straddles two
 * extents becomes whole: what it could have (available.h) it gets. For several at
 * once a provision is tried class by class, and undone when one falls short.
 */
#include "provision.h"

#include "bug.h"
#include "fit.h"

static struct page_class *class_of(const struct pool *p, struct page_key key)
{
	int i = 0;

	while (!page_key_equal(p->classes[i]->key, key))
		i++;
	return p->classes[i];
}

/* ---- provision ---------------------------------------------------------------------- */

/* How a provision is tried, one after the other until one succeeds. */
enum attempt {
	ATTEMPT_APART,  /* a class that begins does so away from others */
	ATTEMPT_PACKED, /* classes lie one behind the other, and those of large pages choose first */
	ATTEMPT_AFRESH, /* so, and all empty extents leave their classes first */
};

/* What one class is being given. */
struct provision {
	struct pool *pool;
	struct page_class *class;
	int index;
	enum attempt attempt;
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
		extent_forget(p, p->classes[index], x);
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

/* Bytes [from, to) of a half that whole pages of a stretch of extents lie in; of joined pages, one in each half. */
struct reach {
	struct {
		uint64_t from, to;
	} runs[2];
};

/* Takes extent @x if it is there to be taken and one of those pages lies in it. */
static void take_extent(const struct provision *v, int32_t x, const struct reach *of)
{
	struct pool *p = v->pool;
	bool within = false;

	for (int r = 0; r < v->class->n_runs; r++)
		within |= extent_start(p, x) < of->runs[r].to && extent_start(p, x + 1) > of->runs[r].from;
	if (!within || p->extent_class[x] == v->index || !extent_serves(p, x, v->index, v->others))
		return;
	note_moved(p, x);
	if (p->extent_class[x] >= 0)
		extent_return(p, x);
	extent_assign(p, v->class, v->index, x);
}

/* Takes extents of the stretch [first, end) until @n pages are free: upwards from @own, then downwards. */
static void take_stretch(const struct provision *v, int32_t first, int32_t own, int32_t end, int64_t n)
{
	const struct page_class *c = v->class;
	struct reach of = { 0 };
	int32_t lo, hi;

	for (int r = 0; r < c->n_runs; r++) {
		pages_within(v->pool, c, r, first, end, &lo, &hi);
		if (lo == hi)
			continue;
		of.runs[r].from = (uint64_t)lo * c->page_bytes - c->runs[r].from;
		of.runs[r].to = (uint64_t)hi * c->page_bytes - c->runs[r].from;
	}
	for (int32_t x = own; x < end && c->n_free < n; x++)
		take_extent(v, x, &of);
	for (int32_t x = own - 1; x >= first && c->n_free < n; x--)
		take_extent(v, x, &of);
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
		end = extents_next_stretch(p, x, v->index, v->others, &first);
		for (own = first; own < end && p->extent_class[own] != v->index; own++)
			;
		if (own < end)
			take_stretch(v, first, own, end, n);
		else if (!beside)
			take_stretch(v, first, v->attempt == ATTEMPT_APART ? begin_apart(p, first, end) : first, end,
				     n);
	}
}

/* Makes sure that @n pages of @c are free, as far as it goes. */
static void class_provide(struct pool *p, enum attempt attempt, struct page_class *c, int64_t n)
{
	struct provision v = { .pool = p, .class = c, .attempt = attempt };

	if (c->n_free >= n)
		return;
	v.index = pool_class_index(p, c);
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
	p->looked += (uint64_t)p->n_extents;
	for (int32_t x = 0; x < p->n_extents && p->n_empty > 0; x++) {
		if (p->extent_class[x] < 0 || p->extents[x].n_live > 0 || p->extents[x].choice)
			continue;
		note_moved(p, x);
		extent_return(p, x);
	}
}

/*
 * In which order needs are served where that in which they were declared fails:
 * there are fewer places for a large page than for a small one, so the large ones
 * are first.
 */
static void order_by_size(const struct pool_need *needs, uint32_t n, uint32_t *order)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = i;

		for (; at > 0; at--) {
			if (needs[order[at - 1]].class->page_bytes >= needs[i].class->page_bytes)
				break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
}

static int provide(struct pool *p, enum attempt attempt, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	int failed = find_hopeless(p, needs, n, available);
	uint32_t order[WIRE_MAX_GROUPS];

	if (failed >= 0)
		return failed;
	if (attempt == ATTEMPT_AFRESH)
		start_afresh(p);
	/* All promises first: what a later class has already is not taken from it to be replaced. */
	for (uint32_t i = 0; i < n; i++)
		needs[i].class->promised += needs[i].pages;
	if (attempt == ATTEMPT_PACKED)
		order_by_size(needs, n, order);
	for (uint32_t i = 0; i < n && failed < 0; i++) {
		uint32_t at = attempt == ATTEMPT_PACKED ? order[i] : i;
		struct page_class *c = needs[at].class;

		class_provide(p, attempt, c, c->promised);
		if (c->n_free >= c->promised)
			continue;
		*available = c->n_free;
		failed = (int)at;
	}
	for (uint32_t i = 0; i < n; i++)
		needs[i].class->promised = 0;
	end_moves(p, failed >= 0);
	return failed;
}

bool pool_is_idle(const struct pool *p)
{
	return p->n_unassigned + p->n_empty == p->n_extents && p->n_chosen == 0;
}

/* What an empty pool is to have: @needs, and what is kept (NULL: nothing) of each class, all of it. */
static uint32_t fit_all(const struct pool *p, const struct pool_keep *keep, const struct pool_need *needs, uint32_t n,
			struct fit_need *fit)
{
	uint32_t n_fit = 0;

	for (uint32_t i = 0; i < n; i++)
		fit_add(fit, &n_fit, needs[i].class->key, (uint64_t)needs[i].pages);
	for (int i = 0; i < p->n_classes && keep; i++)
		if (keep->floors[i] + keep->claims[i])
			fit_add(fit, &n_fit, p->classes[i]->key, (uint64_t)(keep->floors[i] + keep->claims[i]));
	return n_fit;
}

/* Where no page is live: as fit.h lays them out, so what it says to fit does. */
static bool place_anew(struct pool *p, const struct pool_keep *keep, const struct pool_need *needs, uint32_t n)
{
	struct fit_need fit[FIT_NEEDS];
	uint32_t n_fit = fit_all(p, keep, needs, n, fit);
	struct fit_plan plan;
	int64_t extents = fit_extents(p->half_bytes, p->extent_bytes, fit, n_fit, &plan);
	bool good = extents >= 0 && extents + (keep ? keep->extents : 0) <= p->n_extents;

	if (!good)
		return false;
	start_afresh(p);
	for (uint32_t i = 0; i < plan.n && good; i++) {
		struct page_class *c = class_of(p, fit[plan.at[i].need].key);

		c->promised += (int64_t)plan.at[i].pages;
		class_provide(p, ATTEMPT_PACKED, c, c->promised);
		good = c->n_free >= c->promised;
	}
	pool_unpromise(p);
	end_moves(p, !good);
	return good;
}

int pool_provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	int failed = provide(p, ATTEMPT_APART, needs, n, available);
	int64_t again;

	/* Classes packed one behind the other may just fit where those that are apart do not. */
	if (failed >= 0 && provide(p, ATTEMPT_PACKED, needs, n, &again) < 0)
		failed = -1;
	if (failed >= 0 && p->n_empty > 0 && provide(p, ATTEMPT_AFRESH, needs, n, &again) < 0)
		failed = -1;
	if (failed >= 0 && pool_is_idle(p) && place_anew(p, NULL, needs, n))
		failed = -1;
	return failed;
}

bool pool_could_provide(const struct pool *p, const struct pool_need *needs, uint32_t n)
{
	struct fit_need fit[FIT_NEEDS];
	uint32_t n_fit = 0;

	for (uint32_t i = 0; i < n; i++)
		fit_add(fit, &n_fit, needs[i].class->key, (uint64_t)needs[i].pages);
	return fit_extents(p->half_bytes, p->extent_bytes, fit, n_fit, NULL) >= 0;
}

/* ---- beside others -------------------------------------------------------------------- */

/* Makes free what @c was promised; false: so many pages cannot be had. */
static bool keep_promise(struct pool *p, enum attempt attempt, struct page_class *c)
{
	class_provide(p, attempt, c, c->promised);
	return c->n_free >= c->promised;
}

int64_t pool_spare_extents(const struct pool *p)
{
	int64_t n = p->n_unassigned - p->n_chosen_free;

	for (int i = 0; i < p->n_classes; i++) {
		const struct page_class *c = p->classes[i];
		int64_t most =
			c->n_runs * ((int64_t)(p->extent_bytes / c->page_bytes) + 2); /* pages that touch an extent */
		int64_t spare = c->promised ? (c->n_free - c->promised) / most : c->n_empty;

		n += spare < c->n_empty ? spare : c->n_empty;
	}
	return n;
}

/*
 * Floors, as far as it goes: all promises first, as in provide(). What is
 * claimed stays where it is: whoever stays within its floor may take it, but no
 * extent moves for a floor that nobody asks for. Only what starts afresh must
 * find extents for it again. False: it does not.
 */
static bool promise_kept(struct pool *p, enum attempt attempt, const struct pool_keep *keep)
{
	bool afresh = attempt == ATTEMPT_AFRESH, good = true;

	for (int i = 0; i < p->n_classes; i++) {
		struct page_class *c = p->classes[i];
		int64_t claimed = keep->claims[i] < c->n_free ? keep->claims[i] : c->n_free;

		c->promised = keep->floors[i] + (afresh ? 0 : claimed);
	}
	for (int i = 0; i < p->n_classes; i++)
		if (keep->floors[i] && !keep_promise(p, attempt, p->classes[i]))
			p->classes[i]->promised = p->classes[i]->n_free;
	for (int i = 0; i < p->n_classes && afresh; i++)
		p->classes[i]->promised += keep->claims[i];
	for (int i = 0; i < p->n_classes && afresh; i++)
		good &= keep->claims[i] == 0 || keep_promise(p, attempt, p->classes[i]);
	return good;
}

/* Who had leave to take what is claimed may have taken some: of it as much as is there. */
static void claims_that_are_left(const struct pool *p, struct pool_keep *keep)
{
	for (int i = 0; i < p->n_classes; i++)
		if (keep->claims[i] > p->classes[i]->n_free)
			keep->claims[i] = p->classes[i]->n_free;
}

void pool_promise(struct pool *p, const struct pool_keep *keep)
{
	promise_kept(p, ATTEMPT_PACKED, keep);
	end_moves(p, false);
}

int64_t pool_promise_more(struct pool *p, struct page_class *c, int64_t pages)
{
	int64_t had = c->promised;

	c->promised += pages;
	if (!keep_promise(p, ATTEMPT_PACKED, c))
		c->promised = c->n_free > had ? c->n_free : had;
	end_moves(p, false);
	return c->promised - had;
}

void pool_unpromise(struct pool *p)
{
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised = 0;
}

static int provide_beside(struct pool *p, enum attempt attempt, const struct pool_keep *keep,
			  const struct pool_need *needs, uint32_t n, int64_t *available)
{
	int result = POOL_PROVIDED;
	uint32_t order[WIRE_MAX_GROUPS];
	int64_t spare;

	if (attempt == ATTEMPT_AFRESH)
		start_afresh(p);
	if (!promise_kept(p, attempt, keep))
		result = POOL_KEPT;
	spare = keep->extents ? pool_spare_extents(p) : 0;
	/* All promises first, as in provide(). */
	for (uint32_t i = 0; i < n && result == POOL_PROVIDED; i++)
		needs[i].class->promised += needs[i].pages;
	if (attempt == ATTEMPT_PACKED)
		order_by_size(needs, n, order);
	for (uint32_t i = 0; i < n && result == POOL_PROVIDED; i++) {
		uint32_t at = attempt == ATTEMPT_PACKED ? order[i] : i;
		struct page_class *c = needs[at].class;

		if (keep_promise(p, attempt, c))
			continue;
		*available = c->n_free - c->promised + pages_wanted(needs, n, c);
		result = (int)at;
	}
	if (result == POOL_PROVIDED && keep->extents &&
	    pool_spare_extents(p) < (spare < keep->extents ? spare : keep->extents))
		result = POOL_KEPT;
	pool_unpromise(p);
	end_moves(p, result != POOL_PROVIDED);
	return result;
}

int pool_provide_beside(struct pool *p, struct pool_keep *keep, const struct pool_need *needs, uint32_t n,
			int64_t *available)
{
	int64_t again;
	int result;

	claims_that_are_left(p, keep);
	result = provide_beside(p, ATTEMPT_APART, keep, needs, n, available);
	if (result != POOL_PROVIDED && provide_beside(p, ATTEMPT_PACKED, keep, needs, n, &again) == POOL_PROVIDED)
		result = POOL_PROVIDED;
	if (result != POOL_PROVIDED && p->n_empty > 0 &&
	    provide_beside(p, ATTEMPT_AFRESH, keep, needs, n, &again) == POOL_PROVIDED)
		result = POOL_PROVIDED;
	if (result != POOL_PROVIDED && pool_is_idle(p) && place_anew(p, keep, needs, n))
		result = POOL_PROVIDED;
	return result;
}
