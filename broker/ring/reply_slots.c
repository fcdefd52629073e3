/* SPDX-License-Identifier: Apache-2.0 */
/* reply_slots.c - how large the answer to an operation may be, see operation.h */
#include "operation.h"

uint32_t reply_slots(uint32_t op, uint32_t n, uint32_t n_rows)
{
	const struct operation *o = operation_of(op);
	uint64_t payload = 0;

	switch (o ? o->answer : ANSWER_HEADER) {
	case ANSWER_HEADER:
		break;
	case ANSWER_DELIVERY:
		payload = (is_over_requests(o) ? (uint64_t)n * sizeof(struct wire_entry_fault) +
							 WIRE_MAX_MOVES * sizeof(struct wire_move)
					       : 0) +
			  sizeof(struct wire_delivery) + WIRE_MAX_INLINE_UPDATES * sizeof(struct wire_update) +
			  (uint64_t)n_rows * (sizeof(struct wire_row) + sizeof(struct wire_scrub));
		break;
	case ANSWER_REQUEST:
		payload = sizeof(struct wire_request_state);
		break;
	case ANSWER_SEQUENCE:
		payload = sizeof(struct wire_sequence_state) + WIRE_STATE_CHUNK * sizeof(struct wire_binding);
		break;
	case ANSWER_PAGES:
		payload = n * sizeof(int32_t);
		break;
	}
	return message_slots(payload > sizeof(struct fault) ? payload : sizeof(struct fault));
}

uint32_t waited_slots(bool took, uint32_t most)
{
	return took ? reply_slots(WIRE_OP_TAKE, most < WIRE_MAX_PAGES ? most : WIRE_MAX_PAGES, 0) : 1;
}
