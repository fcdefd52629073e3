/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - a request, as its worker has it */
#ifndef SWAKV_CLIENT_REQUEST_H
#define SWAKV_CLIENT_REQUEST_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "call.h"

/* It begins with a cache line, in which is all that a plain step looks at. */
struct swakv_request {
	LIST_ENTRY(swakv_request) link;
	struct swakv_session *session;
	uint64_t handle;
	uint32_t refs; /* the caller's, and one a call in flight */
	uint32_t stream;
	bool valid;
	bool ending;     /* a finish or abandon is in flight */
	bool dropped;    /* the caller has freed it */
	bool lost_pages; /* a page of it moved, and its copy was not enqueued: its complete says that it failed */
	/* between a prepare and its complete, when it is counted in its stream's n_prepared */
	uint16_t pending; /* the op that completes it, 0: none is pending */
	uint64_t before;  /* the stream's last mark before the step's work could be enqueued */
	/* of a pending compaction; map is NULL when none is */
	int32_t *map; /* [n], then scratch [n] */
	int32_t new_batch;
	uint32_t compact_flags;
	uint32_t n; /* sequences */
	int32_t slots[];
};

/* Entry @i of @c, which is empty, is about @r; @what: of a turn; @done: its device work has ended. */
static inline void request_entry(struct call *c, uint32_t i, struct swakv_request *r, uint32_t what, bool done)
{
	r->refs++;
	c->entries[i] = (struct call_entry){ .request = r, .what = (uint8_t)what, .done = done };
}

/* The pending step is to be completed as a failed one. */
static inline bool request_has_lost(const struct swakv_request *r)
{
	return r->lost_pages && r->pending;
}

/* Nothing refers to it any more. */
void request_delete(struct swakv_request *r);
static inline void request_unref(struct swakv_request *r)
{
	if (--r->refs == 0)
		request_delete(r);
}
/* The broker no longer knows it. */
void request_lost(struct swakv_request *r);
/* It is between a prepare and @complete, the op that will settle that; 0: no longer. */
void request_set_pending(struct swakv_request *r, uint16_t complete);
/* The step of @e has been completed. With SWAKV_DONE the stream's word catches up, unless another step is under way. */
void request_completed(struct call_entry *e);
/* The first lines of a call on @r: as session_enter(), and @r must not be NULL. */
int request_enter(struct swakv_request *r);
/* A call of @op about @r alone, NULL with the sentence set. */
struct call *request_call(struct swakv_request *r, uint16_t op, call_effect *effect);
/* A complete of one request, with its fence. */
int request_complete(struct swakv_request *r, uint16_t op, call_effect *effect, struct swakv_fence fence,
		     swakv_ticket *ticket);
/* A call of @op with a list of @n counts, which the sentence calls @what ("lengths"). */
int request_send_list(struct swakv_request *r, uint16_t op, call_effect *effect, const char *what, const int32_t *list,
		      uint32_t n, swakv_ticket *ticket);

#endif
