/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share.c - memory that a file descriptor names: create, export, import, map
 *
 * The descriptor is that of a memfd with one page behind the bytes that tells it
 * from other files. Making and exporting need no context, mapping does. What is
 * reserved or mapped without access set is out of reach for the device. No
 * legacy handle can be made of it: cuIpcGetMemHandle() does not know the
 * address. The exported descriptor is inherited by exec(), as far as the fake is
 * concerned: whoever wants it closed says so.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocks.h"
#include "fake.h"

static const char magic[] = "fakecuda shared memory";

/* Handles are addresses of these. */
struct fake_share {
	LIST_ENTRY(fake_share) link;
	int fd;
	uint64_t bytes;
	uint64_t charged; /* of the device's memory, to this process */
	unsigned n_handles, n_mappings;
};

static LIST_HEAD(, fake_share) shares = LIST_HEAD_INITIALIZER(shares); /* under fake_memory_lock */

static struct fake_share *share_find(CUmemGenericAllocationHandle handle)
{
	struct fake_share *s;

	LIST_FOREACH (s, &shares, link) {
		if ((CUmemGenericAllocationHandle)(uintptr_t)s == handle && s->n_handles > 0)
			return s;
	}
	return NULL;
}

static struct fake_share *share_new(int fd, uint64_t bytes, uint64_t charged)
{
	struct fake_share *s = calloc(1, sizeof(*s));

	if (!s)
		fake_die("out of memory");
	*s = (struct fake_share){ .fd = fd, .bytes = bytes, .charged = charged, .n_handles = 1 };
	fake_allocated += charged;
	LIST_INSERT_HEAD(&shares, s, link);
	return s;
}

static void share_settle(struct fake_share *s)
{
	if (s->n_handles || s->n_mappings)
		return;
	fake_allocated -= s->charged;
	LIST_REMOVE(s, link);
	close(s->fd);
	free(s);
}

/* ---- making and passing on --------------------------------------------------- */

static bool prop_is_valid(const CUmemAllocationProp *p)
{
	return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       p->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	       p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id >= 0;
}

FAKE_API CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
							CUmemAllocationGranularity_flags option)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);

	if (r)
		return r;
	if (!prop_is_valid(prop))
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = FAKE_GRAIN;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
				      const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);
	int fd;

	if (r)
		return r;
	if (!prop_is_valid(prop) || flags || bytes == 0 || bytes % FAKE_GRAIN != 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_memory_lock);
	if (bytes > fake_number("FAKECUDA_MEMORY", 8ull << 30) - fake_allocated) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		fd = memfd_create("fakecuda-share", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)(bytes + FAKE_NOTE_BYTES)) != 0 ||
		    pwrite(fd, magic, sizeof(magic), (off_t)bytes) != sizeof(magic))
			fake_die("memfd of %zu bytes: %s", bytes, strerror(errno));
		*handle = (CUmemGenericAllocationHandle)(uintptr_t)share_new(fd, bytes, bytes);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);
	struct fake_share *s;

	if (r)
		return r;
	pthread_mutex_lock(&fake_memory_lock);
	s = share_find(handle);
	if (s) {
		s->n_handles--;
		share_settle(s);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
						       CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult r = fake_enter(__func__, FAKE_INITIALIZED, NULL);
	struct fake_share *s;
	int fd = -1;

	if (r)
		return r;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_memory_lock);
	s = share_find(handle);
	if (s)
		fd = dup(s->fd);
	pthread_mutex_unlock(&fake_memory_lock);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(out, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *from,
							 CUmemAllocationHandleType type)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	int fd = (int)(intptr_t)from;
	char found[sizeof(magic)] = "";
	struct stat st;

	if (r)
		return r;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &st) != 0 || st.st_size <= FAKE_NOTE_BYTES ||
	    pread(fd, found, sizeof(found), st.st_size - FAKE_NOTE_BYTES) != sizeof(found) ||
	    memcmp(found, magic, sizeof(magic)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	fd = dup(fd);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	pthread_mutex_lock(&fake_memory_lock);
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)share_new(fd, (uint64_t)st.st_size - FAKE_NOTE_BYTES, 0);
	pthread_mutex_unlock(&fake_memory_lock);
	return CUDA_SUCCESS;
}

/* ---- addresses ------------------------------------------------------------------ */

/* The reserved range that is exactly this one. Under the lock. */
static struct fake_block *range_find(CUdeviceptr p, size_t bytes)
{
	struct fake_block *b;

	LIST_FOREACH (b, &fake_blocks, link) {
		if ((b->kind == FAKE_RESERVED || b->kind == FAKE_MAPPED) && b->host == fake_to_host(p) &&
		    b->bytes == bytes)
			return b;
	}
	return NULL;
}

FAKE_API CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *p, size_t bytes, size_t alignment, CUdeviceptr wish,
					      unsigned long long flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;
	void *host;

	if (r)
		return r;
	if (bytes == 0 || bytes % FAKE_GRAIN != 0 || wish || flags)
		return CUDA_ERROR_INVALID_VALUE;
	host = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	b = calloc(1, sizeof(*b));
	if (host == MAP_FAILED || !b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct fake_block){ .kind = FAKE_RESERVED, .host = host, .bytes = bytes, .fd = -1 };
	pthread_mutex_lock(&fake_memory_lock);
	LIST_INSERT_HEAD(&fake_blocks, b, link);
	pthread_mutex_unlock(&fake_memory_lock);
	*p = fake_to_device(host);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	pthread_mutex_lock(&fake_memory_lock);
	b = range_find(p, bytes);
	if (b && b->share)
		fake_die("the addresses at 0x%llx are freed while memory is mapped there", (unsigned long long)p);
	if (b) {
		LIST_REMOVE(b, link);
		munmap(b->host, b->bytes);
		free(b);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
				   unsigned long long flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_share *s;
	struct fake_block *b;

	if (r)
		return r;
	pthread_mutex_lock(&fake_memory_lock);
	s = share_find(handle);
	b = range_find(p, bytes);
	if (!s || !b || b->share || offset || flags || bytes > s->bytes) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (mmap(b->host, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, s->fd, 0) == MAP_FAILED) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		b->share = s;
		s->n_mappings++;
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	if (n != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_memory_lock);
	b = range_find(p, bytes);
	if (!b || !b->share || mprotect(b->host, bytes, PROT_READ | PROT_WRITE) != 0)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		b->kind = FAKE_MAPPED;
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&fake_memory_lock);
	b = range_find(p, bytes);
	if (!b || !b->share ||
	    mmap(b->host, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
		    MAP_FAILED) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else {
		b->kind = FAKE_RESERVED;
		b->share->n_mappings--;
		share_settle(b->share);
		b->share = NULL;
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}
