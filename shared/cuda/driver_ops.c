/* SPDX-License-Identifier: Apache-2.0 */
/* driver_ops.c - memory, streams and launches on an open device */
#include <string.h>

#include "driver_private.h"

#define ULL(x) ((unsigned long long)(x))

/* ---- memory ---------------------------------------------------------------- */

int driver_memory_info(struct driver *d, uint64_t *free_bytes, uint64_t *total_bytes)
{
	size_t free_size = 0, total = 0;
	int r = DRIVER_CALL(d, d->api.cuMemGetInfo(&free_size, &total), "cuMemGetInfo()");

	*free_bytes = free_size;
	*total_bytes = total;
	return r;
}

int driver_alloc(struct driver *d, uint64_t bytes, uint64_t *address)
{
	CUdeviceptr p = 0;
	int r = DRIVER_CALL(d, d->api.cuMemAlloc(&p, bytes), "cuMemAlloc(%llu bytes)", ULL(bytes));

	*address = p;
	return r;
}

int driver_free(struct driver *d, uint64_t address)
{
	return DRIVER_CALL(d, d->api.cuMemFree(address), "cuMemFree(0x%llx)", ULL(address));
}

/* ---- IPC --------------------------------------------------------------------- */

int driver_ipc_export(struct driver *d, uint64_t address, uint8_t handle[DRIVER_IPC_HANDLE])
{
	CUipcMemHandle h = { 0 };
	int r = DRIVER_CALL(d, d->api.cuIpcGetMemHandle(&h, address), "cuIpcGetMemHandle(0x%llx)", ULL(address));

	_Static_assert(sizeof(h) == DRIVER_IPC_HANDLE, "CUipcMemHandle");
	memcpy(handle, &h, sizeof(h));
	return r;
}

int driver_ipc_import(struct driver *d, const uint8_t handle[DRIVER_IPC_HANDLE], uint64_t *address)
{
	CUipcMemHandle h;
	CUdeviceptr p = 0;
	int r;

	memcpy(&h, handle, sizeof(h));
	r = DRIVER_CALL(d, d->api.cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
			"cuIpcOpenMemHandle()");
	*address = p;
	return r;
}

int driver_ipc_close(struct driver *d, uint64_t address)
{
	return DRIVER_CALL(d, d->api.cuIpcCloseMemHandle(address), "cuIpcCloseMemHandle(0x%llx)", ULL(address));
}

/* ---- host memory -------------------------------------------------------------- */

