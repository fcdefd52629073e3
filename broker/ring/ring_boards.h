/* SPDX-License-Identifier: Apache-2.0 */
/* ring_boards.h - what workers that manage pages read and write without a command (struct wire_board) */
#ifndef SWAKV_BROKER_RING_BOARDS_H
#define SWAKV_BROKER_RING_BOARDS_H

#include "ring_thread.h"

/* When it is time, and something has changed: reads what workers offer, decides who is asked, and writes all boards. */
void ring_boards(struct ring_thread *t);
/* When it is to be called at the latest: CLOCK_MONOTONIC, ns; UINT64_MAX: when something has changed. */
uint64_t ring_boards_deadline(const struct ring_thread *t);

#endif
