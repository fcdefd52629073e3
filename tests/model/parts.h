/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - what model.c and lifecycle.c share and nobody else needs */
#ifndef SWAKV_TEST_MODEL_PARTS_H
#define SWAKV_TEST_MODEL_PARTS_H

#include "model.h"

/* When something happens: now, at a value of the request's line, or never (the completion failed). */
struct when {
	bool now, failed;
	uint64_t value;
};

void ref_lease(struct ref_session *s, int32_t id);

void ref_quarantine(struct ref_session *s, int32_t id, uint32_t line);

int64_t ref_settled_begin(const struct ref_session *s, const struct ref_seq *q);

/* All that may go with a call of these requests: their own rows, and rows without an owner of their streams. */
void ref_deliver(struct ref_session *s, struct ref_request *const requests[], uint32_t n, struct ref_delivery *d);

/* 0 or SWAKV_EINVALID. */
int ref_fence_read(const struct ref_session *s, const struct ref_request *r, const struct wire_fence *f, uint64_t armed,
		   bool ending, struct when *w);

/* When pages leave the request for good: never before its own last point. */
struct when ref_leaving(const struct ref_session *s, const struct ref_request *r, struct when w);

/* A completed step is open until its value is reached; steps of the same value are open together. */
void ref_open_point(struct ref_session *s, struct ref_request *r, const struct when *w);

void ref_give_up_seq(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, const struct when *w);

void ref_end_request(struct ref_session *s, struct ref_request *r, const struct when *w);

#endif