int driver_host_register(struct driver *d, void *p, size_t bytes, uint64_t *device_address)
{
	CUdeviceptr address = 0;
	int r = DRIVER_CALL(
		d, d->api.cuMemHostRegister(p, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
		"cuMemHostRegister(%zu bytes)", bytes);

	*device_address = 0;
	if (r)
		return r;
	r = DRIVER_CALL(d, d->api.cuMemHostGetDevicePointer(&address, p, 0), "cuMemHostGetDevicePointer()");
	if (r) {
		/* The sentence of the first failure stays; what the way back says is of no use to anybody. */
		if (driver_enter(d) == 0) {
			d->api.cuMemHostUnregister(p);
			driver_leave(d, r);
		}
		return r;
	}
	*device_address = address;
	return 0;
}

int driver_host_address(struct driver *d, void *p, uint64_t *device_address)
{
	CUdeviceptr address = 0;
	int r = DRIVER_CALL(d, d->api.cuMemHostGetDevicePointer(&address, p, 0), "cuMemHostGetDevicePointer()");

	*device_address = address;
	return r;
}

int driver_host_unregister(struct driver *d, void *p)
{
	return DRIVER_CALL(d, d->api.cuMemHostUnregister(p), "cuMemHostUnregister()");
}

/* ---- streams ------------------------------------------------------------------- */

int driver_stream_create(struct driver *d, void **stream)
{
	CUstream s = NULL;
	int r = DRIVER_CALL(d, d->api.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate()");

	*stream = s;
	return r;
}

int driver_stream_destroy(struct driver *d, void *stream)
{
	return DRIVER_CALL(d, d->api.cuStreamDestroy(stream), "cuStreamDestroy()");
}

int driver_stream_synchronize(struct driver *d, void *stream)
{
	return DRIVER_CALL(d, d->api.cuStreamSynchronize(stream), "cuStreamSynchronize()");
}

int driver_stream_write64(struct driver *d, void *stream, uint64_t device_address, uint64_t value)
{
	return DRIVER_CALL(d, d->api.cuStreamWriteValue64(stream, device_address, value, CU_STREAM_WRITE_VALUE_DEFAULT),
			   "cuStreamWriteValue64(0x%llx, %llu)", ULL(device_address), ULL(value));
}

int driver_stream_host_func(struct driver *d, void *stream, void (*fn)(void *), void *arg)
{
	return DRIVER_CALL(d, d->api.cuLaunchHostFunc(stream, fn, arg), "cuLaunchHostFunc()");
}

int driver_copy_to_device(struct driver *d, void *stream, uint64_t dst, const void *src, size_t bytes)
{
	return DRIVER_CALL(d, d->api.cuMemcpyHtoDAsync(dst, src, bytes, stream), "cuMemcpyHtoDAsync(0x%llx, %zu bytes)",
			   ULL(dst), bytes);
}

int driver_copy_to_host(struct driver *d, void *stream, void *dst, uint64_t src, size_t bytes)
{
	return DRIVER_CALL(d, d->api.cuMemcpyDtoHAsync(dst, src, bytes, stream), "cuMemcpyDtoHAsync(0x%llx, %zu bytes)",
			   ULL(src), bytes);
}

int driver_copy(struct driver *d, void *stream, uint64_t dst, uint64_t src, size_t bytes)
{
	return DRIVER_CALL(d, d->api.cuMemcpyDtoDAsync(dst, src, bytes, stream),
			   "cuMemcpyDtoDAsync(0x%llx, 0x%llx, %zu bytes)", ULL(dst), ULL(src), bytes);
}

int driver_fill32(struct driver *d, void *stream, uint64_t dst, uint32_t value, uint64_t n_words)
{
	return DRIVER_CALL(d, d->api.cuMemsetD32Async(dst, value, n_words, stream),
			   "cuMemsetD32Async(0x%llx, %llu words)", ULL(dst), ULL(n_words));
}

int driver_fill16(struct driver *d, void *stream, uint64_t dst, uint16_t value, uint64_t n)
{
	return DRIVER_CALL(d, d->api.cuMemsetD16Async(dst, value, n, stream),
			   "cuMemsetD16Async(0x%llx, %llu half-words)", ULL(dst), ULL(n));
}

/* ---- kernels -------------------------------------------------------------------- */

/* Where @image is, or would be, in d->images; DRIVER_MAX_IMAGES: there is no room for it. */
static int image_index(const struct driver *d, const struct driver_image *image)
{
	int i = 0;

	while (i < DRIVER_MAX_IMAGES && d->images[i].image && d->images[i].image != image)
		i++;
	return i;
}

int driver_load_image(struct driver *d, const struct driver_image *image)
{
	int i = image_index(d, image), r = driver_enter(d);
	CUmodule module = NULL;

	if (r)
		return r;
	if (i == DRIVER_MAX_IMAGES)
		return driver_leave(d, driver_complain(d, SWAKV_EDEVICE, "more than %d kernel images", i));
	if (d->images[i].image)
		return driver_leave(d, 0);
	if (!image->data)
		return driver_leave(d, driver_complain(d, SWAKV_EUNSUPPORTED,
						       "this build has no GPU kernels: build it where nvcc is"));
	r = driver_check(d, d->api.cuModuleLoadData(&module, image->data), "cuModuleLoadData(%llu bytes)",
			 ULL(image->bytes));
	if (r == 0) {
		d->images[i].image = image;
		d->images[i].module = module;
	}
	return driver_leave(d, r);
}

#define SHARED_ALWAYS (48u << 10) /* dynamic shared memory that a kernel has without asking */

/* Lets kernel @i have @bytes of dynamic shared memory. */
static int allow_shared(struct driver *d, int i, uint32_t bytes)
{
	int r;

	if (bytes <= d->kernels[i].shared)
		return 0;
	r = DRIVER_CALL(d,
			d->api.cuFuncSetAttribute(d->kernels[i].function,
						  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes),
			"cuFuncSetAttribute(%s, %u bytes of shared memory)", d->kernels[i].name, bytes);
	if (r == 0)
		d->kernels[i].shared = bytes;
	return r;
}

/* The index of kernel @name of @image, looked up at its first launch; -1 with the sentence left behind. */
static int find_kernel(struct driver *d, const struct driver_image *image, const char *name)
{
	CUfunction f = NULL;
	int i = 0;

	for (; i < DRIVER_MAX_KERNELS && d->kernels[i].name; i++)
		if (strcmp(d->kernels[i].name, name) == 0)
			return i;
	if (i == DRIVER_MAX_KERNELS) {
		driver_complain(d, SWAKV_EDEVICE, "more than %d kernels", DRIVER_MAX_KERNELS);
		return -1;
	}
	if (DRIVER_CALL(d, d->api.cuModuleGetFunction(&f, d->images[image_index(d, image)].module, name),
			"cuModuleGetFunction(%s)", name) != 0)
		return -1;
	d->kernels[i].name = name;
	d->kernels[i].function = f;
	d->kernels[i].shared = SHARED_ALWAYS;
	return i;
}

int driver_launch(struct driver *d, void *stream, const struct driver_image *image, const char *name, uint32_t grid,
		  uint32_t block, uint32_t shared_bytes, const void *params, size_t bytes)
{
	/* The driver copies the block during the call and never writes it. */
	void *arguments[] = { (void *)(uintptr_t)params };
	int r = driver_load_image(d, image);
	int i = r ? -1 : find_kernel(d, image, name);

	if (r)
		return r;
	if (i < 0 || allow_shared(d, i, shared_bytes))
		return SWAKV_EDEVICE;
	return DRIVER_CALL(d,
			   d->api.cuLaunchKernel(d->kernels[i].function, grid, 1, 1, block, 1, 1, shared_bytes, stream,
						 arguments, NULL),
			   "cuLaunchKernel(%s, grid %u, block %u, %zu bytes of parameters)", name, grid, block, bytes);
}
