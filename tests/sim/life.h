/* SPDX-License-Identifier: Apache-2.0 */
/* life.h - what turn.c shares with the commands about one request */
#ifndef SWAKV_SIM_LIFE_H
#define SWAKV_SIM_LIFE_H

#include "worker.h"

/* Slots of @stream first of all, and some that were another's: the broker waits until that is through. How many. */
uint32_t life_draw_slots(struct worker *v, uint32_t stream, int32_t *slots);
/* @b has been sent for @l, in @n slots. */
void life_begins(struct worker *v, struct life *l, const struct wire_begin *b, const int32_t *slots, uint32_t n);
/* What the step of @l is completed with. */
struct wire_fence life_fence(struct worker *v, struct life *l, bool *failed);
/* With its step completed fewer are in flight than its model declared. */
bool life_may_go_on(struct worker *v, struct life *l);
/* It holds no more than its reservation: no step within what was declared lacks a page. */
bool life_is_usual(const struct worker *v, const struct life *l);

#endif
