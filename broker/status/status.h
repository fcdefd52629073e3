/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the ring thread's picture of itself for the status page */
#ifndef SWAKV_BROKER_STATUS_H
#define SWAKV_BROKER_STATUS_H

#include "ring/ring_thread.h"
#include "status_page.h"

/* enum status_session_state of a channel in the ring thread's list. */
uint32_t status_session_state(const struct channel *c);
/* @s is fresh from status_writer_begin(). Ring thread only; others may be served in between. */
void status_fill(struct status_snapshot *s, struct ring_thread *t);

#endif
