/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dirty.h - which pages must be scrubbed before whoever binds them reads them (spec section 3)
 *
 * A page is dirty for a session that did not bind it last. The worker zeroes what
 * it is told of (client/scrub.c); only which pages those are is known here.
 */
#ifndef SWAKV_DIRTY_H
#define SWAKV_DIRTY_H

#include "page_class.h"
#include "strip.h"

struct delivery;
struct group;
struct seq;
struct session;

enum { PAGE_FRESH = 0, PAGE_USED = UINT32_MAX }; /* nobody yet; somebody, whoever asks */

/* What @former had is dirty for the session of @serial; with @anew also what it had itself. */
static inline bool page_is_dirty(const struct page_class *c, uint32_t former, uint32_t serial, bool anew)
{
	return (anew || former != serial) && (former != PAGE_FRESH || c->fresh_is_dirty);
}
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
	return page_is_dirty(c, former, serial, false);
}
/* The same of all pages of @s, as page_is_dirty() says: their @ids become complements where they are dirty; how many.
 */
int32_t page_class_bind_strip(struct page_class *c, struct strip s, uint32_t serial, bool anew, int32_t *ids);
/* The users of @n pages are strangers to whoever asks from now on. */
void dirty_forget_users(struct page_class *c, const int32_t *pages, int32_t n);
/* Binds the pages in columns [@first, @end) of @q's row; the answer @d tells where to begin scrubbing, if anywhere. */
void dirty_tell(struct session *s, struct group *g, const struct seq *q, int32_t first, int32_t end,
		struct delivery *d);

#endif
