/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c - see nvml.h
 *
 * The few declarations that are needed stand here: nvml.h need not be
 * installed where this is built. They are part of the library's stable
 * interface (versions 2 and 3 of the functions, driver 510 and newer).
 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { NVML_OK = 0, NVML_GPU_IS_LOST = 15, NVML_RESET_REQUIRED = 16 };

struct nvml_device; /* opaque */

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

typedef int init_fn(void);
typedef int handle_fn(const char *uuid, struct nvml_device **device);
typedef int memory_fn(struct nvml_device *device, struct nvml_memory *memory);
typedef int processes_fn(struct nvml_device *device, unsigned *n, struct nvml_process *processes);

struct nvml {
	void *library;
	struct nvml_device *device;
	init_fn *shutdown; /* NULL until initialised */
	memory_fn *memory;
	processes_fn *processes;
};

/* @function is the address of a function pointer. */
static int resolve(struct nvml *n, const char *name, void *function)
{
	void *symbol = dlsym(n->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol ? 0 : -1;
}

static int start(struct nvml *n, const char *library, const uint8_t uuid[16], char why[NVML_WHY])
{
	init_fn *init, *shutdown;
	handle_fn *handle;
	char text[41];
	int r;

	n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!n->library) {
		snprintf(why, NVML_WHY, "cannot load it: %s", dlerror());
		return -1;
	}
	if (resolve(n, "nvmlInit_v2", &init) || resolve(n, "nvmlShutdown", &shutdown) ||
	    resolve(n, "nvmlDeviceGetHandleByUUID", &handle) || resolve(n, "nvmlDeviceGetMemoryInfo", &n->memory) ||
	    resolve(n, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes)) {
		snprintf(why, NVML_WHY, "%s lacks a function: a driver of version 510 or newer is needed", library);
		return -1;
	}
	r = init();
	if (r != NVML_OK) {
		snprintf(why, NVML_WHY, "nvmlInit() failed with NVML error %d", r);
		return -1;
	}
	n->shutdown = shutdown;
	driver_uuid_format(uuid, text);
	r = handle(text, &n->device);
	if (r != NVML_OK)
		snprintf(why, NVML_WHY, "it does not know the device %s (NVML error %d)", text, r);
	return r == NVML_OK ? 0 : -1;
}

int nvml_open(struct nvml **out, const uint8_t uuid[16], char why[NVML_WHY])
{
	const char *library = getenv("SWAKV_NVML_LIBRARY");
	struct nvml *n = calloc(1, sizeof(*n));

	*out = NULL;
	if (!n) {
		snprintf(why, NVML_WHY, "out of memory");
		return -1;
	}
	if (start(n, library && *library ? library : "libnvidia-ml.so.1", uuid, why) != 0) {
		nvml_close(n);
		return -1;
	}
	*out = n;
	return 0;
}

struct nvml *nvml_close(struct nvml *n)
{
	if (!n)
		return NULL;
	if (n->shutdown)
		n->shutdown();
	if (n->library)
		dlclose(n->library);
	free(n);
	return NULL;
}

bool nvml_lost(struct nvml *n)
{
	struct nvml_memory m;
	int r = n->memory(n->device, &m);

	return r == NVML_GPU_IS_LOST || r == NVML_RESET_REQUIRED;
}

int nvml_free_bytes(struct nvml *n, uint64_t *bytes)
{
	struct nvml_memory m = { 0 };

	if (n->memory(n->device, &m) != NVML_OK)
		return -1;
	*bytes = m.free;
	return 0;
}

int nvml_processes(struct nvml *n, uint32_t *pids, size_t cap)
{
	struct nvml_process *found = calloc(cap, sizeof(*found));
	unsigned count = (unsigned)cap;
	int r = found ? n->processes(n->device, &count, found) : -1;

	for (unsigned i = 0; r == NVML_OK && i < count; i++)
		pids[i] = found[i].pid;
	free(found);
	return r == NVML_OK ? (int)count : -1;
}
