/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incarnation.c - see incarnation.h
 *
 * getpid() is a system call and every library call would need one. Instead one
 * page that the kernel empties in a child (MADV_WIPEONFORK) holds the current
 * incarnation; the number last given out lies in ordinary memory, which the
 * child inherits, so that a child that attaches itself gets a fresh one. The
 * fork handler does the same for kernels without the advice, and keeps the
 * process lock from being inherited in the middle of another thread's use.
 */
#include "incarnation.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
shm_u32 *incarnation_current; /* holds 0 in a child that has not attached */
static uint32_t last;         /* guarded by lock */

static void after_fork_in_child(void)
{
	if (incarnation_current)
		store_relaxed(incarnation_current, 0);
	pthread_mutex_unlock(&lock);
}

static void process_setup(void)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	(void)madvise(p, (size_t)page, MADV_WIPEONFORK); /* else the handler does it */
	if (pthread_atfork(process_lock, process_unlock, after_fork_in_child) != 0) {
		munmap(p, (size_t)page);
		return;
	}
	incarnation_current = p;
}

uint32_t incarnation_get(void)
{
	uint32_t n;

	pthread_once(&once, process_setup);
	if (!incarnation_current)
		return 0;
	process_lock();
	n = load_relaxed(incarnation_current);
	if (n == 0) {
		n = ++last;
		store_relaxed(incarnation_current, n);
	}
	process_unlock();
	return n;
}

void process_lock(void)
{
	pthread_mutex_lock(&lock);
}

void process_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
