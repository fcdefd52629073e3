/* SPDX-License-Identifier: Apache-2.0 */
/*
 * totals.h - what a session has done since it attached
 *
 * Counts that only rise. A step inside a page counts nothing for them: what it
 * advances is in its request's own count of steps, and is added up here.
 */
#ifndef SWAKV_ENGINE_TOTALS_H
#define SWAKV_ENGINE_TOTALS_H

#include <stdint.h>

struct session;

struct session_totals {
	uint64_t prefilled;      /* tokens, of all sequences, that prefills have completed */
	uint64_t stepped;        /* and that steps have: those that were taken back later are among them */
	uint64_t pages_taken;    /* from their classes, of all groups, */
	uint64_t pages_returned; /* and back */
	uint64_t pages_scrubbed; /* that its worker was told to scrub */
	uint64_t pages_moved;    /* out of extents that others wait for */
	uint64_t pages_yielded;  /* of those that it was asked to give since others lacked some */
};
/* Looks at each live request: others may be served in between. */
void session_total(struct session *s, struct session_totals *out);

#endif
