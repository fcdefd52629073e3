/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml.c - libfakenvml.so: a management library that says what the test wants
 *
 * FAKENVML_PROCESSES=FILE   the pids with a context on the device, one a line, read at each call
 * FAKENVML_TOLD=FILE        each pid that such a call has told is added to it, one a line
 * FAKENVML_FREE=BYTES       free memory of the device (8 GiB)
 * FAKENVML_LOST=FILE        once it is there, nvmlDeviceGetMemoryInfo() says that the device is lost
 * FAKENVML_FAIL=N           nvmlInit_v2() answers N
 *
 * It knows the devices of the fake driver.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAKE_API __attribute__((visibility("default")))

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes;
	unsigned gpu_instance, compute_instance;
};

FAKE_API int nvmlInit_v2(void);
FAKE_API int nvmlShutdown(void);
FAKE_API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
FAKE_API int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
FAKE_API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct nvml_process *processes);

static int device;

int nvmlInit_v2(void)
{
	const char *fail = getenv("FAKENVML_FAIL");

	return fail ? atoi(fail) : OK;
}

int nvmlShutdown(void)
{
	return OK;
}

/* "fake-cuda-gpu-0", as the fake driver has it. */
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
{
	if (strncmp(uuid, "GPU-66616b65-2d63-7564-612d-6770752d30", 38) != 0)
		return NOT_FOUND;
	*out = &device;
	return OK;
}

int nvmlDeviceGetMemoryInfo(void *at, struct nvml_memory *memory)
{
	const char *bytes = getenv("FAKENVML_FREE"), *lost = getenv("FAKENVML_LOST");

	if (at != &device)
		return INVALID_ARGUMENT;
	if (lost && access(lost, F_OK) == 0)
		return GPU_IS_LOST;
	memory->total = 8ull << 30;
	memory->free = bytes ? strtoull(bytes, NULL, 10) : memory->total;
	memory->used = memory->total - memory->free;
	return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *at, unsigned *n, struct nvml_process *processes)
{
	const char *path = getenv("FAKENVML_PROCESSES");
	const char *told_path = getenv("FAKENVML_TOLD");
	FILE *f = path ? fopen(path, "re") : NULL, *told = told_path ? fopen(told_path, "ae") : NULL;
	unsigned cap = *n, pid;

	if (at != &device)
		return INVALID_ARGUMENT;
	*n = 0;
	while (f && fscanf(f, "%u", &pid) == 1) {
		if (*n < cap)
			processes[*n] = (struct nvml_process){ .pid = pid };
		if (told)
			fprintf(told, "%u\n", pid);
		++*n;
	}
	if (f)
		fclose(f);
	if (told)
		fclose(told);
	return *n > cap ? INSUFFICIENT_SIZE : OK;
}
