/* SPDX-License-Identifier: Apache-2.0 */
/* points.h - completion points, and where pages go when one is reached */
#ifndef SWAKV_ENGINE_POINTS_H
#define SWAKV_ENGINE_POINTS_H

#include "page_chain.h"
#include "row_list.h"
#include "wire.h"

struct session;
struct request;

/* An open completion point: pages that wait for a value of one line. They lie in the session's point_pages. */
struct point {
	uint64_t value;
	int32_t prev, next;   /* in the line's order; `next` also chains free entries */
	int32_t older, newer; /* among all of the session, in the order in which they were opened */
	int32_t same_request; /* next point of the same request, opened before it */
	int32_t after;        /* the one opened after it; -1: it is the request's newest */
	int32_t beside;       /* next of the ring of points that the same pages wait for; itself: for this one alone */
	int32_t request;      /* entry whose sequences get the pages back; -1: they go to the class */
	uint32_t line;
	uint64_t stamp; /* when it was opened */
};

struct line {
	uint64_t reached;
	bool doubtful;                   /* pages in quarantine of another line wait for this one, too */
	int32_t first_point, last_point; /* by value, ascending */
	struct row_list stray;           /* rows without owner that wait for the next delivery on this stream */
	struct page_chains quarantine;
};

/*
 * Opens a point of @r (NULL: the pages go to their classes) at @value; one of the
 * same request and value takes them along. @pages NULL: none.
 */
void point_open(struct session *s, uint32_t line, uint64_t value, struct request *r, const struct page_chains *pages);
/* Takes @p, whose pages are elsewhere by now, out of its line; it is free. */
void point_close(struct session *s, struct point *p);
/* Closes all points of @r; their pages are appended to @chains. */
void point_absorb(struct session *s, struct request *r, struct page_chains *chains);
/* Takes the pages of sequences that a compaction drops (map -1) out of the points of @r and appends them to @chains. */
void point_extract(struct session *s, struct request *r, struct page_chains *chains);
/* A value of a line, not reached yet. */
struct line_value {
	uint32_t line;
	uint64_t value;
};
/* Pages of @chains return to their classes when all of @n values are reached; 0: now. Opens a point for each at most.
 */
void pages_release_behind(struct session *s, const struct line_value *values, uint32_t n,
			  const struct page_chains *chains);
/* Pages of @chains return to their classes now, or when @line reaches @value. */
void pages_release(struct session *s, uint32_t line, uint64_t value, const struct page_chains *chains);

#endif
