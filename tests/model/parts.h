/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - what the model's sources share and nobody else needs */
#ifndef SWAKV_TEST_MODEL_PARTS_H
#define SWAKV_TEST_MODEL_PARTS_H

#include "model.h"

/* When something happens: now, at a value of the request's line, or never (the completion failed). */
struct when {
	bool now, failed;
	uint64_t value;
};

/* The page is in quarantine: what its work has left there nobody knows. */
void ref_doubt(struct ref_class *c, int32_t id);
void ref_quarantine(struct ref_session *s, uint32_t g, int32_t id, uint32_t line);

/* All that may go with a call of these requests: their own rows, and rows without an owner of their streams. */
void ref_deliver(struct ref_session *s, struct ref_request *const requests[], uint32_t n, struct ref_delivery *d);

/* 0 or SWAKV_EINVALID. */
int ref_fence_read(const struct ref_session *s, const struct ref_request *r, const struct wire_fence *f, uint64_t armed,
		   bool ending, struct when *w);

/* When pages leave the request for good: never before its own last point. */
struct when ref_leaving(const struct ref_session *s, const struct ref_request *r, struct when w);

/* A completed step is open until its value is reached; steps of the same value are open together. */
void ref_open_point(struct ref_session *s, struct ref_request *r, const struct when *w);

/* The page of @column leaves the row, for the sequence, or for the class when that has more than its share. */
void ref_leave(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, uint32_t g, int64_t column,
	       const struct when *w);

/* Binds the new pages of the pending transition in every group: reserved ones, and from the class what those lack. */
void ref_bind_new(struct ref_session *s, const struct ref_request *r, struct ref_seq *q);

/* A request on @stream takes the slot @l, which other streams are through with; it leaves it, and others wait for
 * @value. */
void ref_take_slot(struct ref_slot *l, uint32_t stream);
void ref_leave_slot(struct ref_slot *l, uint64_t value);
void ref_give_up_seq(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, const struct when *w);

void ref_end_request(struct ref_session *s, struct ref_request *r, const struct when *w);

/* What every prepare refuses first. */
int ref_prepare_check(struct ref_session *s, uint64_t handle, enum phase phase, struct ref_request **out);
/* The engine has moved these pages of requests that step. */
void ref_move(struct ref_session *s, struct ref_request *const requests[], uint32_t n, const struct ref_moves *m);
/* Free pages of the class are left for all for whom they are kept. */
bool ref_is_spared(struct ref_session *s, uint32_t index);
/* The step of @r is completed: what it has replaced leaves. */
void ref_leave_moved(struct ref_session *s, struct ref_request *r, const struct when *w);

/* What every complete refuses first: another transition than @t or @or is pending, or a bad fence. */
int ref_complete_check(struct ref_session *s, uint64_t handle, enum transition t, enum transition or,
		       const struct wire_fence *f, uint64_t armed, struct ref_request **out, struct when *w);
/* One entry of a step, with what it lists; @said: what the engine answered. */
int ref_prepare_one(struct ref_session *s, const struct wire_step_entry *e, const int32_t *counts, int said,
		    struct ref_request **out);
int ref_complete_one(struct ref_session *s, const struct wire_step_entry *e, const int32_t *counts,
		     const uint64_t *armed);
/* The sequence has @endpoint tokens; the pages that it no longer needs leave. */
void ref_settle(struct ref_session *s, struct ref_request *r, struct ref_seq *q, int64_t endpoint,
		const struct when *w);

/* Whether even an empty pool could not hold @need[class] pages at once; @said as with ref_admit(). */
bool ref_never(struct ref_pool *p, const int64_t *need, int said);
/* Whether an empty pool could hold @need[class] pages, and leave @whole extents; @said: the engine's answer. */
bool ref_floors_fit(struct ref_pool *p, const int64_t *need, int64_t whole, int said);
/* What is to be left to others. */
struct keep {
	int64_t floors[REF_CLASSES], claims[REF_CLASSES];
	bool vague; /* also whole extents, for pages of which nothing is known */
};
/*
 * Whether @need[class] pages can be had now, all of them, beside what is kept: 0
 * or SWAKV_ENOPAGES; @said: what the engine says, heard where it does.
 */
int ref_provide_beside(struct ref_pool *p, const struct keep *k, const int64_t *need, int said);

/*
 * Whether @need[class] pages may come to @s now: 0, SWAKV_ENEVER (also when not
 * together with those that it has: @whole) or SWAKV_ENOPAGES. @running: no claim
 * counts; @wait: nor its own.
 */
int ref_admit(struct ref_session *s, const int64_t *need, const int64_t *whole, bool running,
	      const struct ref_wait *wait, int said);
bool ref_too_much(struct ref_session *s, const int64_t *whole, int said);
int ref_begin_check(struct ref_session *s, const struct ref_begin *b);
/* @need[class]: what it reserves. */
void ref_begin_need(const struct ref_session *s, const struct ref_begin *b, int64_t *need);
/* It begins: its pages are still to be learned. */
struct ref_request *ref_begin_request(struct ref_session *s, const struct ref_begin *b);
/* SWAKV_EAGAIN, or SWAKV_EBUSY: as many wait in the session as may. */
int ref_wait_for_pages(struct ref_session *s, const struct ref_begin *b);
int ref_wait_to_take(struct ref_session *s, const struct ref_take *t);
/* @need[class]: what it waits for. */
void ref_wait_need(const struct ref_wait *w, int64_t *need);
/* What an answer, of a begin or take, says of pages: when it waits, or for itself, or may not, there are none now. */
int ref_heard(int said);
/* It is told that there are no pages for it, and does not wait. */
void ref_note_refused(struct ref_session *s);
int ref_take_check(const struct ref_session *s, const struct ref_take *t);
/* What a take is told that has its turn; @n: with how many pages, where the engine says that it got some. */
int ref_take_code(struct ref_session *s, const struct ref_take *t, const struct ref_wait *wait, int said, uint32_t n);
/* One of the model waits that none that comes later may overtake. */
bool ref_holds_up(const struct ref_pool *p, const struct ref_quota *q);
/* Page @id of class @c has come free. */
void ref_claim_joined(struct ref_pool *p, const struct ref_class *c, int32_t id);
/* Nothing is kept any more for the claim of @q. */
void ref_claim_end(struct ref_pool *p, struct ref_quota *q, bool admitted);
/* All that page @id touches belongs to the class, or with @reach: could come to it; and none of it is chosen. */
bool ref_covered(const struct ref_pool *p, const struct ref_class *c, int32_t id, bool reach);
/* Whether @need[class] pages could be had if every open point of the session were reached, class by class. */
bool ref_waits_for_itself(struct ref_session *s, const int64_t *need);
/* The session takes no more commands: nothing waits in it. */
void ref_forget_waits(struct ref_session *s);

#endif
