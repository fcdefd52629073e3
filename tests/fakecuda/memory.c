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

#include "fake.h"

#define GRAIN         (2ull << 20)
#define NOTE_BYTES    4096
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
_Static_assert(sizeof(struct note) <= NOTE_BYTES, "note");

struct handle {
	uint64_t magic;
	uint64_t id;
	uint64_t bytes;
	uint32_t pid;
	int32_t fd;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "handle");

enum kind { OWNED, IMPORTED, REGISTERED };

struct block {
	LIST_ENTRY(block) link;
	enum kind kind;
	char *host;
	uint64_t bytes;  /* as asked for */
	uint64_t mapped; /* without the note */
	int fd;
	unsigned n_opens;
	struct note *note;
};

static LIST_HEAD(, block) blocks = LIST_HEAD_INITIALIZER(blocks);
static uint64_t allocated;
static uint64_t closed[64]; /* addresses of imports that were closed: a second close is told from a wrong address */
static size_t n_closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t to_device(const void *host)
{
	return (uint64_t)(uintptr_t)host | FAKE_TAG;
}

static void *to_host(uint64_t device)
{
	return (void *)(uintptr_t)(device & ~FAKE_TAG);
}

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
static struct block *block_at(const void *host, enum kind kind)
{
	struct block *b;

	LIST_FOREACH (b, &blocks, link) {
		if (b->host == host && b->kind == kind)
			return b;
	}
	return NULL;
}

void *fake_reach(uint64_t device, uint64_t bytes)
{
	char *host = to_host(device);
	struct block *b;
	bool found = false;

	if (!(device & FAKE_TAG))
		return NULL;
	pthread_mutex_lock(&lock);
	LIST_FOREACH (b, &blocks, link) {
		if (host >= b->host && (uint64_t)(host - b->host) <= b->bytes &&
		    bytes <= b->bytes - (uint64_t)(host - b->host)) {
			found = true;
			break;
		}
	}
	if (found && b->kind == IMPORTED && b->note->freed)
		fake_die("use after free: the exporter has freed the memory at 0x%llx", (unsigned long long)device);
	pthread_mutex_unlock(&lock);
	return found ? host : NULL;
}

/* Maps @fd, @bytes and the note behind them, as a new block. Under the lock. NULL: no memory. */
static struct block *block_map(enum kind kind, int fd, uint64_t bytes)
{
	struct block *b = calloc(1, sizeof(*b));
	void *p;

	if (!b)
		return NULL;
	b->kind = kind;
	b->bytes = bytes;
	b->mapped = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	b->fd = fd;
	b->n_opens = 1;
	p = mmap(NULL, b->mapped + NOTE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(b);
		return NULL;
	}
	b->host = p;
	b->note = (struct note *)(b->host + b->mapped);
	LIST_INSERT_HEAD(&blocks, b, link);
	return b;
}

static void block_unmap(struct block *b)
{
	LIST_REMOVE(b, link);
	munmap(b->host, b->mapped + NOTE_BYTES);
	close(b->fd);
	free(b);
}

/* ---- device memory ------------------------------------------------------------------ */

FAKE_API CUresult CUDAAPI cuMemGetInfo(size_t *free_bytes, size_t *total)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	*total = fake_number("FAKECUDA_MEMORY", 8ull << 30);
	pthread_mutex_lock(&lock);
	*free_bytes = *total - allocated;
	pthread_mutex_unlock(&lock);
	return r;
}

