/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_cuda.c - a pool in device memory, exported by a CUDA IPC handle or as a descriptor
 *
 * The pool is the only allocation of this process and a multiple of 2 MiB: an
 * IPC handle exposes the whole 2 MiB neighbourhood of what it names. Exported as
 * a descriptor it needs no context here: then this process takes no device
 * memory beside the pool, and what is free on the device only NVML can tell.
 * Devices that are known not to share memory are refused unless the self-test
 * has shown that this one does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cleanup.h"
#include "driver.h"
#include "nvml.h"
#include "self_test.h"
#include "size.h"

#define CUDA_ALIGN (2ull << 20)

struct cuda {
	struct driver *driver;
	struct driver_device device;
	struct platform platform;
	struct nvml *nvml; /* NULL: not needed, or not there */
	bool by_fd;
	uint64_t address; /* of the pool, exported by handle; 0: none */
	uint64_t memory;  /* of the pool, exported as a descriptor; 0: none */
	uint64_t answer;  /* what a look at the device has read */
};

static void cuda_close(void *state)
{
	struct cuda *c = state;

	if (!c)
		return;
	c->nvml = nvml_close(c->nvml);
	c->driver = driver_close(c->driver);
	free(c);
}

static int cuda_open_driver(struct cuda *cuda, const struct config *c, char why[BACKEND_WHY])
{
	const struct config_device *want = &c->pool.device;
	const char *library = c->cuda_library[0] ? c->cuda_library : NULL;
	const uint8_t *uuid = want->by_uuid ? want->uuid : NULL;
	char reason[DRIVER_WHY] = "";
	int r = cuda->by_fd ? driver_open_bare(&cuda->driver, library, uuid, (int)want->ordinal, reason)
			    : driver_open(&cuda->driver, library, uuid, (int)want->ordinal, reason);

	if (r == 0)
		return 0;
	snprintf(why, BACKEND_WHY, "%s",
		 reason[0]                 ? reason
		 : r == SWAKV_EUNSUPPORTED ? "this build has no CUDA backend"
					   : "no driver");
	return EXIT_CODE_BACKEND;
}

static int cuda_open(void **state, const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY])
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	char ignored[NVML_WHY];
	int r;

	if (!cuda) {
		snprintf(why, BACKEND_WHY, "out of memory");
		return EXIT_CODE_FAILURE;
	}
	cuda->by_fd = c->export_kind == CONFIG_EXPORT_FD;
	r = cuda_open_driver(cuda, c, why);
	if (r != 0) {
		free(cuda);
		return r;
	}
	driver_get_device(cuda->driver, &cuda->device);
	platform_detect(&cuda->platform, &cuda->device, "");
	if (cuda->by_fd)
		(void)nvml_open(&cuda->nvml, cuda->device.uuid, ignored);
	pool->backend = WIRE_BACKEND_CUDA;
	pool->mps = cuda->platform.mps;
	snprintf(pool->device, sizeof(pool->device), "%s", cuda->device.name);
	memcpy(pool->device_uuid, cuda->device.uuid, sizeof(pool->device_uuid));
	driver_uuid_format(cuda->device.uuid, pool->uuid_text);
	*state = cuda;
	return 0;
}

/* Without a context and without NVML all that is known is what the device has. */
static int cuda_free_bytes(void *state, uint64_t *bytes, char why[BACKEND_WHY])
{
	struct cuda *c = state;
	uint64_t total;

	if (c->by_fd) {
		*bytes = c->device.total_bytes;
		if (c->nvml)
			(void)nvml_free_bytes(c->nvml, bytes);
		return 0;
	}
	if (driver_memory_info(c->driver, bytes, &total) == 0)
		return 0;
	snprintf(why, BACKEND_WHY, "%s", driver_why(c->driver));
	return EXIT_CODE_BACKEND;
}

static int no_memory(struct cuda *c, const struct backend_pool *pool, char why[BACKEND_WHY])
{
	char want[SIZE_TEXT], have[SIZE_TEXT], reason[DRIVER_WHY];
	uint64_t free_bytes = 0;

	snprintf(reason, sizeof(reason), "%s", driver_why(c->driver));
	if (cuda_free_bytes(c, &free_bytes, why) != 0)
		return EXIT_CODE_BACKEND;
	snprintf(why, BACKEND_WHY, "the pool of %s could not be allocated, %s are free on %s: %s",
		 size_text(pool->bytes, want), size_text(free_bytes, have), pool->device, reason);
	return EXIT_CODE_POOL;
}

