/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_thread.h - the thread for what may block: allocating, exporting, freeing
 *
 * The driver may take seconds or hang; neither ring nor control thread may.
 */
#ifndef SWAKV_BROKER_DEVICE_THREAD_H
#define SWAKV_BROKER_DEVICE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "atomics.h"
#include "backend.h"
#include "config/config.h"
#include "device_health.h"
#include "gpu_watch.h"
#include "status_page.h"

enum device_job { DEVICE_JOB_NONE, DEVICE_JOB_OPEN, DEVICE_JOB_RELEASE, DEVICE_JOB_STOP };

struct device_thread {
	const struct config *config;
	struct status_writer *status; /* borrowed */
	struct backend backend;       /* the thread's between a job and its end */
	struct gpu_watch watch;       /* answered by this thread, on the CUDA backend */
	struct device_health health;  /* as well */
	int code;                     /* of the last job: 0 or an enum exit_code */
	char why[BACKEND_WHY];
	shm_u32 job;
	int wake; /* eventfd: a job is there */
	int done; /* eventfd: it has ended */
	bool running;
	pthread_t thread;
};

/* 0 or a negative errno. @config and @status are borrowed until device_thread_deinit(). */
int device_thread_init(struct device_thread *t, const struct config *config, struct status_writer *status);
/* Hands over a job and waits at most @timeout_ms (-1: no limit) for its end. False: it has not ended. */
bool device_thread_do(struct device_thread *t, enum device_job job, int timeout_ms);
/* Stops the thread; one that hangs in the driver is left to the process's exit. */
void device_thread_deinit(struct device_thread *t);

#endif
