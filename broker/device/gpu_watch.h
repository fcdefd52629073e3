/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_watch.h - does the GPU still know the process of a worker?
 *
 * The control thread says which processes matter and which have ended; the
 * device thread looks them up with NVML, which may block, and answers. A place a
 * session, written by one side each: no lock. Under the Multi-Process Service it
 * has the dead ones' work ended instead, and answers nothing.
 */
#ifndef SWAKV_BROKER_GPU_WATCH_H
#define SWAKV_BROKER_GPU_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "atomics.h"

#define GPU_WATCH_PLACES 256

struct nvml;

struct gpu_watch_place {
	shm_u64 asked;    /* the control thread's */
	shm_u64 answered; /* the device thread's */
};

struct gpu_watch {
	struct gpu_watch_place places[GPU_WATCH_PLACES];
	struct nvml *nvml; /* the device thread's; NULL: nothing will be answered */
	bool mps;          /* the device thread's: workers are clients of the Multi-Process Service */
	uint32_t tickets;  /* the control thread's: names each process that was ever watched */
	int knock;         /* eventfd, to the device thread: a process has ended */
	int told;          /* eventfd, to the control thread: one is gone */
};

/* 0 or a negative errno. */
int gpu_watch_init(struct gpu_watch *w);
/* After both threads have ended. Safe to repeat. */
void gpu_watch_deinit(struct gpu_watch *w);

/* ---- control thread ---- */

/* A live process takes place @i; of one without a pid in this namespace (0) nothing can be asked or proven. */
void gpu_watch_begin(struct gpu_watch *w, uint32_t i, pid_t pid);
/* It has ended: is it gone from the GPU as well? */
void gpu_watch_ended(struct gpu_watch *w, uint32_t i);
/*
 * True when it was seen on the GPU while it lived and is not any more. False
 * may also mean that nobody can tell.
 */
bool gpu_watch_gone(const struct gpu_watch *w, uint32_t i);
void gpu_watch_end(struct gpu_watch *w, uint32_t i);

/* ---- device thread ---- */

/* Opens NVML for the device. What speaks against it is said in the log, once. */
void gpu_watch_open(struct gpu_watch *w, const uint8_t uuid[16], bool mps);
void gpu_watch_close(struct gpu_watch *w);
/* Looks at all places. Returns in how many milliseconds to look again, @idle_ms at most. */
int gpu_watch_look(struct gpu_watch *w, int idle_ms);

#endif
