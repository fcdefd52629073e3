/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h - what the files of the fake driver's memory share: the list of all that the device can reach */
#ifndef FAKECUDA_BLOCKS_H
#define FAKECUDA_BLOCKS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fake.h"

#define FAKE_GRAIN      (2ull << 20)
#define FAKE_NOTE_BYTES 4096

struct note;
struct fake_share;

enum fake_block_kind {
	FAKE_OWNED,
	FAKE_IMPORTED,
	FAKE_REGISTERED,
	FAKE_RESERVED, /* addresses alone, or a mapping without access */
	FAKE_MAPPED,   /* of a share, with access */
};

struct fake_block {
	LIST_ENTRY(fake_block) link;
	enum fake_block_kind kind;
	char *host;
	uint64_t bytes;  /* as asked for */
	uint64_t mapped; /* without the note */
	int fd;
	unsigned n_opens;
	struct note *note;
	struct fake_share *share; /* mapped here; NULL: nothing is */
};
LIST_HEAD(fake_block_list, fake_block);

/* All under the lock. */
extern struct fake_block_list fake_blocks;
extern uint64_t fake_allocated;
extern pthread_mutex_t fake_memory_lock;

static inline uint64_t fake_to_device(const void *host)
{
	return (uint64_t)(uintptr_t)host | FAKE_TAG;
}

static inline void *fake_to_host(uint64_t device)
{
	return (void *)(uintptr_t)(device & ~FAKE_TAG);
}

#endif
