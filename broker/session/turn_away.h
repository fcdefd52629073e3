/* SPDX-License-Identifier: Apache-2.0 */
/* turn_away.h - the last word to somebody who may not attach */
#ifndef SWAKV_BROKER_TURN_AWAY_H
#define SWAKV_BROKER_TURN_AWAY_H

#include "control.h"
#include "handshake.h"
#include "peer.h"

/* Answers @p with @r, logs and counts it; its @socket is still to be closed. */
void turn_away(struct control *control, int socket, const struct peer *p, const struct refusal *r);
/* As refusal_set(), with what the system said; open files that have run out are the reason themselves. */
int refusal_because(struct refusal *r, enum fault_reason reason, int64_t got, int error);

#endif
