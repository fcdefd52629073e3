/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_pool.h - blocks of a cache: which page holds which content, and who refers to it
 *
 * As engines have one: a block is found again by the hash of its content, is
 * referred to by sequences, and stays when nobody does, until its page is needed.
 * It knows nothing of brokers: pages come and go as numbers.
 */
#ifndef SWAKV_TESTS_BLOCK_POOL_H
#define SWAKV_TESTS_BLOCK_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum { BLOCKS_MOST = 8192, BLOCK_BUCKETS = 1024 };

struct block {
	int32_t page; /* -1: this place is empty */
	uint32_t refs;
	uint32_t hash; /* 0: its page has no content */
	TAILQ_ENTRY(block) idle;
	LIST_ENTRY(block) bucket;
};

struct block_pool {
	struct block blocks[BLOCKS_MOST];
	TAILQ_HEAD(idle_blocks, block) idle; /* nothing refers to them: without content first, then the longest idle */
	LIST_HEAD(, block) buckets[BLOCK_BUCKETS];
	uint32_t n, n_idle, n_used; /* places up to n_used have been in use */
};

void block_pool_init(struct block_pool *p);
/* A page more, without content. False: there is no place. */
bool block_pool_add(struct block_pool *p, int32_t page);
/* The block with this content; NULL: none. */
struct block *block_find(struct block_pool *p, uint32_t hash);
void block_ref(struct block_pool *p, struct block *b);
void block_unref(struct block_pool *p, struct block *b);
/* A block for new content, referred to once: the longest idle one. NULL: all are referred to. */
struct block *block_get(struct block_pool *p, uint32_t hash);
/* It has a page with an id in [@first, @end). */
bool block_pool_has_range(const struct block_pool *p, int32_t first, int32_t end);
/* Up to @n pages that nothing refers to leave the pool, the longest idle first; how many. */
uint32_t block_pool_yield(struct block_pool *p, uint32_t n, int32_t *pages);
/* The same of those with ids in [@first, @end). */
uint32_t block_pool_yield_range(struct block_pool *p, int32_t first, int32_t end, uint32_t n, int32_t *pages);

#endif
