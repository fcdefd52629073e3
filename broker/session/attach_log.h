/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_log.h - what the log says of a worker that has attached
 */
#ifndef SWAKV_BROKER_ATTACH_LOG_H
#define SWAKV_BROKER_ATTACH_LOG_H

#include "device/backend.h"
#include "ring/channel.h"
#include "session_edge.h"

/* Who attached with which model, and what of that model is out of the ordinary in @pool. */
void attach_log(const struct session_edge *e, const struct channel *ch, const struct peer *peer,
		const struct backend_pool *pool);

#endif
