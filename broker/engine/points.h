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
	int32_t request;      /* entry whose sequences get the pages back; -1: they go to the class; or POINT_SHARED */
	uint32_t line;
	uint32_t n_members; /* of a shared one: requests that wait at it, and */
	uint64_t number;    /* its place among those of the line (shared_point.h) */
	uint64_t stamp;     /* when it was opened */
};

enum { POINT_SHARED = -2 }; /* of several requests, without pages */
enum { SHARED_MOST = 32 };  /* that are open in a line at a time: a bit each in a request */

struct line {
	uint64_t reached;
	bool doubtful;                   /* pages in quarantine of another line wait for this one, too */
	int32_t first_point, last_point; /* by value, ascending */
	struct row_list stray;           /* rows without owner that wait for the next delivery on this stream */
	struct page_chains quarantine;
	/* Shared points: the number and the value of the newest that ever was, and the number of the last that was
	 * reached; */
	uint64_t shared_last, shared_value, shared_reached;
	int32_t shared[SHARED_MOST]; /* where those between are, by number; -1: nobody waits at it any more */
};

/* @r waits for @value, which is not reached, with no pages. At one with others, if it can (shared_point.h). */
void point_wait(struct session *s, struct request *r, uint64_t value);
/*
 * Opens a point of @r (NULL: the pages go to their classes) at @value; one of the
 * same request and value takes them along.
 */
void point_open(struct session *s, uint32_t line, uint64_t value, struct request *r, const struct page_chains *pages);
/* A point of nobody, without pages. */
struct point *point_add(struct session *s, uint32_t line, uint64_t value);
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
