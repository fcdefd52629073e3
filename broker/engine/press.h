/* SPDX-License-Identifier: Apache-2.0 */
/*
 * press.h - who is asked for pages that others lack (spec section 8)
 *
 * Somebody waits, or was refused lately: what is lacking above that which is free
 * or on its way is asked of sessions that hold managed pages above the floor of
 * their model. Nobody is forced.
 */
#ifndef SWAKV_ENGINE_PRESS_H
#define SWAKV_ENGINE_PRESS_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct session;

/* A refusal counts as a lack for so long, in milliseconds, or until its session is given pages. */
#define PRESS_REFUSED_MS 1000

/*
 * Decides anew who is asked, from what is lacking, free and held now, as of the
 * last engine_stamp(). Looks at each session a few times, and serves others in between.
 */
void engine_press(struct engine *e);
/* True when somebody lacks pages or is asked, so that engine_press() is to be called soon. */
bool engine_presses(const struct engine *e);
/* The stamp at which it is to be called at the latest, 0: never, unless something else happens. */
uint64_t engine_press_due(const struct engine *e);

/* Of the pages that it manages in @group the session could give @pages, as it says: any number. */
void session_set_spare(struct session *s, uint32_t group, uint64_t pages);
/* Pages of @group that the session is asked for, 0: none; *@since: the stamp since which it is asked. */
int64_t session_wanted_pages(const struct session *s, uint32_t group, uint64_t *since);
/* Pages of @group that it had ever given when session_wanted_pages() was decided: what came after answers it already.
 */
uint64_t session_given_pages(const struct session *s, uint32_t group);
/* How often it was asked for more than before, less what it had given since, or for others first (givers.h). */
uint64_t session_want_rises(const struct session *s, uint32_t group);

/* How often the session was asked, group by group, and how often that was over before it had given a page. */
struct ask_counts {
	uint64_t asked, unanswered;
};
void session_count_asks(const struct session *s, struct ask_counts *out);

/* ---- inside of the engine ------------------------------------------------ */

/* @needs were refused to the session, which did not wait for them; or it has been given pages. */
void press_refused(struct session *s, const int64_t *needs);
void press_given(struct session *s);
/* It may be asked for what others lack, also for such as it does not offer. */
bool session_may_be_asked(const struct session *s);
/* The session is about to leave the engine: perhaps in the middle of engine_press(). */
void press_left(struct session *s);

#endif
