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

void ref_give_up_seq(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, const struct when *w);

void ref_end_request(struct ref_session *s, struct ref_request *r, const struct when *w);

/* What every prepare refuses first. */
int ref_prepare_check(struct ref_session *s, uint64_t handle, enum phase phase, struct ref_request **out);
/* What every complete refuses first: another transition than @t or @or is pending, or a bad fence. */
int ref_complete_check(struct ref_session *s, uint64_t handle, enum transition t, enum transition or,
		       const struct wire_fence *f, uint64_t armed, struct ref_request **out, struct when *w);
/* The sequence has @endpoint tokens; the pages that it no longer needs leave. */
void ref_settle(struct ref_session *s, struct ref_request *r, struct ref_seq *q, int64_t endpoint,
		const struct when *w);

/* Whether even an empty pool could not hold @need[class] pages at once; @said as with ref_admit(). */
bool ref_never(struct ref_pool *p, const int64_t *need, int said);
/*
 * Whether @need[class] pages can be had now, all of them: 0 or SWAKV_ENOPAGES;
 * @said: what the engine says, heard where it does.
 */
int ref_provide(struct ref_pool *p, const int64_t *need, int said);
bool ref_room_for_all(struct ref_pool *p, const int64_t *need);

/*
 * Whether @need[class] pages may come to @s now: 0, SWAKV_ENEVER (also when not
 * together with those that it has: @whole) or SWAKV_ENOPAGES. @before: claims of
 * begins that wait further back do not count; NULL: none counts, for it runs.
 */
int ref_admit(struct ref_session *s, const int64_t *need, const int64_t *whole, bool running,
	      const struct ref_wait *before, int said);
bool ref_too_much(struct ref_session *s, const int64_t *whole, int said);
/* The session takes no more commands: nothing waits in it. */
void ref_forget_waits(struct ref_session *s);

#endif
