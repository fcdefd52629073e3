/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_log.h - what the log says of a worker that has attached
 */
#ifndef SWAKV_BROKER_ATTACH_LOG_H
#define SWAKV_BROKER_ATTACH_LOG_H

#include <stdint.h>

#include "ring/channel.h"
#include "session_edge.h"

/* Who attached with which model, and what of that model is out of the ordinary in a pool of twice @half_bytes. */
void attach_log(const struct session_edge *e, const struct channel *ch, const struct peer *peer, uint64_t half_bytes);

#endif
