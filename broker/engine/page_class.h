/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_class.h - who owns which bytes of the pool: extents, page classes, pages
 *
 * A pool half is cut into extents; a page class (all groups with the same page
 * bytes S) is given extents when it needs pages. A page is usable when all its
 * bytes lie in extents of its class. K and V halves mirror each other, so one
 * id and one account stand for both.
 */
#ifndef SWAKV_PAGE_CLASS_H
#define SWAKV_PAGE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

enum page_state {
	PAGE_ABSENT, /* not (wholly) in an extent of the class */
	PAGE_FREE,
	PAGE_LEASED,
	PAGE_QUARANTINED,
};

enum { PAGE_FRESH = 0, PAGE_USED = UINT32_MAX }; /* nobody yet; somebody, whoever asks */

struct page_class {
	uint64_t page_bytes;
	int32_t num_pages; /* ids it could ever use */
	int32_t n_usable;  /* free + leased + quarantined */
	int32_t n_free;
	int32_t n_leased;
	int32_t n_quarantined;
	int32_t n_extents;
	int32_t n_sessions;
	int32_t *free_stack; /* [num_pages], last in first out */
	int32_t *link;       /* [num_pages], chains leased pages in lists of their holder */
	int32_t *owner;      /* [num_pages], the holder's mark while a page is chained */
	uint8_t *state;      /* [num_pages], enum page_state */
	uint32_t *user;      /* [num_pages], who bound the page last: a session's serial, PAGE_FRESH or PAGE_USED */
	uint32_t scrub;      /* as the pool's */
	bool fresh_is_dirty;
	int64_t cached_available;
	uint64_t cached_epoch;
};

#define POOL_MAX_CLASSES 64

struct pool {
	uint64_t half_bytes;
	uint64_t extent_bytes;
	uint32_t scrub; /* enum wire_scrub_policy */
	bool fresh_is_dirty;
	int32_t n_extents; /* the last one may be short */
	int32_t n_unassigned;
	int16_t *extent_class; /* [n_extents], index of the class, -1: unassigned */
	uint64_t epoch;        /* rises when an extent changes hands */
	int n_classes;
	struct page_class *classes[POOL_MAX_CLASSES];
};

/* 0 or -ENOMEM, -EINVAL. Scrubs never, until told otherwise. */
int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes);
void pool_deinit(struct pool *p);

/*
 * The class of pages of @page_bytes, made when it is new. NULL: out of memory, or
 * POOL_MAX_CLASSES are in use or hold extents.
 */
struct page_class *pool_class(struct pool *p, uint64_t page_bytes, int *index);

/* Pages that could be leased now: free ones, and those that all unassigned extents would give. */
int64_t pool_available(struct pool *p, struct page_class *c);
struct pool_need {
	struct page_class *class;
	int64_t pages;
};
/*
 * Makes sure that of every need's class so many pages are free, all or nothing. -1, or the index of the first need
 * that cannot be met, with *@available what its class could have had.
 */
int pool_provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available);

/* Takes a free page (there must be one). */
int32_t page_class_take(struct page_class *c);
/* Takes @n free pages: @out[n - 1] is what page_class_take() would take first. */
void page_class_take_many(struct page_class *c, int32_t *out, int32_t n);
/* Gives a leased or quarantined page back. A page in any other state is a bug and ends the process. */
void page_class_put(struct page_class *c, int32_t page);
/* Gives @n leased pages back, in order. */
void page_class_put_many(struct page_class *c, const int32_t *pages, int32_t n);
/*
 * A leased page has been bound by the session of @serial: true when it is dirty,
 * that is when it must be scrubbed first. From then on it counts as clean for
 * that session. Who had it says enough: a session has one element type in a
 * class. A page that comes back without having been bound keeps its last user,
 * since it was never scrubbed for the one that held it.
 */
static inline bool page_class_bind(struct page_class *c, int32_t page, uint32_t serial)
{
	uint32_t former = c->user[page];

	c->user[page] = serial;
	return former != serial && (former != PAGE_FRESH || c->fresh_is_dirty);
}
/* A leased page becomes quarantined. */
void page_class_quarantine(struct page_class *c, int32_t page);

/* Recounts one class from its page states and the extents; false, with a sentence, when an account is wrong. */
bool page_class_check(const struct pool *p, const struct page_class *c, int index, char *buf, size_t size);

#endif
