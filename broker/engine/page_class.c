/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_class.c - see page_class.h
 *
 * The arrays of a class span every id it could ever use and are allocated
 * zeroed, so memory is touched only for pages that were really handed out.
 */
#include "page_class.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bug.h"

void engine_bug(const char *file, int line, const char *what)
{
	fprintf(stderr, "<2>swakv: broken invariant at %s:%d: %s\n", file, line, what);
	abort();
}

int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes)
{
	uint64_t n;

	*p = (struct pool){ .half_bytes = half_bytes, .extent_bytes = extent_bytes, .epoch = 1 };
	if (half_bytes == 0 || extent_bytes == 0 || extent_bytes > half_bytes)
		return -EINVAL;
	n = half_bytes / extent_bytes + (half_bytes % extent_bytes != 0);
	if (n > INT32_MAX)
		return -EINVAL;
	p->n_extents = p->n_unassigned = (int32_t)n;
	p->extent_class = malloc(n * sizeof(*p->extent_class));
	if (!p->extent_class)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		p->extent_class[i] = -1;
	return 0;
}

static void page_class_free(struct page_class *c)
{
	free(c->free_stack);
	free(c->link);
	free(c->owner);
	free(c->state);
	free(c->user);
	free(c);
}

void pool_deinit(struct pool *p)
{
	for (int i = 0; i < p->n_classes; i++)
		page_class_free(p->classes[i]);
	free(p->extent_class);
	*p = (struct pool){ 0 };
}

static struct page_class *page_class_new(uint64_t page_bytes, uint64_t half_bytes)
{
	struct page_class *c = calloc(1, sizeof(*c));
	uint64_t n = half_bytes / page_bytes;

	if (!c || n == 0 || n > INT32_MAX / 2) {
		free(c);
		return NULL;
	}
	c->page_bytes = page_bytes;
	c->num_pages = (int32_t)n;
	c->free_stack = calloc(n, sizeof(*c->free_stack));
	c->link = calloc(n, sizeof(*c->link));
	c->owner = calloc(n, sizeof(*c->owner));
	c->state = calloc(n, sizeof(*c->state));
	c->user = calloc(n, sizeof(*c->user));
	if (c->free_stack && c->link && c->owner && c->state && c->user)
		return c;
	page_class_free(c);
	return NULL;
}

/* Where a new class goes: a place of its own, or that of one that nobody uses and that holds nothing; -1: none. */
static int class_place(const struct pool *p)
{
	if (p->n_classes < POOL_MAX_CLASSES)
		return p->n_classes;
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i]->n_sessions == 0 && p->classes[i]->n_extents == 0)
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
	c = *index < 0 ? NULL : page_class_new(page_bytes, p->half_bytes);
	if (!c)
		return NULL;
	c->scrub = p->scrub;
	c->fresh_is_dirty = p->fresh_is_dirty;
	if (*index < p->n_classes)
		page_class_free(p->classes[*index]);
	else
		p->n_classes++;
	p->classes[*index] = c;
	return c;
}

static int class_index(const struct pool *p, const struct page_class *c)
{
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i] == c)
			return i;
	return -1;
}

/* First byte of extent @x; the end of the half for one past the last. */
static uint64_t extent_start(const struct pool *p, int32_t x)
{
	return x >= p->n_extents ? p->half_bytes : (uint64_t)x * p->extent_bytes;
}

/* Ids of class @c that lie wholly in the extents [first, last): [*lo, *hi), empty when none. */
static void pages_within(const struct pool *p, const struct page_class *c, int32_t first, int32_t last, int32_t *lo,
			 int32_t *hi)
{
	uint64_t a = extent_start(p, first), b = extent_start(p, last);

	*lo = (int32_t)((a + c->page_bytes - 1) / c->page_bytes);
	*hi = (int32_t)(b / c->page_bytes);
	if (*hi < *lo)
		*hi = *lo;
}

static bool extent_may_serve(const struct pool *p, int32_t x, int index)
{
	return p->extent_class[x] == index || p->extent_class[x] < 0;
}

int64_t pool_available(struct pool *p, struct page_class *c)
{
	int index = class_index(p, c);
	int64_t usable = 0;

	if (c->cached_epoch != p->epoch) {
		for (int32_t x = 0; x < p->n_extents;) {
			int32_t first = x, lo, hi;

			while (x < p->n_extents && extent_may_serve(p, x, index))
				x++;
			pages_within(p, c, first, x, &lo, &hi);
			usable += hi - lo;
			if (x == first)
				x++;
		}
		c->cached_available = usable - c->n_usable;
		c->cached_epoch = p->epoch;
	}
	return c->n_free + c->cached_available;
}

/* Gives extent @x to class @c: every page that it completes becomes free, lowest id on top. */
static void assign_extent(struct pool *p, struct page_class *c, int index, int32_t x)
{
	int32_t first = x, last = x + 1, lo, hi, reach_lo, reach_hi;

	p->extent_class[x] = (int16_t)index;
	p->n_unassigned--;
	p->epoch++;
	c->n_extents++;
	/* Only pages that touch x can have become whole; they may reach into neighbours the class holds. */
	reach_lo = (int32_t)(extent_start(p, x) / c->page_bytes);
	reach_hi = (int32_t)((extent_start(p, x + 1) + c->page_bytes - 1) / c->page_bytes);
	while (first > 0 && p->extent_class[first - 1] == index &&
	       extent_start(p, first) > (uint64_t)reach_lo * c->page_bytes)
		first--;
	while (last < p->n_extents && p->extent_class[last] == index &&
	       extent_start(p, last) < (uint64_t)reach_hi * c->page_bytes)
		last++;
	pages_within(p, c, first, last, &lo, &hi);
	lo = lo > reach_lo ? lo : reach_lo;
	hi = hi < reach_hi ? hi : reach_hi;
	for (int32_t page = hi - 1; page >= lo; page--) {
		MUST(c->state[page] == PAGE_ABSENT);
		c->state[page] = PAGE_FREE;
		c->free_stack[c->n_free++] = page;
		c->n_usable++;
	}
}

