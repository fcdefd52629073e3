/* SPDX-License-Identifier: Apache-2.0 */
/* ring_sleep.h - with nothing to do: until when, and what wakes */
#ifndef SWAKV_BROKER_RING_SLEEP_H
#define SWAKV_BROKER_RING_SLEEP_H

#include "ring_thread.h"

/*
 * Announces sleep in every ring, looks once more, and sleeps until somebody
 * rings or something is due. t->now is the time after it.
 */
void ring_sleep(struct ring_thread *t);

#endif
