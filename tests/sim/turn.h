/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - one message a step: requests that complete, finish, begin and prepare together (spec section 12) */
#ifndef SWAKV_SIM_TURN_H
#define SWAKV_SIM_TURN_H

#include "sim.h"

struct worker;
struct call;
struct message;

/* What a turn under way asks for. */
struct turn_call {
	uint8_t what[SIM_BATCH];                      /* of each entry: WIRE_TURN_* */
	int32_t tokens[SIM_BATCH][SIM_BATCH];         /* of life, of sequence */
	bool extends[SIM_BATCH], declared[SIM_BATCH]; /* as of a life, for the step that it prepares */
};

/* Sends one about some of what the worker has; nothing when there is nothing to be done. */
void turn_send(struct worker *v);
/* Its answer; @whole: it was refused as a whole. */
void turn_read(struct worker *v, const struct call *c, const struct message *m, const struct fault *whole);

#endif
