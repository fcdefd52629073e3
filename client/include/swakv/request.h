/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - admission and end of a batch of sequences (man 3 swakv_request; spec section 3) */
#ifndef SWAKV_REQUEST_H
#define SWAKV_REQUEST_H

#include <swakv/session.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct swakv_begin_options {
	uint32_t size;        /* sizeof(struct swakv_begin_options) */
	uint32_t stream;      /* index below n_streams; the request's for life */
	const int32_t *slots; /* one a sequence, unique, in [0, max_batch) */
	uint32_t n_slots;     /* sequences of the batch */
	uint32_t wait_ms;     /* how long the request may wait for pages or slots that are not free, 0: not at all */
	int64_t max_tokens;   /* length no sequence will exceed, in tokens: fewer pages are reserved; 0: max_seq */
};

/*
 * Admits a batch: all its pages, in all groups, or nothing. wait_ms is added to
 * what the session waits for an answer. *@out is NULL unless the result is 0
 * (with a ticket: it is set when the ticket is collected). Owned by the caller
 * until swakv_request_free().
 * Errors: common, SWAKV_EDENIED (an administrator drains the broker or the model), SWAKV_EPOISONED, SWAKV_EPHASE (an
 * unbound stream of a GPU), SWAKV_EBUSY (a slot is in use, or too many requests exist or wait), SWAKV_EPENDING (only
 * the session's own device work is in the way), SWAKV_ENEVER, SWAKV_ENOPAGES, SWAKV_EDEVICE (a scrub has failed).
 */
int swakv_request_begin(swakv_session *s, const struct swakv_begin_options *options, swakv_request **out,
			swakv_ticket *ticket);
/*
 * Ends the wait of the begin, or take of pages, whose ticket is @begin: that one is
 * answered with SWAKV_ENOPAGES. If it had been decided before, nothing happens. Collect its
 * ticket in either case; the result tells which it was.
 * Errors: common (also a @begin that is no begin or take in flight).
 */
int swakv_request_withdraw(swakv_session *s, swakv_ticket begin, swakv_ticket *ticket);
/*
 * Raises max_tokens of begin and reserves what that needs in every group, or nothing.
 * @max_tokens: not below what the request has, not above max_seq.
 * Errors: common, SWAKV_EPOISONED, SWAKV_EPHASE (a step is pending, or the request is finishing),
 * SWAKV_EPENDING (what it lacks waits for device work of the session itself), SWAKV_ENEVER, SWAKV_ENOPAGES,
 * SWAKV_EDEVICE (a scrub has failed).
 */
int swakv_request_reserve(swakv_request *r, int64_t max_tokens, swakv_ticket *ticket);

/*
 * The pages of the request stay where they are from now on, until it is unpinned: for whatever holds ids or
 * addresses beside the tables (a graph that bakes them, an exported plan, a pointer). Pages of groups that are not
 * SWAKV_GROUP_MOVABLE stay anyway. Pins do not count: one unpin ends them. On a custom stream without `move` a
 * request is pinned for life, and unpin is SWAKV_EUNSUPPORTED.
 * Errors: common.
 */
int swakv_request_pin(swakv_request *r, swakv_ticket *ticket);
/* Errors: common, SWAKV_EUNSUPPORTED. */
int swakv_request_unpin(swakv_request *r, swakv_ticket *ticket);

/*
 * Ends the request; its pages return at its last completion point. On one that has ended: 0, nothing done.
 * Errors: common, SWAKV_EPHASE (a step is pending: complete it, or abandon the request).
 */
int swakv_request_finish(swakv_request *r, swakv_ticket *ticket);
/*
 * As finish, also with a step pending: the library marks the stream, and the pages return at that mark.
 * Errors: common, SWAKV_EPOISONED (the stream could not be marked, or a page that moves not be copied: the pages are in
 * quarantine).
 */
int swakv_request_abandon(swakv_request *r, swakv_ticket *ticket);
/* Frees the caller's handle; a request that is still alive is abandoned, without waiting. NULL is ignored. */
void swakv_request_free(swakv_request *r);

/* False after finish, abandon, a poison that took the request, or the session's end; false for NULL. */
bool swakv_request_valid(const swakv_request *r);
/* Sequences of the request now, 0 for NULL. */
uint32_t swakv_request_batch(const swakv_request *r);
/* Slot of sequence @seq, -1 when out of range, as for NULL. */
int32_t swakv_request_slot(const swakv_request *r, uint32_t seq);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
