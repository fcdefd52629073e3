/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_share.c - device memory that is exported as a file descriptor
 *
 * Making, exporting and releasing it needs no context, so they are called
 * without one: a broker that only lends memory need not pay for a context.
 * Mapping is done with the context of the process that is going to use it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "driver_private.h"

#define ULL(x) ((unsigned long long)(x))

/* One checked driver call with whatever context the thread has. */
#define DRIVER_BARE_CALL(d, expression, ...)                                                                           \
	({                                                                                                             \
		int rc_ = driver_usable(d);                                                                            \
		if (rc_ == 0)                                                                                          \
			rc_ = driver_check((d), (expression), __VA_ARGS__);                                            \
		rc_;                                                                                                   \
	})

static void share_describe(const struct driver *d, CUmemAllocationProp *p)
{
	memset(p, 0, sizeof(*p));
	p->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p->location.id = d->device;
}

/* Both sides round in the same way: it is the same device. */
static int share_round(struct driver *d, uint64_t *bytes, uint64_t *grain)
{
	CUmemAllocationProp p;
	size_t n = 0;
	int r;

	share_describe(d, &p);
	r = DRIVER_BARE_CALL(d, d->api.cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
			     "cuMemGetAllocationGranularity()");
	if (r)
		return r;
	if (n == 0 || *bytes == 0 || *bytes > UINT64_MAX - n)
		return driver_complain(d, SWAKV_EDEVICE, "%llu bytes cannot be rounded to the device's unit of %zu",
				       ULL(*bytes), n);
	*bytes = (*bytes + n - 1) / n * n;
	*grain = n;
	return 0;
}

int driver_share_create(struct driver *d, uint64_t *bytes, uint64_t *handle)
{
	CUmemGenericAllocationHandle h = 0;
	CUmemAllocationProp p;
	uint64_t grain;
	int r = share_round(d, bytes, &grain);

	*handle = 0;
	if (r)
		return r;
	share_describe(d, &p);
	r = DRIVER_BARE_CALL(d, d->api.cuMemCreate(&h, *bytes, &p, 0), "cuMemCreate(%llu bytes)", ULL(*bytes));
	if (r == 0)
		*handle = h;
	return r;
}

int driver_share_export(struct driver *d, uint64_t handle, int *fd)
{
	int n = -1;
	int r = DRIVER_BARE_CALL(
		d, d->api.cuMemExportToShareableHandle(&n, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		"cuMemExportToShareableHandle()");

	*fd = -1;
	if (r)
		return r;
	if (n < 0 || fcntl(n, F_SETFD, FD_CLOEXEC) < 0)
		return driver_complain(d, SWAKV_EDEVICE, "cuMemExportToShareableHandle() gave descriptor %d: %s", n,
				       strerror(errno));
	*fd = n;
	return 0;
}

int driver_share_release(struct driver *d, uint64_t handle)
{
	return DRIVER_BARE_CALL(d, d->api.cuMemRelease(handle), "cuMemRelease()");
}

/* ---- mapping ------------------------------------------------------------------ */

/* With the context current. */
static int share_map_at(struct driver *d, CUmemGenericAllocationHandle handle, uint64_t bytes, CUdeviceptr address)
{
	CUmemAccessDesc access;
	int r = driver_check(d, d->api.cuMemMap(address, bytes, 0, handle, 0), "cuMemMap(%llu bytes)", ULL(bytes));

	if (r)
		return r;
	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = d->device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	r = driver_check(d, d->api.cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess(%llu bytes)",
			 ULL(bytes));
	if (r)
		d->api.cuMemUnmap(address, bytes);
	return r;
}

/* Reserves addresses and maps the memory there; with the context current. */
static int share_place(struct driver *d, CUmemGenericAllocationHandle handle, uint64_t bytes, uint64_t grain,
		       CUdeviceptr *address)
{
	int r = driver_check(d, d->api.cuMemAddressReserve(address, bytes, grain, 0, 0),
			     "cuMemAddressReserve(%llu bytes)", ULL(bytes));

	if (r)
		return r;
	r = share_map_at(d, handle, bytes, *address);
	if (r)
		d->api.cuMemAddressFree(*address, bytes);
	return r;
}

static int share_import(struct driver *d, int fd, uint64_t bytes, uint64_t grain, CUdeviceptr *address)
{
	CUmemGenericAllocationHandle handle = 0;
	int r = driver_check(d,
			     d->api.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
								   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
			     "cuMemImportFromShareableHandle()");
	CUresult released;

	if (r)
		return r;
	r = share_place(d, handle, bytes, grain, address);
	/* The mapping holds the memory; the handle is not needed beyond it. */
	released = d->api.cuMemRelease(handle);
	if (r || released == CUDA_SUCCESS)
		return r;
	d->api.cuMemUnmap(*address, bytes);
	d->api.cuMemAddressFree(*address, bytes);
	return driver_check(d, released, "cuMemRelease()");
}

int driver_share_map(struct driver *d, int fd, uint64_t *bytes, uint64_t *address)
{
	CUdeviceptr p = 0;
	uint64_t grain = 0;
	int r = driver_enter(d);

	*address = 0;
	if (r)
		return r;
	r = share_round(d, bytes, &grain);
	if (r == 0)
		r = share_import(d, fd, *bytes, grain, &p);
	if (r == 0)
		*address = p;
	return driver_leave(d, r);
}

int driver_share_unmap(struct driver *d, uint64_t address, uint64_t bytes)
{
	int r = driver_enter(d);

	if (r)
		return r;
	r = driver_check(d, d->api.cuMemUnmap(address, bytes), "cuMemUnmap(0x%llx)", ULL(address));
	if (r == 0)
		r = driver_check(d, d->api.cuMemAddressFree(address, bytes), "cuMemAddressFree(0x%llx)", ULL(address));
	return driver_leave(d, r);
}