/* The extent to take next: one beside those the class holds loses no page to straddling; else the lowest. */
static int32_t choose_extent(const struct pool *p, int index)
{
	int32_t lowest = -1;

	for (int32_t x = 0; x < p->n_extents; x++) {
		if (p->extent_class[x] >= 0)
			continue;
		if ((x > 0 && p->extent_class[x - 1] == index) ||
		    (x + 1 < p->n_extents && p->extent_class[x + 1] == index))
			return x;
		if (lowest < 0)
			lowest = x;
	}
	return lowest;
}

int pool_provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available)
{
	for (uint32_t i = 0; i < n; i++) {
		*available = pool_available(p, needs[i].class);
		if (needs[i].pages > *available)
			return (int)i;
	}
	for (uint32_t i = 0; i < n; i++) {
		int index = class_index(p, needs[i].class);

		while (needs[i].class->n_free < needs[i].pages) {
			int32_t x = choose_extent(p, index);

			MUST(x >= 0);
			assign_extent(p, needs[i].class, index, x);
		}
	}
	return -1;
}

/* Under the policy `always` a page that is given out again is dirty for everybody. */
static void forget_users(struct page_class *c, const int32_t *pages, int32_t n)
{
	if (c->scrub != WIRE_SCRUB_ALWAYS)
		return;
	for (int32_t i = 0; i < n; i++)
		if (c->user[pages[i]] != PAGE_FRESH)
			c->user[pages[i]] = PAGE_USED;
}

int32_t page_class_take(struct page_class *c)
{
	int32_t page;

	MUST(c->n_free > 0);
	page = c->free_stack[--c->n_free];
	MUST(c->state[page] == PAGE_FREE);
	c->state[page] = PAGE_LEASED;
	c->n_leased++;
	forget_users(c, &page, 1);
	return page;
}

void page_class_take_many(struct page_class *c, int32_t *out, int32_t n)
{
	const int32_t *top = c->free_stack + c->n_free - n;
	uint8_t *state = c->state;

	MUST(c->n_free >= n);
	for (int32_t i = 0; i < n; i++) {
		int32_t page = top[i];

		MUST(state[page] == PAGE_FREE);
		state[page] = PAGE_LEASED;
		out[i] = page;
	}
	c->n_free -= n;
	c->n_leased += n;
	forget_users(c, out, n);
}

void page_class_put_many(struct page_class *c, const int32_t *pages, int32_t n)
{
	int32_t *top = c->free_stack + c->n_free, num_pages = c->num_pages;
	uint8_t *state = c->state;

	for (int32_t i = 0; i < n; i++) {
		int32_t page = pages[i];

		MUST(page >= 0 && page < num_pages && state[page] == PAGE_LEASED);
		state[page] = PAGE_FREE;
		top[i] = page;
	}
	c->n_free += n;
	c->n_leased -= n;
}

void page_class_put(struct page_class *c, int32_t page)
{
	MUST(page >= 0 && page < c->num_pages);
	MUST(c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED);
	if (c->state[page] == PAGE_LEASED)
		c->n_leased--;
	else
		c->n_quarantined--;
	c->state[page] = PAGE_FREE;
	c->free_stack[c->n_free++] = page;
}

void page_class_quarantine(struct page_class *c, int32_t page)
{
	MUST(page >= 0 && page < c->num_pages && c->state[page] == PAGE_LEASED);
	c->state[page] = PAGE_QUARANTINED;
	c->n_leased--;
	c->n_quarantined++;
}

/* True when every extent that page @page touches belongs to class @index. */
static bool page_is_whole(const struct pool *p, const struct page_class *c, int index, int32_t page)
{
	uint64_t a = (uint64_t)page * c->page_bytes, b = a + c->page_bytes - 1;

	for (uint64_t x = a / p->extent_bytes; x <= b / p->extent_bytes; x++)
		if (p->extent_class[x] != index)
			return false;
	return true;
}

bool page_class_check(const struct pool *p, const struct page_class *c, int index, char *buf, size_t size)
{
	int32_t count[4] = { 0 };

	for (int32_t i = 0; i < c->num_pages; i++) {
		count[c->state[i]]++;
		if (page_is_whole(p, c, index, i) != (c->state[i] != PAGE_ABSENT)) {
			snprintf(buf, size, "class %d page %" PRId32 ": state %d does not fit its extents", index, i,
				 c->state[i]);
			return false;
		}
	}
	for (int32_t i = 0; i < c->n_free; i++) {
		if (c->state[c->free_stack[i]] != PAGE_FREE) {
			snprintf(buf, size, "class %d: page %" PRId32 " is on the free stack in state %d", index,
				 c->free_stack[i], c->state[c->free_stack[i]]);
			return false;
		}
	}
	if (count[PAGE_FREE] != c->n_free || count[PAGE_LEASED] != c->n_leased ||
	    count[PAGE_QUARANTINED] != c->n_quarantined || c->n_free + c->n_leased + c->n_quarantined != c->n_usable) {
		snprintf(buf, size,
			 "class %d: free %" PRId32 "/%" PRId32 " leased %" PRId32 "/%" PRId32 " quarantined %" PRId32
			 "/%" PRId32 " (counted/kept), usable %" PRId32,
			 index, count[PAGE_FREE], c->n_free, count[PAGE_LEASED], c->n_leased, count[PAGE_QUARANTINED],
			 c->n_quarantined, c->n_usable);
		return false;
	}
	return true;
}
