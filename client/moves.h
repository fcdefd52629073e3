/* SPDX-License-Identifier: Apache-2.0 */
/* moves.h - pages that the broker has moved, and requests whose pages stay where they are */
#ifndef SWAKV_CLIENT_MOVES_H
#define SWAKV_CLIENT_MOVES_H

#include <stdint.h>

#include "wire.h"

struct call;
struct swakv_session;

/* 0, or SWAKV_EGONE when a move is of no row, of pages that are none, or of a page that another one names. */
int moves_check(struct swakv_session *s, const struct wire_move *moves, uint32_t n);
/*
 * Enqueues the copies, each on the stream of its row's slot, before the updates. 0, SWAKV_ENOMEM,
 * or the code of the stream that failed, with the sentence set.
 */
int moves_deliver(struct swakv_session *s, const struct wire_move *moves, uint32_t n);
/* They have not all been enqueued: what the requests of @c hold is lost, and their complete will say so. */
void moves_lost(struct swakv_session *s, struct call *c);

#endif
