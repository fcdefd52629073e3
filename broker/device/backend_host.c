/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_host.c - a pool in host memory: a sealed memfd that every worker maps
 *
 * All of it is allocated at the start. Asking the kernel for more than there is
 * ends in the OOM killer rather than an error, so the size is held against what
 * is free before anything is touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend.h"
#include "cleanup.h"
#include "process/process.h"
#include "process/sealed_memfd.h"
#include "size.h"

static int host_open(void **state, const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY])
{
	(void)c;
	(void)why;
	*state = NULL;
	pool->backend = WIRE_BACKEND_HOST;
	snprintf(pool->device, sizeof(pool->device), "host memory");
	return 0;
}

/* A number alone in a file, UINT64_MAX when there is none ("max"). */
static uint64_t read_number(const char *path)
{
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	uint64_t n;

	return f && fscanf(f, "%" SCNu64, &n) == 1 ? n : UINT64_MAX;
}

/* What the kernel says is available, no more than the memory limit of a container leaves. */
static int host_free_bytes(void *state, uint64_t *bytes, char why[BACKEND_WHY])
{
	AUTO_FCLOSE FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = 0, limit, used;
	char line[128];

	(void)state;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	if (kib == 0) {
		snprintf(why, BACKEND_WHY, "/proc/meminfo does not say how much memory is available");
		return EXIT_CODE_BACKEND;
	}
	*bytes = kib * 1024;
	limit = read_number("/sys/fs/cgroup/memory.max");
	used = read_number("/sys/fs/cgroup/memory.current");
	if (limit != UINT64_MAX && used != UINT64_MAX && *bytes > (limit > used ? limit - used : 0))
		*bytes = limit > used ? limit - used : 0;
	return 0;
}

static int host_alloc(void *state, struct backend_pool *pool, char why[BACKEND_WHY])
{
	char want[SIZE_TEXT], have[SIZE_TEXT];
	unsigned char *map = NULL;
	uint64_t free_bytes;
	int r = host_free_bytes(state, &free_bytes, why);

	if (r)
		return r;
	if (pool->bytes > free_bytes) {
		snprintf(why, BACKEND_WHY,
			 "the pool of %s does not fit the free memory of %s: give a smaller size, or a percentage",
			 size_text(pool->bytes, want), size_text(free_bytes, have));
		return EXIT_CODE_POOL;
	}
	r = sealed_memfd("swakv-pool", pool->bytes, F_SEAL_SEAL, &map);
	if (r < 0) {
		snprintf(why, BACKEND_WHY, "the pool of %s could not be allocated: %s (%s are free)",
			 size_text(pool->bytes, want), process_error(-r), size_text(free_bytes, have));
		return EXIT_CODE_POOL;
	}
	munmap(map, pool->bytes); /* the broker itself never looks into the pool */
	pool->fd = r;
	pool->export_kind = WIRE_EXPORT_MEMFD;
	return 0;
}

static void host_release(void *state, struct backend_pool *pool)
{
	(void)state;
	close_fd(&pool->fd);
}

static void host_close(void *state)
{
	(void)state;
}

const struct backend_ops backend_host = {
	.name = "host",
	.open = host_open,
	.free_bytes = host_free_bytes,
	.alloc = host_alloc,
	.release = host_release,
	.close = host_close,
};