static CUresult allocate(CUdeviceptr *p, uint64_t bytes)
{
	uint64_t mapped = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	struct block *b;
	int fd;

	if (bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (mapped < bytes || mapped > fake_number("FAKECUDA_MEMORY", 8ull << 30) - allocated)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)(mapped + NOTE_BYTES)) != 0)
		fake_die("memfd of %llu bytes: %s", (unsigned long long)mapped, strerror(errno));
	b = block_map(OWNED, fd, bytes);
	if (!b) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (getrandom(&b->note->id, sizeof(b->note->id), 0) != sizeof(b->note->id))
		fake_die("getrandom: %s", strerror(errno));
	allocated += mapped;
	*p = to_device(b->host);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	r = allocate(p, bytes);
	pthread_mutex_unlock(&lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemFree(CUdeviceptr p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct block *b;
	uint32_t pid;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&lock);
	b = block_at(to_host(p), OWNED);
	if (b) {
		b->note->freed = 1;
		pid = live_importer(b->note);
		if (pid)
			fake_die("memory at 0x%llx is freed while process %u has it open", (unsigned long long)p, pid);
		allocated -= b->mapped;
		block_unmap(b);
	}
	pthread_mutex_unlock(&lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- IPC ------------------------------------------------------------------------------- */

FAKE_API CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct handle h = { .magic = MAGIC, .pid = (uint32_t)getpid() };
	struct block *b;

	if (r)
		return r;
	pthread_mutex_lock(&lock);
	b = block_at(to_host(p), OWNED);
	if (b) {
		h.id = b->note->id;
		h.bytes = b->bytes;
		h.fd = b->fd;
		memset(handle, 0, sizeof(*handle));
		memcpy(handle, &h, sizeof(h));
	}
	pthread_mutex_unlock(&lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Opens what *@h names. Under the lock. */
static CUresult import(CUdeviceptr *p, const struct handle *h)
{
	struct block *b;
	char path[64];
	int fd;

	LIST_FOREACH (b, &blocks, link) {
		if (b->kind == IMPORTED && b->note->id == h->id) {
			b->n_opens++;
			*p = to_device(b->host);
			return CUDA_SUCCESS;
		}
	}
	snprintf(path, sizeof(path), "/proc/%u/fd/%d", h->pid, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_HANDLE;
	b = block_map(IMPORTED, fd, h->bytes);
	if (!b || b->note->id != h->id || b->note->freed) {
		if (b)
			block_unmap(b);
		else
			close(fd);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	sign_in(b->note);
	*p = to_device(b->host);
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
	pthread_mutex_lock(&lock);
	r = import(p, &h);
	pthread_mutex_unlock(&lock);
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
	struct block *b;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&lock);
	b = block_at(to_host(p), IMPORTED);
	if (!b && was_closed(p))
		fake_die("the import at 0x%llx is closed twice", (unsigned long long)p);
	if (b && --b->n_opens == 0) {
		sign_out(b->note);
		block_unmap(b);
		closed[n_closed++ % (sizeof(closed) / sizeof(closed[0]))] = p;
	}
	pthread_mutex_unlock(&lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- registered host memory --------------------------------------------------------------- */

static bool overlaps_registered(const char *p, uint64_t bytes)
{
	struct block *b;

	LIST_FOREACH (b, &blocks, link) {
		if (b->kind == REGISTERED && p < b->host + b->bytes && b->host < p + bytes)
			return true;
	}
	return false;
}

FAKE_API CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct block *b;

	if (r)
		return r;
	if (!p || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (overlaps_registered(p, bytes)) {
		r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	} else if ((b = calloc(1, sizeof(*b))) == NULL) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		b->kind = REGISTERED;
		b->host = p;
		b->bytes = bytes;
		b->fd = -1;
		LIST_INSERT_HEAD(&blocks, b, link);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

FAKE_API CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *device, void *p, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	if (!fake_reach(to_device(p), 1))
		return CUDA_ERROR_INVALID_VALUE;
	*device = to_device(p);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	struct block *b;

	if (r)
		return r;
	fake_drain();
	pthread_mutex_lock(&lock);
	b = block_at(p, REGISTERED);
	if (b) {
		/* Pinned memory that was unmapped first is what error 712 is about. */
		unsigned char resident;

		if (mincore((void *)((uintptr_t)p & ~4095ull), 1, &resident) != 0)
			r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
		LIST_REMOVE(b, link);
		free(b);
	}
	pthread_mutex_unlock(&lock);
	return b ? r : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
