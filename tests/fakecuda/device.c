/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - entry points, devices, contexts, and what every call does first */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_private.h"
#include "fake.h"

#define MAX_DEVICES    16
#define MAX_STACK      8
#define DRIVER_VERSION 13000
#define WRITE_V2_SINCE 11070 /* a request for an older version gets version 1 */

struct CUctx_st {
	int ordinal;
	_Atomic int n_retained;
};

static struct CUctx_st contexts[MAX_DEVICES];
static _Atomic int n_visible = -1; /* -1: not initialised */
static int visible[MAX_DEVICES];
static pid_t owner;
static _Atomic int context_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[MAX_STACK];
static _Thread_local int depth;

CUresult cuStreamWriteValue64_v1(CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags);

/* ---- finding functions ------------------------------------------------------ */

#define QUOTE(x)      #x
#define FULL_NAME(x)  QUOTE(x)
#define FAKE_ENTRY(f) { #f, FULL_NAME(f), (void (*)(void))f },

static const struct {
	const char *name, *full_name;
	void (*function)(void);
} entries[] = { DRIVER_API(FAKE_ENTRY) };

bool fake_knows(const char *function)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, function) == 0 || strcmp(entries[i].full_name, function) == 0)
			return true;
	}
	return false;
}

/* The trap that a plain dlsym() falls into: the first version of the stream write is not supported. */
FAKE_API CUresult cuStreamWriteValue64_v1(CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned flags)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_API CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags,
					   CUdriverProcAddressQueryResult *status)
{
	void (*function)(void) = NULL;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, symbol) == 0)
			function = entries[i].function;
	}
	if (strcmp(symbol, "cuStreamWriteValue64") == 0 && version < WRITE_V2_SINCE)
		function = (void (*)(void))cuStreamWriteValue64_v1;
	memcpy(pfn, &function, sizeof(function));
	if (status)
		*status = function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- the frame of a call ------------------------------------------------------- */

void fake_break_context(CUresult error)
{
	int none = 0;

	atomic_compare_exchange_strong(&context_error, &none, (int)error);
}

CUresult fake_context_error(void)
{
	return (CUresult)context_error;
}

CUresult fake_enter(const char *function, unsigned needs, long *late)
{
	unsigned nth;
	long value;

	fake_configure();
	nth = fake_count(function);
	if (late)
		*late = fake_rule(FAKE_LATE, function, nth);
	value = fake_rule(FAKE_STALL, function, nth);
	if (value > 0)
		fake_sleep_ms(value);
	/* The streams' threads are not in a forked child, and the real driver does not work there either. */
	if (needs & (FAKE_CONTEXT | FAKE_INITIALIZED) && (n_visible < 0 || owner != getpid()))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (needs & FAKE_CONTEXT && fake_lost())
		fake_break_context(fake_lost());
	value = fake_rule(FAKE_FAIL, function, nth);
	if (value == CUDA_ERROR_ILLEGAL_ADDRESS || value == CUDA_ERROR_LAUNCH_FAILED)
		fake_break_context((CUresult)value);
	if (value)
		return (CUresult)value;
	if (!(needs & FAKE_CONTEXT))
		return CUDA_SUCCESS;
	return depth == 0 ? CUDA_ERROR_INVALID_CONTEXT : fake_context_error();
}

/* ---- devices --------------------------------------------------------------------- */

static void find_devices(void)
{
	uint64_t n = fake_number("FAKECUDA_DEVICES", 1);
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	int found = 0;

	if (n > MAX_DEVICES)
		fake_die("FAKECUDA_DEVICES: at most %d", MAX_DEVICES);
	for (int i = 0; !list && i < (int)n; i++)
		visible[found++] = i;
	/* As the real one: the list ends at the first entry that is no device. */
	while (list && *list && found < MAX_DEVICES) {
		char *end;
		long ordinal = strtol(list, &end, 10);

		if (end == list || ordinal < 0 || ordinal >= (long)n)
			break;
		visible[found++] = (int)ordinal;
		list = *end == ',' ? end + 1 : end;
	}
	n_visible = found;
}

