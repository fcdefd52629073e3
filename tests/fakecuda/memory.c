/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - allocations, imports and registered host memory
 *
 * An allocation is a memfd: the bytes, rounded to 2 MiB, and one page behind
 * them with what both sides must know of each other: whether the exporter has
 * freed it, and which processes (pid and start time, since pids come again) have
 * it open. The handle names the exporter's pid and fd; an importer opens
 * /proc/PID/fd/FD, which fails once the exporter is gone, as the real call does.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blocks.h"
#include "fake.h"

#define MAGIC         0x61647563656b6166ull
#define MAX_IMPORTERS 128

struct importer {
	_Atomic uint32_t pid; /* 0: free */
	_Atomic uint64_t start;
};

/* Behind the bytes, shared by exporter and importers. */
struct note {
	uint64_t id;
	_Atomic uint32_t freed;
	struct importer importers[MAX_IMPORTERS];
};
_Static_assert(sizeof(struct note) <= FAKE_NOTE_BYTES, "note");

struct handle {
	uint64_t magic;
	uint64_t id;
	uint64_t bytes;
	uint32_t pid;
	int32_t fd;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "handle");

struct fake_block_list fake_blocks = LIST_HEAD_INITIALIZER(fake_blocks);
uint64_t fake_allocated;
pthread_mutex_t fake_memory_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t closed[64]; /* addresses of imports that were closed: a second close is told from a wrong address */
static size_t n_closed;

/* ---- who is alive ------------------------------------------------------------- */

