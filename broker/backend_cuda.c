/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_cuda.c - a pool in device memory, exported by a CUDA IPC handle
 *
 * The pool is the only allocation of this process and a multiple of 2 MiB: an
 * IPC handle exposes the whole 2 MiB neighbourhood of what it names. MIG slices
 * and integrated GPUs are refused, since legacy IPC handles do not work there;
 * on all others another process tries the export before anyone is served.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "driver.h"
#include "import_probe.h"
#include "plan.h"

#define CUDA_ALIGN (2ull << 20)

struct cuda {
	struct driver *driver;
	uint64_t address; /* of the pool, 0: none */
	char library[CONFIG_PATH];
};

static void cuda_close(void *state)
{
	struct cuda *c = state;

	if (!c)
		return;
	c->driver = driver_close(c->driver);
	free(c);
}

static int check_device(const struct driver_device *d, char why[BACKEND_WHY])
{
	const char *kind = d->mig ? "a MIG slice" : d->integrated ? "an integrated GPU" : NULL;

	if (!kind)
		return 0;
	snprintf(why, BACKEND_WHY,
		 "device %d (%s) is %s: its memory cannot be exported by a CUDA IPC handle; use a whole, discrete GPU "
		 "or "
		 "backend = host",
		 d->ordinal, d->name, kind);
	return EXIT_CODE_BACKEND;
}

static int cuda_open(void **state, const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY])
{
	const struct config_device *want = &c->pool.device;
	struct driver_device device;
	char reason[DRIVER_WHY] = "";
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	int r;

	if (!cuda) {
		snprintf(why, BACKEND_WHY, "out of memory");
		return EXIT_CODE_FAILURE;
	}
	r = driver_open(&cuda->driver, c->cuda_library[0] ? c->cuda_library : NULL, want->by_uuid ? want->uuid : NULL,
			(int)want->ordinal, reason);
	if (r != 0) {
		snprintf(why, BACKEND_WHY, "%s",
			 reason[0]                 ? reason
			 : r == SWAKV_EUNSUPPORTED ? "this build has no CUDA backend"
						   : "no driver");
		free(cuda);
		return EXIT_CODE_BACKEND;
	}
	driver_get_device(cuda->driver, &device);
	r = check_device(&device, why);
	if (r != 0) {
		cuda_close(cuda);
		return r;
	}
	pool->backend = WIRE_BACKEND_CUDA;
	snprintf(pool->device, sizeof(pool->device), "%s", device.name);
	memcpy(pool->device_uuid, device.uuid, sizeof(pool->device_uuid));
	driver_uuid_format(device.uuid, pool->uuid_text);
	snprintf(cuda->library, sizeof(cuda->library), "%s", c->cuda_library);
	*state = cuda;
	return 0;
}

static int cuda_free_bytes(void *state, uint64_t *bytes, char why[BACKEND_WHY])
{
	struct cuda *c = state;
	uint64_t total;

	if (driver_memory_info(c->driver, bytes, &total) == 0)
		return 0;
	snprintf(why, BACKEND_WHY, "%s", driver_why(c->driver));
	return EXIT_CODE_BACKEND;
}

static void cuda_release(void *state, struct backend_pool *pool)
{
	struct cuda *c = state;

	memset(pool->ipc_handle, 0, sizeof(pool->ipc_handle));
	if (c->address)
		driver_free(c->driver, c->address);
	c->address = 0;
}

static int cuda_alloc(void *state, struct backend_pool *pool, char why[BACKEND_WHY])
{
	uint64_t bytes = (pool->bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN, free_bytes = 0;
	char want[PLAN_BYTES], have[PLAN_BYTES];
	struct cuda *c = state;

	if (cuda_free_bytes(state, &free_bytes, why) != 0)
		return EXIT_CODE_BACKEND;
	if (driver_alloc(c->driver, bytes, &c->address) != 0) {
		snprintf(why, BACKEND_WHY, "the pool of %s could not be allocated, %s are free on %s: %s",
			 plan_bytes(pool->bytes, want), plan_bytes(free_bytes, have), pool->device,
			 driver_why(c->driver));
		return EXIT_CODE_POOL;
	}
	if (driver_ipc_export(c->driver, c->address, pool->ipc_handle) != 0) {
		snprintf(why, BACKEND_WHY, "the pool on %s could not be exported: %s", pool->device,
			 driver_why(c->driver));
		cuda_release(state, pool);
		return EXIT_CODE_BACKEND;
	}
	if (import_probe_run(c->driver, c->address, pool, c->library, why) != 0) {
		cuda_release(state, pool);
		return EXIT_CODE_BACKEND;
	}
	pool->export_kind = WIRE_EXPORT_CUDA_IPC;
	return 0;
}

const struct backend_ops backend_cuda = {
	.name = "cuda",
	.open = cuda_open,
	.free_bytes = cuda_free_bytes,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.close = cuda_close,
};