static void cuda_release(void *state, struct backend_pool *pool)
{
	struct cuda *c = state;

	memset(pool->ipc_handle, 0, sizeof(pool->ipc_handle));
	close_fd(&pool->fd);
	if (c->address)
		driver_free(c->driver, c->address);
	if (c->memory)
		driver_share_release(c->driver, c->memory);
	c->address = c->memory = 0;
}

static int cuda_alloc(void *state, struct backend_pool *pool, char why[BACKEND_WHY])
{
	uint64_t bytes = (pool->bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
	struct cuda *c = state;
	char cause[256];
	int r;

	r = c->by_fd ? driver_share_create(c->driver, &bytes, &c->memory) : driver_alloc(c->driver, bytes, &c->address);
	if (r != 0)
		return no_memory(c, pool, why);
	r = c->by_fd ? driver_share_export(c->driver, c->memory, &pool->fd)
		     : driver_ipc_export(c->driver, c->address, pool->ipc_handle);
	pool->export_kind = c->by_fd ? WIRE_EXPORT_CUDA_FD : WIRE_EXPORT_CUDA_IPC;
	if (r == 0)
		return 0;
	snprintf(why, BACKEND_WHY, "the pool on %s could not be exported (%s): %s. Likely cause: %s", pool->device,
		 export_name(pool->export_kind), driver_why(c->driver),
		 platform_cause(&c->platform, c->by_fd, cause, sizeof(cause)));
	cuda_release(state, pool);
	return EXIT_CODE_BACKEND;
}

/* The Multi-Process Service changes what a worker's death means: said in any case. */
static void caution_mps(const struct cuda *c, char *caution)
{
	if (c->platform.mps)
		snprintf(caution, BACKEND_WHY,
			 "the Multi-Process Service runs (%s): a fault of one worker ends all, and the death of one "
			 "leaves its kernels running: the broker tells its server to end them, within the grace "
			 "period. Tell it yourself before you kill a worker: echo terminate_client SERVER_PID "
			 "WORKER_PID | nvidia-cuda-mps-control",
			 c->platform.mps_directory);
}

static int cuda_test(void *state, const struct config *c, const struct backend_pool *pool, char *caution,
		     char why[BACKEND_WHY])
{
	struct cuda *cuda = state;
	const char *doubt = platform_doubt(&cuda->platform);
	char cause[256];
	int r;

	caution_mps(cuda, caution);
	if (c->self_test == CONFIG_NO) {
		if (!doubt)
			return 0;
		snprintf(why, BACKEND_WHY, "device %d (%s) is %s, and the self-test that could clear it is off: %s",
			 cuda->device.ordinal, cuda->device.name, doubt,
			 platform_cause(&cuda->platform, cuda->by_fd, cause, sizeof(cause)));
		return EXIT_CODE_BACKEND;
	}
	r = self_test_run(c, pool, &cuda->platform, why);
	if (r == 0 && doubt && !*caution)
		snprintf(caution, BACKEND_WHY, "device %d (%s) is %s; the self-test of its export has passed",
			 cuda->device.ordinal, cuda->device.name, doubt);
	return r;
}

/*
 * A context that has failed says so to every call, but a device that is gone may be
 * noticed only by work on it: 8 bytes of the pool are read. Where there is no
 * context, NVML knows, if anybody does.
 */
static int cuda_check(void *state, const struct backend_pool *pool, char why[BACKEND_WHY])
{
	struct cuda *c = state;

	if (c->by_fd) {
		if (!c->nvml || !nvml_lost(c->nvml))
			return 0;
		snprintf(why, BACKEND_WHY, "NVML says that %s is lost, or must be reset", pool->device);
		return EXIT_CODE_DEVICE;
	}
	if (driver_copy_to_host(c->driver, NULL, &c->answer, c->address, sizeof(c->answer)) == 0 &&
	    driver_stream_synchronize(c->driver, NULL) == 0)
		return 0;
	snprintf(why, BACKEND_WHY, "%s does not answer: %s", pool->device, driver_why(c->driver));
	return EXIT_CODE_DEVICE;
}

const struct backend_ops backend_cuda = {
	.name = "cuda",
	.open = cuda_open,
	.free_bytes = cuda_free_bytes,
	.alloc = cuda_alloc,
	.test = cuda_test,
	.check = cuda_check,
	.release = cuda_release,
	.close = cuda_close,
};
