/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.h - what the management library knows of one GPU, loaded at run time
 *
 * Answers what the driver library cannot without a context, or not at all:
 * which processes have the device open, and how much memory is free. Calls may
 * block: device thread only.
 */
#ifndef SWAKV_BROKER_NVML_H
#define SWAKV_BROKER_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nvml; /* one device */

#define NVML_WHY 256

/*
 * Loads $SWAKV_NVML_LIBRARY, else libnvidia-ml.so.1, and finds the device with
 * @uuid. 0, or -1 with *@out NULL and the sentence in @why: there is no such
 * library, or it does not know the device (a MIG slice, another machine's).
 */
int nvml_open(struct nvml **out, const uint8_t uuid[16], char why[NVML_WHY]);
/* Returns NULL; NULL is ignored. */
struct nvml *nvml_close(struct nvml *n);

/* True when it says that the device is lost, or useless until it is reset. */
bool nvml_lost(struct nvml *n);
/* 0, or -1 when the library does not say. */
int nvml_free_bytes(struct nvml *n, uint64_t *bytes);
/*
 * The processes that hold a compute context on the device, by pid as the
 * library's host sees it, in @pids (@cap of them). How many, or -1 when the
 * library does not say or there are more.
 */
int nvml_processes(struct nvml *n, uint32_t *pids, size_t cap);

#endif
