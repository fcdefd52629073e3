/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - see engine.h: the pool, and all its sessions */
#include "engine.h"

#include <stdlib.h>

#include "admission.h"
#include "bug.h"
#include "slice.h"

struct engine *engine_new(const struct engine_config *config)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	LIST_INIT(&e->sessions);
	TAILQ_INIT(&e->quotas);
	TAILQ_INIT(&e->waits);
	TAILQ_INIT(&e->refused);
	TAILQ_INIT(&e->claims);
	if (pool_init(&e->pool, config->half_bytes, config->extent_bytes) < 0)
		return engine_free(e);
	e->pool.scrub = config->scrub;
	e->pool.fresh_is_dirty = config->fresh_is_dirty;
	slice_init(&e->slice, ENGINE_SLICE);
	e->stamps_a_ms = config->stamps_a_ms ? config->stamps_a_ms : 1;
	e->wait_claim = config->wait_claim;
	e->claim_hold = config->claim_hold;
	e->claim_max = config->claim_max;
	return e;
}

struct engine *engine_free(struct engine *e)
{
	struct quota *q;

	if (!e)
		return NULL;
	MUST(LIST_EMPTY(&e->sessions));
	while ((q = TAILQ_FIRST(&e->quotas))) {
		q->floor = q->ceiling = 0;
		quota_drop(e, q);
	}
	pool_deinit(&e->pool);
	free(e);
	return NULL;
}

void engine_stamp(struct engine *e, uint64_t stamp)
{
	e->stamp = stamp;
}

uint32_t engine_trim(struct engine *e, uint32_t budget)
{
	int32_t n;

	if (e->n_claims)
		return 0; /* free pages that are kept stay where they are */
	n = pool_trim(&e->pool, budget > INT32_MAX ? INT32_MAX : (int32_t)budget);

	if (n > 0)
		e->retry = true; /* what fits is found class by class: it may be more now */
	return (uint32_t)n;
}

void engine_count(const struct engine *e, struct engine_counts *out)
{
	const struct pool *p = &e->pool;
	uint64_t lent = (uint64_t)(p->n_extents - p->n_unassigned) * p->extent_bytes,
		 last = p->half_bytes % p->extent_bytes, held = 0;

	if (last && p->extent_class[p->n_extents - 1] >= 0)
		lent -= p->extent_bytes - last; /* the last one is short */
	lent *= 2;
	for (int32_t i = 0; i < p->n_classes; i++)
		held += (uint64_t)p->classes[i]->n_usable * page_class_whole(p->classes[i]);
	*out = (struct engine_counts){ .total = 2 * p->half_bytes,
				       .held = held,
				       .free = 2 * p->half_bytes - lent,
				       .unusable = lent - held,
				       .extent_bytes = p->extent_bytes,
				       .n_classes = (uint32_t)p->n_classes };
}

int32_t engine_extent_class(const struct engine *e, uint32_t extent)
{
	return extent < (uint32_t)e->pool.n_extents ? e->pool.extent_class[extent] : -1;
}

bool engine_class_count(const struct engine *e, uint32_t index, struct class_counts *out)
{
	/* The cache of available pages is the engine's own business: it changes nothing that can be seen. */
	struct engine *cached = (struct engine *)e;
	const struct pool *p = &e->pool;
	const struct page_class *c;

	if (index >= (uint32_t)p->n_classes)
		return false;
	c = p->classes[index];
	*out = (struct class_counts){ .page_bytes = c->page_bytes,
				      .joined = c->key.joined,
				      .pages = c->n_usable,
				      .free = c->n_free + c->n_withheld,
				      .leased = c->n_leased,
				      .quarantined = c->n_quarantined,
				      .available = engine_available(cached, index),
				      .num_pages = c->num_pages,
				      .extents = (uint32_t)c->n_extents,
				      .empty = (uint32_t)c->n_empty,
				      .sessions = (uint32_t)c->n_sessions };
	return true;
}
