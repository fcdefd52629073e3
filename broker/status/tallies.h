/* SPDX-License-Identifier: Apache-2.0 */
/* tallies.h - what sessions and models have done, for the status page */
#ifndef SWAKV_BROKER_STATUS_TALLIES_H
#define SWAKV_BROKER_STATUS_TALLIES_H

#include "ring/ring_thread.h"
#include "status_page.h"

/* Of @x, which is in the engine; others may be served in between. */
void status_fill_totals(struct status_totals *out, struct session *x);
/* The last part of a snapshot: the totals of its sessions are there. Others may be served in between. */
void status_fill_tallies(struct status_snapshot *s, struct ring_thread *t);

#endif
