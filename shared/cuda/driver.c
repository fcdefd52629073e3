/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.c - loading the driver, choosing the device, the frame of each call
 *
 * Entry points come from cuGetProcAddress with the version this file was
 * written for. A plain dlsym() would give version 1 of some: of the stream
 * write, the one that answers "not supported".
 *
 * Threads of the caller have no context of their own, and none is left behind
 * on them: each call pushes the device's primary context and pops it again. It
 * is the context that the runtime API of the same process uses, so streams and
 * addresses can be exchanged with it.
 *
 * A context does not survive fork(). The struct lies in pages that are wiped in
 * a child (MADV_WIPEONFORK), so a look at one word tells, without a system call.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver_private.h"

#define DRIVER_ABI   12000 /* the CUDA version whose entry points are asked for */
#define DRIVER_ALIVE 0x6c697665u
#define FORKED_TEXT  "the GPU driver was opened before fork(): a child cannot use it and must open its own"

typedef CUresult (*get_proc_fn)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static const struct {
	CUresult code;
	const char *text;
} causes[] = {
	{ CUDA_ERROR_INVALID_VALUE, "an argument is wrong, or an address is not known to this device" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "the device has less memory free than that: see nvidia-smi" },
	{ CUDA_ERROR_NOT_INITIALIZED, "the driver was not initialised in this process, or it forked since" },
	{ CUDA_ERROR_DEINITIALIZED, "the process is exiting" },
	{ CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is in exclusive or prohibited compute mode" },
	{ CUDA_ERROR_NO_DEVICE, "no GPU is visible: see nvidia-smi and CUDA_VISIBLE_DEVICES" },
	{ CUDA_ERROR_INVALID_DEVICE, "there is no such device: see nvidia-smi -L and CUDA_VISIBLE_DEVICES" },
	{ CUDA_ERROR_INVALID_IMAGE, "the embedded kernels are damaged" },
	{ CUDA_ERROR_INVALID_CONTEXT, "the context is gone, or the memory was exported by this very process" },
	{ CUDA_ERROR_NO_BINARY_FOR_GPU, "the embedded kernels were not built for this GPU" },
	{ CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the driver is older than the nvcc that built the kernels" },
	{ CUDA_ERROR_ECC_UNCORRECTABLE, "memory of the device is damaged: reset it, or replace it" },
	{ CUDA_ERROR_OPERATING_SYSTEM, "the kernel module refused: other pid namespace, or a resource limit" },
	{ CUDA_ERROR_INVALID_HANDLE, "the exporting process has ended or has freed the memory" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS,
	  "a kernel of this process accessed memory that it does not have; its context is lost" },
	{ CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the range is registered already" },
	{ CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the range was never registered, or was unmapped before" },
	{ CUDA_ERROR_LAUNCH_FAILED, "a kernel of this process failed; its context is lost" },
	{ CUDA_ERROR_NOT_PERMITTED, "not allowed here, for example inside a stream callback" },
	{ CUDA_ERROR_NOT_SUPPORTED, "this device, driver or platform cannot do it (MIG, WSL and Jetson lack some)" },
	{ CUDA_ERROR_SYSTEM_NOT_READY, "a service of the driver is not running (fabric manager?)" },
	{ CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "driver library and kernel module are of different versions" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing a graph" },
};

static const char *driver_cause(CUresult result)
{
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (causes[i].code == result)
			return causes[i].text;
	}
	return "see the CUDA documentation of the code, and the kernel log for Xid lines";
}

int driver_complain(struct driver *d, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(d->why, sizeof(d->why), format, args);
	va_end(args);
	return code;
}

int driver_check(struct driver *d, CUresult result, const char *call, ...)
{
	const char *name = NULL;
	char what[96];
	va_list args;

	if (result == CUDA_SUCCESS)
		return 0;
	va_start(args, call);
	vsnprintf(what, sizeof(what), call, args);
	va_end(args);
	if (d->api.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "unknown CUDA error";
	return driver_complain(d, SWAKV_EDEVICE, "%s failed: %s (%d): %s", what, name, (int)result,
			       driver_cause(result));
}

int driver_usable(const struct driver *d)
{
	return d->alive == DRIVER_ALIVE ? 0 : SWAKV_EFORKED;
}

int driver_enter(struct driver *d)
{
	int r = driver_usable(d);

	if (r == 0 && !d->context)
		return driver_complain(d, SWAKV_EDEVICE, "the device was opened without a context, and this needs one");
	return r ? r : driver_check(d, d->api.cuCtxPushCurrent(d->context), "cuCtxPushCurrent()");
}

int driver_leave(struct driver *d, int result)
{
	CUcontext old;
	CUresult popped = d->api.cuCtxPopCurrent(&old);

	/* The first failure is the one to report. */
	return result ? result : driver_check(d, popped, "cuCtxPopCurrent()");
}

/* ---- opening ------------------------------------------------------------- */

static int driver_load(struct driver *d, const char *library)
{
	get_proc_fn get_proc;
	void *symbol;

	if (!library)
		library = getenv("SWAKV_CUDA_LIBRARY");
	if (!library || !*library)
		library = "libcuda.so.1";
	/* The driver has threads and exit handlers of its own: once in, it stays. */
	d->library = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!d->library)
		return driver_complain(d, SWAKV_EDEVICE, "cannot load the GPU driver: %s", dlerror());
	symbol = dlsym(d->library, "cuGetProcAddress_v2");
	if (!symbol)
		return driver_complain(d, SWAKV_EDEVICE,
				       "%s has no cuGetProcAddress_v2: a driver for CUDA 12.0 (525) or newer is needed",
				       library);
	memcpy(&get_proc, &symbol, sizeof(get_proc));

#define DRIVER_RESOLVE(name)                                                                                           \
	do {                                                                                                           \
		void *p = NULL;                                                                                        \
		CUresult r = get_proc(#name, &p, DRIVER_ABI, CU_GET_PROC_ADDRESS_DEFAULT, NULL);                       \
		if (r != CUDA_SUCCESS || !p)                                                                           \
			return driver_complain(d, SWAKV_EDEVICE, "%s has no %s (error %d): is the driver too old?",    \
					       library, #name, (int)r);                                                \
		memcpy(&d->api.name, &p, sizeof(p));                                                                   \
	} while (0);
	DRIVER_API(DRIVER_RESOLVE)
#undef DRIVER_RESOLVE
	return 0;
}

/* The ordinal of the device with @uuid among @n. */
static int driver_find_uuid(struct driver *d, const uint8_t *uuid, int n)
{
	char text[41];

	for (int i = 0; i < n; i++) {
		CUuuid found;
		int r = driver_check(d, d->api.cuDeviceGet(&d->device, i), "cuDeviceGet(%d)", i);

		r = r ? r : driver_check(d, d->api.cuDeviceGetUuid(&found, d->device), "cuDeviceGetUuid(%d)", i);
		if (r)
			return r;
		if (memcmp(found.bytes, uuid, sizeof(found.bytes)) == 0) {
			d->info.ordinal = i;
			return 0;
		}
	}
	driver_uuid_format(uuid, text);
	return driver_complain(d, SWAKV_EDEVICE,
			       "no device %s among the %d visible: see nvidia-smi -L and CUDA_VISIBLE_DEVICES", text,
			       n);
}

static int driver_choose(struct driver *d, const uint8_t *uuid, int ordinal)
{
	int n = 0;
	int r = driver_check(d, d->api.cuDeviceGetCount(&n), "cuDeviceGetCount()");

	if (r)
		return r;
	if (uuid)
		return driver_find_uuid(d, uuid, n);
	if (ordinal < 0 || ordinal >= n)
		return driver_complain(d, SWAKV_EDEVICE,
				       "no device %d, %d are visible: see nvidia-smi -L and CUDA_VISIBLE_DEVICES",
				       ordinal, n);
	d->info.ordinal = ordinal;
	return driver_check(d, d->api.cuDeviceGet(&d->device, ordinal), "cuDeviceGet(%d)", ordinal);
}

static int driver_attribute(struct driver *d, CUdevice_attribute attribute, int *out)
{
	return driver_check(d, d->api.cuDeviceGetAttribute(out, attribute, d->device), "cuDeviceGetAttribute(%d)",
			    (int)attribute);
}

static int driver_describe(struct driver *d)
{
	struct driver_device *i = &d->info;
	int integrated = 0, stream_write = 0, shared = 0;
	CUuuid uuid;
	size_t total = 0;
	int r;

	if ((r = driver_check(d, d->api.cuDeviceGetName(i->name, sizeof(i->name), d->device), "cuDeviceGetName()")) ||
	    (r = driver_check(d, d->api.cuDeviceGetUuid(&uuid, d->device), "cuDeviceGetUuid()")) ||
	    (r = driver_check(d, d->api.cuDeviceTotalMem(&total, d->device), "cuDeviceTotalMem()")) ||
	    (r = driver_attribute(d, CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated)) ||
	    (r = driver_attribute(d, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &stream_write)) ||
	    (r = driver_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared)))
		return r;
	i->integrated = integrated != 0;
	i->stream_write_supported = stream_write != 0;
	i->shared_bytes = (uint32_t)shared;
	memcpy(i->uuid, uuid.bytes, sizeof(i->uuid));
	i->total_bytes = total;
	/* No attribute tells a slice of a GPU from a GPU; its name does. */
	i->mig = strstr(i->name, "MIG ") != NULL;
	return 0;
}

static int driver_start(struct driver *d, const char *library, const uint8_t *uuid, int ordinal, bool bare)
{
	int r;

	if ((r = driver_load(d, library)) || (r = driver_check(d, d->api.cuInit(0), "cuInit()")) ||
	    (r = driver_check(d, d->api.cuDriverGetVersion(&d->info.driver_version), "cuDriverGetVersion()")) ||
	    (r = driver_choose(d, uuid, ordinal)) || (r = driver_describe(d)) || bare)
		return r;
	return driver_check(d, d->api.cuDevicePrimaryCtxRetain(&d->context, d->device), "cuDevicePrimaryCtxRetain(%d)",
			    d->info.ordinal);
}

static int driver_new(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, bool bare, char *why)
{
	struct driver *d;
	int r;

	*out = NULL;
	d = mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d == MAP_FAILED || madvise(d, sizeof(*d), MADV_WIPEONFORK) != 0) {
		snprintf(why, DRIVER_WHY, "no memory that is wiped on fork (Linux 4.14 or newer is needed)");
		if (d != MAP_FAILED)
			munmap(d, sizeof(*d));
		return SWAKV_ENOMEM;
	}
	d->alive = DRIVER_ALIVE;
	r = driver_start(d, library, uuid, ordinal, bare);
	if (r) {
		memcpy(why, d->why, DRIVER_WHY);
		driver_close(d);
		return r;
	}
	*out = d;
	return 0;
}

int driver_open(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why)
{
	return driver_new(out, library, uuid, ordinal, false, why);
}

int driver_open_bare(struct driver **out, const char *library, const uint8_t *uuid, int ordinal, char *why)
{
	return driver_new(out, library, uuid, ordinal, true, why);
}

static void unload_images(struct driver *d)
{
	for (int i = 0; i < DRIVER_MAX_IMAGES && d->images[i].image; i++)
		if (driver_enter(d) == 0)
			driver_leave(d,
				     driver_check(d, d->api.cuModuleUnload(d->images[i].module), "cuModuleUnload()"));
}

struct driver *driver_close(struct driver *d)
{
	if (!d)
		return NULL;
	/* In a forked child all but the pages is the parent's. */
	if (driver_usable(d) == 0) {
		unload_images(d);
		if (d->context)
			d->api.cuDevicePrimaryCtxRelease(d->device);
		if (d->library)
			dlclose(d->library);
	}
	munmap(d, sizeof(*d));
	return NULL;
}

void driver_get_device(const struct driver *d, struct driver_device *out)
{
	*out = d->info;
}

const char *driver_why(const struct driver *d)
{
	return driver_usable(d) == 0 ? d->why : FORKED_TEXT;
}
