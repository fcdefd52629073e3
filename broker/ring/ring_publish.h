/* SPDX-License-Identifier: Apache-2.0 */
/* ring_publish.h - a new picture for the status page, as often as its cost allows */
#ifndef SWAKV_BROKER_RING_PUBLISH_H
#define SWAKV_BROKER_RING_PUBLISH_H

#include "ring_thread.h"

/* Now; t->next_snapshot is when the next one may come. */
void ring_publish(struct ring_thread *t);

#endif
