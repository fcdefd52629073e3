/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the CUDA driver library, loaded at run time
 *
 * Nothing of CUDA is linked: driver_open() loads libcuda.so.1 (or the library
 * named) and resolves every entry point with cuGetProcAddress, so one build
 * serves machines with and without a GPU and a test can put a fake driver in
 * its place. Each call makes the device's primary context current around it and
 * checks every return code; a failure leaves a sentence in `why`.
 *
 * Where the build had no cuda.h, driver_open() answers SWAKV_EUNSUPPORTED.
 *
 * A struct driver may be used by one thread at a time; different ones are
 * independent. A forked child cannot use its parent's: every call answers
 * SWAKV_EFORKED there, and only driver_close() is left to do.
 */
#ifndef SWAKV_DRIVER_H
#define SWAKV_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/error.h>

struct driver; /* one device of one process */

#define DRIVER_WHY        256
#define DRIVER_IPC_HANDLE 64

struct driver_device {
	int ordinal;
	uint8_t uuid[16];
	char name[64];
	uint64_t total_bytes;
	int driver_version;    /* as cuDriverGetVersion() */
	uint32_t shared_bytes; /* shared memory that a block may have when its launch asks for it */
	bool mig, integrated, stream_write_supported;
};

/*
 * Loads the driver (@library NULL: $SWAKV_CUDA_LIBRARY, else libcuda.so.1) and
 * retains the primary context of one device: by @uuid (16 bytes) when not NULL,
 * else by @ordinal. @why gets the sentence on failure (DRIVER_WHY bytes).
 * SWAKV_EDEVICE: no driver or no such device; SWAKV_EUNSUPPORTED: built without.
 */
int driver_open(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why);
/*
 * As driver_open(), without a context, which costs hundreds of MiB of device
 * memory: only driver_get_device() and driver_share_create(), _export() and
 * _release() can be used; everything else answers SWAKV_EDEVICE.
 */
int driver_open_bare(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why);
/* Releases the context and everything loaded. Returns NULL; NULL is ignored. */
struct driver *driver_close(struct driver *d);
void driver_get_device(const struct driver *d, struct driver_device *out);
/* Writes "GPU-xxxxxxxx-xxxx-..." (41 bytes with NUL). */
void driver_uuid_format(const uint8_t uuid[16], char buf[41]);
/* Parses the same, with or without "GPU-". False: not a UUID. */
bool driver_uuid_parse(const char *text, uint8_t uuid[16]);
/* The sentence of the last failed call on @d. Never NULL. */
const char *driver_why(const struct driver *d);

/*
 * All below: 0, or SWAKV_EDEVICE (SWAKV_EFORKED, SWAKV_ENOMEM) with the sentence
 * in driver_why(). Addresses are device addresses (CUdeviceptr).
 */

int driver_memory_info(struct driver *d, uint64_t *free_bytes, uint64_t *total_bytes);
int driver_alloc(struct driver *d, uint64_t bytes, uint64_t *address);
int driver_free(struct driver *d, uint64_t address);
int driver_ipc_export(struct driver *d, uint64_t address, uint8_t handle[DRIVER_IPC_HANDLE]);
/*
 * Opening the same handle again gives the same address and raises a count in
 * the driver: each import has its close. A close must not overlap an import of
 * the same handle in another thread: the caller has a lock round both.
 */
int driver_ipc_import(struct driver *d, const uint8_t handle[DRIVER_IPC_HANDLE], uint64_t *address);
int driver_ipc_close(struct driver *d, uint64_t address);

/*
 * Device memory that a file descriptor names (cuMemCreate and its family). It
 * lives until nobody holds its handle, its descriptor or a mapping: a capability,
 * with no rule about pids. No legacy IPC handle can be made of it.
 */
/* *@bytes is rounded up to what the device can map; *@handle names the memory. */
int driver_share_create(struct driver *d, uint64_t *bytes, uint64_t *handle);
/* A new descriptor, close-on-exec, the caller's. */
int driver_share_export(struct driver *d, uint64_t handle, int *fd);
/* The memory stays while a descriptor or a mapping of it is left, in whatever process. */
int driver_share_release(struct driver *d, uint64_t handle);
/* Maps the first *@bytes of what @fd names, rounded up as above, readable and writable. @fd stays the caller's. */
int driver_share_map(struct driver *d, int fd, uint64_t *bytes, uint64_t *address);
/* @bytes as driver_share_map() left it. */
int driver_share_unmap(struct driver *d, uint64_t address, uint64_t bytes);

/*
 * Registers host memory (shared mappings too) so that the device can write it;
 * *@device_address is how the device sees it.
 */
int driver_host_register(struct driver *d, void *p, size_t bytes, uint64_t *device_address);
/* How the device sees @p, which lies in memory that this process has registered, by whatever call. */
int driver_host_address(struct driver *d, void *p, uint64_t *device_address);
int driver_host_unregister(struct driver *d, void *p);

int driver_stream_create(struct driver *d, void **stream);
int driver_stream_destroy(struct driver *d, void *stream);
int driver_stream_synchronize(struct driver *d, void *stream);
/* Enqueues a 64-bit store behind everything on @stream, by cuStreamWriteValue64 v2. */
int driver_stream_write64(struct driver *d, void *stream, uint64_t device_address, uint64_t value);
/* Enqueues fn(arg) as a host function. */
int driver_stream_host_func(struct driver *d, void *stream, void (*fn)(void *), void *arg);
/* Between these two what @stream is given is not done but recorded; *@exec is the graph of it, ready to be launched. */
int driver_capture_begin(struct driver *d, void *stream);
int driver_capture_end(struct driver *d, void *stream, void **exec);
int driver_stream_is_capturing(struct driver *d, void *stream, bool *capturing);
/* @exec is a CUgraphExec (or cudaGraphExec_t) of this context. */
int driver_graph_launch(struct driver *d, void *exec, void *stream);
int driver_graph_destroy(struct driver *d, void *exec);
/* Enqueues copies and fills. Host memory of the async copies must stay in place until the stream got there. */
int driver_copy_to_device(struct driver *d, void *stream, uint64_t dst, const void *src, size_t bytes);
int driver_copy_to_host(struct driver *d, void *stream, void *dst, uint64_t src, size_t bytes);
/* Both addresses are device addresses. */
int driver_copy(struct driver *d, void *stream, uint64_t dst, uint64_t src, size_t bytes);
int driver_fill32(struct driver *d, void *stream, uint64_t dst, uint32_t value, uint64_t n_words);
int driver_fill16(struct driver *d, void *stream, uint64_t dst, uint16_t value, uint64_t n);

/* Kernels as nvcc made them: a fatbin, whose bytes stay where they are. NULL: the build had no nvcc. */
struct driver_image {
	const void *data;
	uint64_t bytes;
};
/* Loads @image once (its first launch does it too); SWAKV_EUNSUPPORTED when there is none. */
int driver_load_image(struct driver *d, const struct driver_image *image);
/*
 * Launches kernel @name (a string that stays, and that no other image has) of
 * @image with its parameter block of @bytes. Grid and block in threads/blocks of
 * dimension x.
 */
int driver_launch(struct driver *d, void *stream, const struct driver_image *image, const char *name, uint32_t grid,
		  uint32_t block, uint32_t shared_bytes, const void *params, size_t bytes);

#endif
