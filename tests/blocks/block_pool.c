/* SPDX-License-Identifier: Apache-2.0 */
/* block_pool.c - see block_pool.h */
#include "block_pool.h"

#include <stdio.h>
#include <stdlib.h>

void block_pool_init(struct block_pool *p)
{
	*p = (struct block_pool){ 0 };
	TAILQ_INIT(&p->idle);
	for (int i = 0; i < BLOCK_BUCKETS; i++)
		LIST_INIT(&p->buckets[i]);
}

static void forget_content(struct block *b)
{
	if (b->hash)
		LIST_REMOVE(b, bucket);
	b->hash = 0;
}

static struct block *empty_place(struct block_pool *p)
{
	if (p->n_used < BLOCKS_MOST)
		return &p->blocks[p->n_used++];
	for (int i = 0; i < BLOCKS_MOST; i++)
		if (p->blocks[i].page < 0)
			return &p->blocks[i];
	return NULL;
}

bool block_pool_add(struct block_pool *p, int32_t page)
{
	struct block *b = empty_place(p);

	if (!b)
		return false;
	*b = (struct block){ .page = page };
	TAILQ_INSERT_HEAD(&p->idle, b, idle);
	p->n_idle++;
	p->n++;
	return true;
}

struct block *block_find(struct block_pool *p, uint32_t hash)
{
	struct block *b;

	LIST_FOREACH (b, &p->buckets[hash % BLOCK_BUCKETS], bucket)
		if (b->hash == hash)
			return b;
	return NULL;
}

void block_ref(struct block_pool *p, struct block *b)
{
	if (b->refs++ == 0) {
		TAILQ_REMOVE(&p->idle, b, idle);
		p->n_idle--;
	}
}

void block_unref(struct block_pool *p, struct block *b)
{
	if (b->refs == 0) {
		fprintf(stderr, "block_engine: page %d: nothing refers to it\n", b->page);
		abort();
	}
	if (--b->refs == 0) {
		TAILQ_INSERT_TAIL(&p->idle, b, idle);
		p->n_idle++;
	}
}

struct block *block_get(struct block_pool *p, uint32_t hash)
{
	struct block *b = TAILQ_FIRST(&p->idle);

	if (!b)
		return NULL;
	block_ref(p, b);
	forget_content(b);
	b->hash = hash;
	LIST_INSERT_HEAD(&p->buckets[hash % BLOCK_BUCKETS], b, bucket);
	return b;
}

/* The idle block @b leaves the pool; its page. */
static int32_t yield(struct block_pool *p, struct block *b)
{
	int32_t page = b->page;

	TAILQ_REMOVE(&p->idle, b, idle);
	forget_content(b);
	b->page = -1;
	p->n_idle--;
	p->n--;
	return page;
}

bool block_pool_has_range(const struct block_pool *p, int32_t first, int32_t end)
{
	for (uint32_t i = 0; i < p->n_used; i++)
		if (p->blocks[i].page >= first && p->blocks[i].page < end)
			return true;
	return false;
}

uint32_t block_pool_yield(struct block_pool *p, uint32_t n, int32_t *pages)
{
	struct block *b;
	uint32_t count = 0;

	while (count < n && (b = TAILQ_FIRST(&p->idle)))
		pages[count++] = yield(p, b);
	return count;
}

uint32_t block_pool_yield_range(struct block_pool *p, int32_t first, int32_t end, uint32_t n, int32_t *pages)
{
	struct block *b = TAILQ_FIRST(&p->idle), *next;
	uint32_t count = 0;

	for (; b && count < n; b = next) {
		next = TAILQ_NEXT(b, idle);
		if (b->page >= first && b->page < end)
			pages[count++] = yield(p, b);
	}
	return count;
}