/* Start time of @pid in clock ticks; 0 when it has ended (a zombie has, too: it maps nothing). */
static uint64_t start_time(uint32_t pid)
{
	char path[32], text[1024], state, *p;
	unsigned long long start = 0;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			 &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

/* The pid of a live process that has *@note's memory open, 0: none. */
static uint32_t live_importer(struct note *note)
{
	for (size_t i = 0; i < MAX_IMPORTERS; i++) {
		uint32_t pid = note->importers[i].pid;

		if (pid && pid != (uint32_t)getpid() && note->importers[i].start == start_time(pid))
			return pid;
	}
	return 0;
}

static void sign_in(struct note *note)
{
	for (size_t i = 0; i < MAX_IMPORTERS; i++) {
		uint32_t pid = note->importers[i].pid;

		if (pid && note->importers[i].start == start_time(pid))
			continue;
		if (atomic_compare_exchange_strong(&note->importers[i].pid, &pid, (uint32_t)getpid())) {
			note->importers[i].start = start_time((uint32_t)getpid());
			return;
		}
	}
	fake_die("more than %d processes import one allocation", MAX_IMPORTERS);
}

static void sign_out(struct note *note)
{
	for (size_t i = 0; i < MAX_IMPORTERS; i++) {
		if (note->importers[i].pid == (uint32_t)getpid())
			note->importers[i].pid = 0;
	}
}

/* ---- blocks ---------------------------------------------------------------------- */

/* The block that begins at @host, of one of two kinds. Under the lock. */
static struct fake_block *block_at(const void *host, enum fake_block_kind kind)
{
	struct fake_block *b;

	LIST_FOREACH (b, &fake_blocks, link) {
		if (b->host == host && b->kind == kind)
			return b;
	}
	return NULL;
}

void *fake_reach(uint64_t device, uint64_t bytes)
{
	char *host = fake_to_host(device);
	struct fake_block *b;
	bool found = false;

	if (!(device & FAKE_TAG))
		return NULL;
	pthread_mutex_lock(&fake_memory_lock);
	LIST_FOREACH (b, &fake_blocks, link) {
		if (host >= b->host && (uint64_t)(host - b->host) <= b->bytes &&
		    bytes <= b->bytes - (uint64_t)(host - b->host) && b->kind != FAKE_RESERVED) {
			found = true;
			break;
		}
	}
	if (found && b->kind == FAKE_IMPORTED && b->note->freed)
		fake_die("use after free: the exporter has freed the memory at 0x%llx", (unsigned long long)device);
	pthread_mutex_unlock(&fake_memory_lock);
	return found ? host : NULL;
}

/* Maps @fd, @bytes and the note behind them, as a new block. Under the lock. NULL: no memory. */
static struct fake_block *block_map(enum fake_block_kind kind, int fd, uint64_t bytes)
{
	struct fake_block *b = calloc(1, sizeof(*b));
	void *p;

	if (!b)
		return NULL;
	b->kind = kind;
	b->bytes = bytes;
	b->mapped = (bytes + FAKE_GRAIN - 1) / FAKE_GRAIN * FAKE_GRAIN;
	b->fd = fd;
	b->n_opens = 1;
	p = mmap(NULL, b->mapped + FAKE_NOTE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(b);
		return NULL;
	}
	b->host = p;
	b->note = (struct note *)(b->host + b->mapped);
	LIST_INSERT_HEAD(&fake_blocks, b, link);
	return b;
}

static void block_unmap(struct fake_block *b)
{
	LIST_REMOVE(b, link);
	munmap(b->host, b->mapped + FAKE_NOTE_BYTES);
	close(b->fd);
	free(b);
}

/* ---- device memory ------------------------------------------------------------------ */

FAKE_API CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	*total = fake_number("FAKECUDA_MEMORY", 8ull << 30);
	pthread_mutex_lock(&fake_memory_lock);
	*free_bytes = *total - fake_allocated;
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

static CUresult allocate(CUdeviceptr *p, uint64_t bytes)
{
	uint64_t mapped = (bytes + FAKE_GRAIN - 1) / FAKE_GRAIN * FAKE_GRAIN;
	struct fake_block *b;
	int fd;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (mapped < bytes || mapped > fake_number("FAKECUDA_MEMORY", 8ull << 30) - fake_allocated)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)(mapped + FAKE_NOTE_BYTES)) != 0)
		fake_die("memfd of %llu bytes: %s", (unsigned long long)mapped, strerror(errno));
	b = block_map(FAKE_OWNED, fd, bytes);
	if (!b) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (getrandom(&b->note->id, sizeof(b->note->id), 0) != sizeof(b->note->id))
		fake_die("getrandom: %s", strerror(errno));
	fake_allocated += mapped;
	*p = fake_to_device(b->host);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	pthread_mutex_lock(&fake_memory_lock);
	r = allocate(p, bytes);
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemFree(CUdeviceptr p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;
	uint32_t pid;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&fake_memory_lock);
	b = block_at(fake_to_host(p), FAKE_OWNED);
	if (b) {
		b->note->freed = 1;
		pid = live_importer(b->note);
		if (pid)
			fake_die("memory at 0x%llx is freed while process %u has it open", (unsigned long long)p, pid);
		fake_allocated -= b->mapped;
		block_unmap(b);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- IPC ------------------------------------------------------------------------------- */

FAKE_API CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct handle h = { .magic = MAGIC, .pid = (uint32_t)getpid() };
	const char *name = getenv("FAKECUDA_NAME");
	struct fake_block *b;

	if (r)
		return r;
	/* Neither slices of a GPU nor integrated GPUs have such handles. */
	if ((name && strstr(name, "MIG ")) || fake_number("FAKECUDA_INTEGRATED", 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&fake_memory_lock);
	b = block_at(fake_to_host(p), FAKE_OWNED);
	if (b) {
		h.id = b->note->id;
		h.bytes = b->bytes;
		h.fd = b->fd;
		memset(handle, 0, sizeof(*handle));
		memcpy(handle, &h, sizeof(h));
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Opens what *@h names. Under the lock. */
static CUresult import(CUdeviceptr *p, const struct handle *h)
{
	struct fake_block *b;
	char path[64];
	int fd;

	LIST_FOREACH (b, &fake_blocks, link) {
		if (b->kind == FAKE_IMPORTED && b->note->id == h->id) {
			b->n_opens++;
			*p = fake_to_device(b->host);
			return CUDA_SUCCESS;
		}
	}
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_HANDLE;
	b = block_map(FAKE_IMPORTED, fd, h->bytes);
	if (!b || b->note->id != h->id || b->note->freed) {
		if (b)
			block_unmap(b);
		else
			close(fd);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	sign_in(b->note);
	*p = fake_to_device(b->host);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *p, CUipcMemHandle handle, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct handle h;

	if (r)
		return r;
	memcpy(&h, &handle, sizeof(h));
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || h.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == (uint32_t)getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&fake_memory_lock);
	r = import(p, &h);
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

static bool was_closed(uint64_t device)
{
	for (size_t i = 0; i < n_closed && i < sizeof(closed) / sizeof(closed[0]); i++) {
		if (closed[i] == device)
			return true;
	}
	return false;
}

FAKE_API CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&fake_memory_lock);
	b = block_at(fake_to_host(p), FAKE_IMPORTED);
	if (!b && was_closed(p))
		fake_die("the import at 0x%llx is closed twice", (unsigned long long)p);
	if (b && --b->n_opens == 0) {
		sign_out(b->note);
		block_unmap(b);
		closed[n_closed++ % (sizeof(closed) / sizeof(closed[0]))] = p;
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- registered host memory --------------------------------------------------------------- */

static bool overlaps_registered(const char *p, uint64_t bytes)
{
	struct fake_block *b;

	LIST_FOREACH (b, &fake_blocks, link) {
		if (b->kind == FAKE_REGISTERED && p < b->host + b->bytes && b->host < p + bytes)
			return true;
	}
	return false;
}

FAKE_API CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	if (!p || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_memory_lock);
	if (overlaps_registered(p, bytes)) {
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	} else if ((b = calloc(1, sizeof(*b))) == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		b->kind = FAKE_REGISTERED;
		b->host = p;
		b->bytes = bytes;
		b->fd = -1;
		LIST_INSERT_HEAD(&fake_blocks, b, link);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *device, void *p, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	if (!fake_reach(fake_to_device(p), 1))
		return CUDA_ERROR_INVALID_VALUE;
	*device = fake_to_device(p);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct fake_block *b;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&fake_memory_lock);
	b = block_at(p, FAKE_REGISTERED);
	if (b) {
		/* Pinned memory that was unmapped first is what error 712 is about. */
		unsigned char resident;

		if (mincore((void *)((uintptr_t)p & ~4095ull), 1, &resident) != 0)
			r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
		LIST_REMOVE(b, link);
		free(b);
	}
	pthread_mutex_unlock(&fake_memory_lock);
	return b ? r : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
