/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_class.c - see page_class.h
 *
 * The arrays of a class span every id it could ever use and are allocated
 * zeroed. Free pages belong to the extent they start in (free_stack.h); what is
 * taken comes from an extent that is in use anyway, one of the fullest, as long as
 * there is one.
 */
#include "page_class.h"
#include "dirty.h"

#include <stdio.h>
#include <stdlib.h>

#include "bug.h"
#include "extents.h"
#include "free_stack.h"

void page_class_free(struct page_class *c)
{
	if (!c)
		return;
	free(c->link);
	free(c->owner);
	free(c->place);
	free(c->state);
	free(c->user);
	free(c->tenant);
	free(c);
}

struct page_class *page_class_make(struct page_key key, uint64_t n)
{
	struct page_class *c = calloc(1, sizeof(*c));

	if (!c || n == 0 || n > INT32_MAX / 2) {
		free(c);
		return NULL;
	}
	c->key = key;
	c->page_bytes = key.bytes;
	c->num_pages = (int32_t)n;
	c->n_runs = key.joined ? 2 : 1;
	for (int k = 0; k < EXTENT_N_KINDS; k++)
		c->lists[k] = (struct extent_list){ -1, -1 };
	c->first_owed = -1;
	c->link = calloc(n, sizeof(*c->link));
	c->owner = calloc(n, sizeof(*c->owner));
	c->place = calloc(n, sizeof(*c->place));
	c->state = calloc(n, sizeof(*c->state));
	c->user = calloc(n, sizeof(*c->user));
	if (c->link && c->owner && c->place && c->state && c->user)
		return c;
	page_class_free(c);
	return NULL;
}

bool page_class_make_tenants(struct page_class *c)
{
	c->tenant = calloc((size_t)c->num_pages, sizeof(*c->tenant));
	return c->tenant;
}

void page_class_take_tenants(struct page_class *c, struct page_class *spare)
{
	if (c->tenant)
		return;
	c->tenant = spare->tenant;
	spare->tenant = NULL;
}

void page_class_join(struct page_class *c, struct pool *p)
{
	c->scrub = p->scrub;
	c->fresh_is_dirty = p->fresh_is_dirty;
	c->pool = p;
	c->extents = p->extents;
	runs_find(c, p->half_bytes);
}

/* The @n pages are leased: to whom is said later, if they can move. */
static inline void note_taken(struct page_class *c, const int32_t *pages, int32_t n)
{
	if (c->scrub == WIRE_SCRUB_ALWAYS)
		dirty_forget_users(c, pages, n);
	for (int32_t i = 0; c->tenant && i < n; i++)
		c->tenant[pages[i]] = 0;
}

void page_class_take_many(struct page_class *c, int32_t *out, int32_t n)
{
	MUST(c->n_free >= n);
	c->n_free -= n;
	c->n_leased += n;
	free_stack_take(c, out, n);
	note_taken(c, out, n);
}

bool page_class_take_beside(struct page_class *c, int32_t *page)
{
	if (!free_stack_take_beside(c, page))
		return false;
	c->n_free--;
	c->n_leased++;
	note_taken(c, page, 1);
	return true;
}

void page_class_promise(struct page_class *c, int32_t n)
{
	MUST(c->n_free >= n);
	c->n_free -= n;
	c->n_leased += n;
	c->n_owed += n;
	free_stack_promise(c, n);
}

void page_class_place(struct page_class *c, int32_t *out, int32_t n)
{
	MUST(c->n_owed >= n);
	c->n_owed -= n;
	free_stack_place(c, out, n);
	note_taken(c, out, n);
}

int32_t page_class_take(struct page_class *c)
{
	int32_t page;

	page_class_take_many(c, &page, 1);
	return page;
}

void page_class_put_many(struct page_class *c, const int32_t *pages, int32_t n)
{
	c->pool->returned++;
	c->n_free += n;
	c->n_leased -= n;
	free_stack_put(c, pages, n);
}

/* Page @page went to quarantine (@delta 1), or comes from there (-1). */
static void quarantine_count(struct page_class *c, int32_t page, int32_t delta)
{
	int32_t x = c->place[page], last = x;

	if (x < 0)
		page_extents(c->pool, c, page, &x, &last);
	for (; x <= last; x++)
		c->extents[x].n_quarantined += delta;
	c->n_quarantined += delta;
}

void page_class_put(struct page_class *c, int32_t page)
{
	MUST(page >= 0 && page < c->num_pages);
	MUST(c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED);
	if (c->state[page] == PAGE_LEASED)
		c->n_leased--;
	else
		quarantine_count(c, page, -1);
	c->n_free++;
	c->pool->returned++;
	free_stack_put_one(c, page);
}

void page_class_quarantine(struct page_class *c, int32_t page)
{
	MUST(page >= 0 && page < c->num_pages && c->state[page] == PAGE_LEASED);
	c->state[page] = PAGE_QUARANTINED;
	dirty_forget_users(c, &page, 1); /* what should have been copied or zeroed there may not have been */
	c->n_leased--;
	quarantine_count(c, page, 1);
}
