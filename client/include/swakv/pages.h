/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - pages that the caller manages itself (man 3 swakv_pages; spec section 8) */
#ifndef SWAKV_PAGES_H
#define SWAKV_PAGES_H

#include <swakv/session.h>
#include <swakv/stream.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define SWAKV_MAX_PAGES 4096 /* that one call takes or gives */

enum swakv_take_flags {
	/*
	 * No byte of a page is read before the caller has written it, not even such as it masks: pages that this
	 * session had last, in this group, are not filled with zeroes.
	 */
	SWAKV_TAKE_OVERWRITES = 1,
};

/*
 * Takes at least @min and at most @max pages of layer group @group, up to
 * SWAKV_MAX_PAGES, or none: their K ids to @ids, which has room for @max, how many
 * to *@n. Pages that were used before are filled with zeroes on @stream, before
 * what is enqueued there from then on. Waits for up to @wait_ms for @min pages, as
 * a begin does. With a ticket, @ids and @n are written when it is collected, and
 * are borrowed until then.
 * Errors: common, SWAKV_EDENIED (an administrator drains the broker or the model), SWAKV_EPOISONED, SWAKV_EPHASE (an
 * unbound stream of a GPU), SWAKV_EBUSY (too many wait), SWAKV_EPENDING (what it lacks waits for device work of the
 * session itself), SWAKV_ENEVER, SWAKV_ENOPAGES, SWAKV_EDEVICE (a scrub has failed: close the session).
 */
int swakv_pages_take(swakv_session *s, uint32_t group, uint32_t stream, uint32_t flags, uint32_t min, uint32_t max,
		     uint32_t wait_ms, int32_t *ids, uint32_t *n, swakv_ticket *ticket);
/*
 * Gives @n pages back that swakv_pages_take() took in @group, all or none. They
 * are free to others when all @fences are reached: one for each stream that has
 * used them, marked behind that work, and SWAKV_MAX_PAGES at most. @n_fences 0: no
 * stream uses them any more.
 * Errors: common (also a page that is not the caller's, or stands there twice: the sentence has its id),
 * SWAKV_EPOISONED (a fence says that work failed: the pages are in quarantine), SWAKV_EPENDING (too many completion
 * points are open: again when one is reached).
 */
int swakv_pages_give(swakv_session *s, uint32_t group, const int32_t *ids, uint32_t n, const struct swakv_fence *fences,
		     uint32_t n_fences, swakv_ticket *ticket);

/* ---- what others lack ------------------------------------------------------------- */

/* None of these sends a command: each costs as much as a few loads or stores. */

/*
 * Pages of @group that could be taken about now: a hint, some milliseconds old.
 * 0 for NULL, for an unknown group, and once the session has ended.
 */
int64_t swakv_pages_takeable(const swakv_session *s, uint32_t group);
/*
 * The floor and the ceiling of the session's model, in pages of @group as if the
 * model had no other: @floor and @ceiling (all pages there are when it has none).
 * All sessions of the model share both. An administrator may change them; they
 * are as old as what can be taken.
 * Errors: common, SWAKV_EAGAIN (the session has only just attached, and they are not there yet).
 */
int swakv_pages_get_limits(swakv_session *s, uint32_t group, int64_t *floor, int64_t *ceiling);
/*
 * Says that @n of the pages that the session has taken in @group could be given,
 * since nothing refers to them (a prefix cache, say): when others lack pages, those
 * are asked for first.
 * Errors: common.
 */
int swakv_pages_offer(swakv_session *s, uint32_t group, int64_t n);
/*
 * Pages of @group that the session is asked to give, since others lack them, less
 * what it has given since that was decided, gives under way included: 0 when it is
 * not asked, or no longer. @since_ns (may be NULL) gets since when, by
 * CLOCK_MONOTONIC, else 0. Nobody is forced. From the first call for @group on,
 * swakv_session_fd() becomes readable when more is asked for than was told.
 */
int64_t swakv_pages_wanted(swakv_session *s, uint32_t group, uint64_t *since_ns);

/* Page ids [first, end): K ids, as swakv_pages_take() gives them. */
struct swakv_page_range {
	int32_t first, end;
};
#define SWAKV_MAX_RANGES 16 /* that the broker tells at a time */
/*
 * Of the pages of @group that are wanted, which help most: those in extents that
 * could go to pages of another size, once nothing else lies in them. Up to @max
 * ranges to @ranges; how many. Some ids in them may be others' pages, or free. A
 * worker that gives pages of these first gives fewer; it need not have any that it can give.
 * 0: it is all the same which, or none are wanted; also for NULL and an unknown group.
 */
uint32_t swakv_pages_wanted_ranges(const swakv_session *s, uint32_t group, struct swakv_page_range *ranges,
				   uint32_t max);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
