/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_health.h - does the pool's device still answer?
 *
 * The device thread asks, since the driver may block, and says once and for all
 * that the device is lost: a context that has failed never works again, and what
 * lies in the pool cannot be trusted.
 */
#ifndef SWAKV_BROKER_DEVICE_HEALTH_H
#define SWAKV_BROKER_DEVICE_HEALTH_H

#include <stdbool.h>

#include "atomics.h"
#include "backend.h"

struct device_health {
	char why[BACKEND_WHY]; /* the sentence of the last look that failed; of both threads once it is lost */
	shm_u32 lost;
	uint32_t failed; /* looks in a row, the device thread's */
	int told;        /* eventfd, to the control thread: it is lost */
};

/* 0 or a negative errno. */
int device_health_init(struct device_health *h);
/* After both threads have ended. Safe to repeat. */
void device_health_deinit(struct device_health *h);
/* Device thread: asks the device of @b, which is allocated. Lost after two looks in a row that failed. */
void device_health_look(struct device_health *h, struct backend *b);
/* Any thread. */
bool device_health_lost(const struct device_health *h);

#endif
