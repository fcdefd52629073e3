/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - what the broker knows of a request (man 3 swakv_state; spec section 4). The calls wait for its answer. */
#ifndef SWAKV_STATE_H
#define SWAKV_STATE_H

#include <swakv/session.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum swakv_phase { SWAKV_PHASE_NONE, SWAKV_PHASE_ADMITTED, SWAKV_PHASE_EXECUTING, SWAKV_PHASE_FINISHING };
enum swakv_transition {
	SWAKV_NO_TRANSITION,
	SWAKV_TRANSITION_PREFILL,
	SWAKV_TRANSITION_DECODE,
	SWAKV_TRANSITION_COMPACT,
	SWAKV_TRANSITION_EXTEND /* a step that is not one token for every sequence */
};

struct swakv_request_state {
	uint32_t size; /* sizeof(struct swakv_request_state) */
	enum swakv_phase phase;
	enum swakv_transition transition; /* device work pending */
	uint32_t stream;
	uint32_t batch;
	uint32_t open_points;  /* completed steps whose fence is not reached */
	int32_t pending_batch; /* of a pending compaction, -1: none */
};
/* Errors: common. */
int swakv_request_get_state(swakv_request *r, struct swakv_request_state *out);

/* Never changes. */
struct swakv_binding {
	int32_t logical_page;
	int32_t page;
};
/* State of one sequence in one layer group. The arrays are malloc'd: free with swakv_sequence_state_clear(). */
struct swakv_sequence_state {
	uint32_t size; /* sizeof(struct swakv_sequence_state) */
	int32_t slot;
	uint32_t generation;
	int32_t page_tokens;
	int64_t window;                       /* 0 of a full group */
	int64_t endpoint;                     /* exact resident token count */
	int64_t pending_endpoint;             /* -1: none */
	int32_t retained_begin, retained_end; /* logical pages; from prepare on those of the bindings */
	int32_t input_length;                 /* of the last prefill, 0: none */
	int32_t pending_map;                  /* in a pending compaction: destination, -1 dropped; -2 none */
	uint32_t n_bindings, n_reserved, n_new, n_retiring, n_staged;
	struct swakv_binding *bindings;     /* in the row, ordered, retiring ones not included */
	struct swakv_binding *new_bindings; /* bound by the pending transition */
	struct swakv_binding *retiring;     /* staged by the pending transition, still in the row */
	int32_t *reserved;                  /* pages ready to be bound, next first */
	int32_t *staged;                    /* pages behind open completion points */
};
/*
 * Sequence @seq, below the batch, in layer group 0. On failure *@out holds nothing to be freed.
 * Errors: common, SWAKV_EBUSY (the sequence kept changing while it was read).
 */
int swakv_sequence_get_state(swakv_request *r, uint32_t seq, struct swakv_sequence_state *out);
/*
 * The same in layer group @group, below n_groups.
 * Errors: common, SWAKV_EBUSY (the sequence kept changing while it was read).
 */
int swakv_sequence_get_group_state(swakv_request *r, uint32_t seq, uint32_t group, struct swakv_sequence_state *out);
/* NULL is ignored. Safe to repeat. */
void swakv_sequence_state_clear(struct swakv_sequence_state *state);

/*
 * Pages of group 0's class that could be admitted now, limits of models aside.
 * Errors: common.
 */
int swakv_session_free_pages(swakv_session *s, int64_t *out);
/*
 * The same of the class of layer group @group, below n_groups.
 * Errors: common.
 */
int swakv_session_group_free_pages(swakv_session *s, uint32_t group, int64_t *out);
/* Pages a sequence of max_seq reserves, in all groups together; of one: swakv_layout. 0 for NULL. Asks nobody. */
int64_t swakv_session_private_pages(const swakv_session *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