FAKE_API CUresult CUDAAPI cuInit(unsigned flags)
{
	CUresult r = fake_enter(__func__, 0, NULL);

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	if (n_visible < 0) {
		owner = getpid();
		find_devices();
	}
	pthread_mutex_unlock(&lock);
	if (owner != getpid())
		return CUDA_ERROR_NOT_INITIALIZED;
	return n_visible > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

FAKE_API CUresult CUDAAPI cuDriverGetVersion(int *version)
{
	CUresult r = fake_enter(__func__, 0, NULL);

	*version = DRIVER_VERSION;
	return r;
}

FAKE_API CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
	static const struct {
		CUresult code;
		const char *name;
	} names[] = {
#define FAKE_NAME(code) { code, #code }
		FAKE_NAME(CUDA_ERROR_INVALID_VALUE),
		FAKE_NAME(CUDA_ERROR_OUT_OF_MEMORY),
		FAKE_NAME(CUDA_ERROR_NOT_INITIALIZED),
		FAKE_NAME(CUDA_ERROR_DEVICE_UNAVAILABLE),
		FAKE_NAME(CUDA_ERROR_NO_DEVICE),
		FAKE_NAME(CUDA_ERROR_INVALID_DEVICE),
		FAKE_NAME(CUDA_ERROR_INVALID_IMAGE),
		FAKE_NAME(CUDA_ERROR_ECC_UNCORRECTABLE),
		FAKE_NAME(CUDA_ERROR_INVALID_CONTEXT),
		FAKE_NAME(CUDA_ERROR_NO_BINARY_FOR_GPU),
		FAKE_NAME(CUDA_ERROR_OPERATING_SYSTEM),
		FAKE_NAME(CUDA_ERROR_INVALID_HANDLE),
		FAKE_NAME(CUDA_ERROR_NOT_FOUND),
		FAKE_NAME(CUDA_ERROR_ILLEGAL_ADDRESS),
		FAKE_NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
		FAKE_NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
		FAKE_NAME(CUDA_ERROR_LAUNCH_FAILED),
		FAKE_NAME(CUDA_ERROR_NOT_SUPPORTED),
		FAKE_NAME(CUDA_ERROR_ILLEGAL_STATE),
		FAKE_NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
		FAKE_NAME(CUDA_ERROR_UNKNOWN),
#undef FAKE_NAME
	};

	CUresult r = fake_enter(__func__, 0, NULL);

	*text = NULL;
	if (r)
		return r;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].code == error)
			*text = names[i].name;
	}
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult CUDAAPI cuDeviceGetCount(int *n)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	*n = n_visible;
	return r;
}

FAKE_API CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (r)
		return r;
	if (ordinal < 0 || ordinal >= n_visible)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);
	const char *given = getenv("FAKECUDA_NAME");

	if (r)
		return r;
	if (given)
		snprintf(name, (size_t)size, "%s", given);
	else
		snprintf(name, (size_t)size, "Fake GPU %d", visible[device]);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);
	static const char text[16] = "fake-cuda-gpu-0";

	if (r)
		return r;
	memcpy(uuid->bytes, text, sizeof(text));
	uuid->bytes[15] = (char)visible[device];
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	*bytes = fake_number("FAKECUDA_MEMORY", 8ull << 30);
	return r;
}

uint64_t fake_shared_bytes(void)
{
	return fake_number("FAKECUDA_SHARED", 227 << 10);
}

FAKE_API CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED)
		*value = (int)fake_number("FAKECUDA_INTEGRATED", 0);
	else if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)
		*value = (int)fake_number("FAKECUDA_STREAM_WRITE", 1);
	else if (attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
		*value = (int)fake_shared_bytes();
	else
		return CUDA_ERROR_INVALID_VALUE;
	return r;
}

/* ---- contexts ----------------------------------------------------------------------- */

FAKE_API CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (r)
		return r;
	contexts[device].ordinal = visible[device];
	contexts[device].n_retained++;
	*context = &contexts[device];
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (r)
		return r;
	if (contexts[device].n_retained <= 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	contexts[device].n_retained--;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuCtxPushCurrent(CUcontext context)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (r)
		return r;
	if (!context || context->n_retained <= 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth == MAX_STACK)
		fake_die("a thread pushed its context %d times and never popped it", MAX_STACK);
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (depth == 0)
		return r ? r : CUDA_ERROR_INVALID_CONTEXT;
	/* Also when it is told to fail: a context that stays would hide later mistakes. */
	*context = stack[--depth];
	return r;
}
