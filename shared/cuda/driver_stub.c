/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of a build without cuda.h: it cannot be opened, so nothing else of it is ever reached. */
#include <stdio.h>

#include "driver.h"

int driver_open(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why)
{
	*out = NULL;
	snprintf(why, DRIVER_WHY, "this build has no CUDA backend: build it where cuda.h (CUDA 12.1 or newer) is");
	return SWAKV_EUNSUPPORTED;
}

int driver_open_bare(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why)
{
	return driver_open(out, library, uuid, ordinal, why);
}

struct driver *driver_close(struct driver *d)
{
	return NULL;
}

void driver_get_device(const struct driver *d, struct driver_device *out)
{
	*out = (struct driver_device){ .ordinal = -1 };
}

const char *driver_why(const struct driver *d)
{
	return "this build has no CUDA backend";
}

#define UNREACHABLE(name, ...)                                                                                         \
	int name(__VA_ARGS__)                                                                                          \
	{                                                                                                              \
		return SWAKV_EUNSUPPORTED;                                                                             \
	}

UNREACHABLE(driver_memory_info, struct driver *d, uint64_t *free_bytes, uint64_t *total_bytes)
UNREACHABLE(driver_alloc, struct driver *d, uint64_t bytes, uint64_t *address)
UNREACHABLE(driver_free, struct driver *d, uint64_t address)
UNREACHABLE(driver_ipc_export, struct driver *d, uint64_t address, uint8_t handle[DRIVER_IPC_HANDLE])
UNREACHABLE(driver_ipc_import, struct driver *d, const uint8_t handle[DRIVER_IPC_HANDLE], uint64_t *address)
UNREACHABLE(driver_ipc_close, struct driver *d, uint64_t address)
UNREACHABLE(driver_share_create, struct driver *d, uint64_t *bytes, uint64_t *handle)
UNREACHABLE(driver_share_export, struct driver *d, uint64_t handle, int *fd)
UNREACHABLE(driver_share_release, struct driver *d, uint64_t handle)
UNREACHABLE(driver_share_map, struct driver *d, int fd, uint64_t *bytes, uint64_t *address)
UNREACHABLE(driver_share_unmap, struct driver *d, uint64_t address, uint64_t bytes)
UNREACHABLE(driver_host_register, struct driver *d, void *p, size_t bytes, uint64_t *device_address)
UNREACHABLE(driver_host_address, struct driver *d, void *p, uint64_t *device_address)
UNREACHABLE(driver_host_unregister, struct driver *d, void *p)
UNREACHABLE(driver_stream_create, struct driver *d, void **stream)
UNREACHABLE(driver_stream_destroy, struct driver *d, void *stream)
UNREACHABLE(driver_stream_synchronize, struct driver *d, void *stream)
UNREACHABLE(driver_stream_write64, struct driver *d, void *stream, uint64_t device_address, uint64_t value)
UNREACHABLE(driver_stream_host_func, struct driver *d, void *stream, void (*fn)(void *), void *arg)
UNREACHABLE(driver_capture_begin, struct driver *d, void *stream)
UNREACHABLE(driver_capture_end, struct driver *d, void *stream, void **exec)
UNREACHABLE(driver_stream_is_capturing, struct driver *d, void *stream, bool *capturing)
UNREACHABLE(driver_graph_launch, struct driver *d, void *exec, void *stream)
UNREACHABLE(driver_graph_destroy, struct driver *d, void *exec)
UNREACHABLE(driver_copy_to_device, struct driver *d, void *stream, uint64_t dst, const void *src, size_t bytes)
UNREACHABLE(driver_copy_to_host, struct driver *d, void *stream, void *dst, uint64_t src, size_t bytes)
UNREACHABLE(driver_copy, struct driver *d, void *stream, uint64_t dst, uint64_t src, size_t bytes)
UNREACHABLE(driver_fill32, struct driver *d, void *stream, uint64_t dst, uint32_t value, uint64_t n_words)
UNREACHABLE(driver_fill16, struct driver *d, void *stream, uint64_t dst, uint16_t value, uint64_t n)
UNREACHABLE(driver_load_image, struct driver *d, const struct driver_image *image)
UNREACHABLE(driver_launch, struct driver *d, void *stream, const struct driver_image *image, const char *name,
	    uint32_t grid, uint32_t block, uint32_t shared_bytes, const void *params, size_t bytes)
