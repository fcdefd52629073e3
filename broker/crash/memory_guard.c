/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_guard.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "status_page.h"

enum { PLACES = STATUS_MAX_SESSIONS + 8 };

/* `end` is stored last and cleared first: a place with an end is whole. */
static struct place {
	shm_u64 end; /* 0: free */
	uintptr_t begin;
	shm_u32 *lost;
} places[PLACES];

bool memory_guard_add(void *region, size_t bytes, shm_u32 *lost)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *p = &places[i];

		if (load_relaxed(&p->end))
			continue;
		p->begin = (uintptr_t)region;
		p->lost = lost;
		store_release(&p->end, (uintptr_t)region + bytes); /* pairs with memory_guard_catch() */
		return true;
	}
	return false;
}

void memory_guard_remove(const void *region)
{
	for (int i = 0; i < PLACES; i++)
		if (load_relaxed(&places[i].end) && places[i].begin == (uintptr_t)region)
			store_relaxed(&places[i].end, 0);
}

bool memory_guard_catch(const void *address)
{
	uintptr_t at = (uintptr_t)address, page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < PLACES; i++) {
		struct place *p = &places[i];

		if (at >= load_acquire(&p->end) || at < p->begin) /* pairs with memory_guard_add() */
			continue;
		if (mmap((void *)(at / page * page), page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return false;
		store_relaxed(p->lost, 1);
		return true;
	}
	return false;
}
