/* SPDX-License-Identifier: Apache-2.0 */
/* driver_private.h - what the files of the driver share: entry points, the open device, the call frame */
#ifndef SWAKV_DRIVER_PRIVATE_H
#define SWAKV_DRIVER_PRIVATE_H

#include <cuda.h>

#include "driver.h"

/* Every entry point that is used. cuda.h renames most of them to their current version; the list has the base names. */
#define DRIVER_API(FN)                                                                                                 \
	FN(cuInit)                                                                                                     \
	FN(cuGetErrorName)                                                                                             \
	FN(cuDriverGetVersion)                                                                                         \
	FN(cuDeviceGetCount)                                                                                           \
	FN(cuDeviceGet)                                                                                                \
	FN(cuDeviceGetName)                                                                                            \
	FN(cuDeviceGetUuid)                                                                                            \
	FN(cuDeviceTotalMem)                                                                                           \
	FN(cuDeviceGetAttribute)                                                                                       \
	FN(cuDevicePrimaryCtxRetain)                                                                                   \
	FN(cuDevicePrimaryCtxRelease)                                                                                  \
	FN(cuCtxPushCurrent)                                                                                           \
	FN(cuCtxPopCurrent)                                                                                            \
	FN(cuMemGetInfo)                                                                                               \
	FN(cuMemAlloc)                                                                                                 \
	FN(cuMemFree)                                                                                                  \
	FN(cuIpcGetMemHandle)                                                                                          \
	FN(cuIpcOpenMemHandle)                                                                                         \
	FN(cuIpcCloseMemHandle)                                                                                        \
	FN(cuMemGetAllocationGranularity)                                                                              \
	FN(cuMemCreate)                                                                                                \
	FN(cuMemRelease)                                                                                               \
	FN(cuMemExportToShareableHandle)                                                                               \
	FN(cuMemImportFromShareableHandle)                                                                             \
	FN(cuMemAddressReserve)                                                                                        \
	FN(cuMemAddressFree)                                                                                           \
	FN(cuMemMap)                                                                                                   \
	FN(cuMemUnmap)                                                                                                 \
	FN(cuMemSetAccess)                                                                                             \
	FN(cuMemHostRegister)                                                                                          \
	FN(cuMemHostGetDevicePointer)                                                                                  \
	FN(cuMemHostUnregister)                                                                                        \
	FN(cuStreamCreate)                                                                                             \
	FN(cuStreamDestroy)                                                                                            \
	FN(cuStreamSynchronize)                                                                                        \
	FN(cuStreamWriteValue64)                                                                                       \
	FN(cuStreamBeginCapture)                                                                                       \
	FN(cuStreamEndCapture)                                                                                         \
	FN(cuStreamIsCapturing)                                                                                        \
	FN(cuGraphInstantiateWithFlags)                                                                                \
	FN(cuGraphDestroy)                                                                                             \
	FN(cuGraphLaunch)                                                                                              \
	FN(cuGraphExecDestroy)                                                                                         \
	FN(cuLaunchHostFunc)                                                                                           \
	FN(cuMemcpyHtoDAsync)                                                                                          \
	FN(cuMemcpyDtoHAsync)                                                                                          \
	FN(cuMemcpyDtoDAsync)                                                                                          \
	FN(cuMemsetD32Async)                                                                                           \
	FN(cuMemsetD16Async)                                                                                           \
	FN(cuModuleLoadData)                                                                                           \
	FN(cuModuleUnload)                                                                                             \
	FN(cuModuleGetFunction)                                                                                        \
	FN(cuFuncSetAttribute)                                                                                         \
	FN(cuLaunchKernel)

struct driver_api {
#define DRIVER_FIELD(name) __typeof__(&name) name;
	DRIVER_API(DRIVER_FIELD)
#undef DRIVER_FIELD
};

enum { DRIVER_MAX_KERNELS = 64, DRIVER_MAX_IMAGES = 4 };

/* Lies alone in pages that the kernel wipes in a forked child: `alive` is 0 there. */
struct driver {
	uint32_t alive;
	void *library;
	struct driver_api api;
	CUdevice device;
	CUcontext context; /* the primary one, retained; NULL: opened bare */
	struct driver_device info;
	struct {
		const struct driver_image *image;
		CUmodule module;
	} images[DRIVER_MAX_IMAGES]; /* those that were loaded, filled from the front */
	struct {
		const char *name; /* as the caller gave it: static */
		CUfunction function;
		uint32_t shared;       /* dynamic shared memory it may have, bytes */
	} kernels[DRIVER_MAX_KERNELS]; /* those that were launched, filled from the front */
	char why[DRIVER_WHY];
};

/* Leaves the sentence and returns @code. */
int driver_complain(struct driver *d, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* 0, or the sentence "CALL failed: NAME (number): likely cause" and SWAKV_EDEVICE. The arguments format the call. */
int driver_check(struct driver *d, CUresult result, const char *call, ...) __attribute__((format(printf, 3, 4)));
/* 0, or SWAKV_EFORKED in a child of the process that opened @d. */
int driver_usable(const struct driver *d);
/* Makes the context current; SWAKV_EFORKED in a child. Each success is paired with driver_leave(). */
int driver_enter(struct driver *d);
/* Takes the context off again; passes on @result, the outcome of what was done between. */
int driver_leave(struct driver *d, int result);

/* One checked driver call with the context current: DRIVER_CALL(d, d->api.fn(...), "fn(%d)", ...). */
#define DRIVER_CALL(d, expression, ...)                                                                                \
	({                                                                                                             \
		int rc_ = driver_enter(d);                                                                             \
		if (rc_ == 0)                                                                                          \
			rc_ = driver_leave((d), driver_check((d), (expression), __VA_ARGS__));                         \
		rc_;                                                                                                   \
	})

#endif
