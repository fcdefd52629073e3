/* SPDX-License-Identifier: Apache-2.0 */
/* page_chain.h - leased pages of one group on their way out, in order */
#ifndef SWAKV_ENGINE_PAGE_CHAIN_H
#define SWAKV_ENGINE_PAGE_CHAIN_H

#include "page_class.h"
#include "wire.h"

struct session;
struct group;

/* Chained by the class's link; grown at its end so that the order is kept. */
struct page_chain {
	int32_t first, last;
	int32_t n;
};
#define PAGE_CHAIN_EMPTY ((struct page_chain){ -1, -1, 0 })

/* One chain a group; those of groups that the session lacks are not looked at. */
struct page_chains {
	struct page_chain of[WIRE_MAX_GROUPS];
};

/* Appends @page, marked with @owner (a sequence index, or -1). */
static inline void page_chain_add(struct page_class *c, struct page_chain *chain, int32_t page, int32_t owner)
{
	c->link[page] = -1;
	c->owner[page] = owner;
	if (chain->n++ == 0)
		chain->first = page;
	else
		c->link[chain->last] = page;
	chain->last = page;
}

/* Moves all of @from to the end of @chain. Both are of one group. */
void page_chain_append(struct page_class *c, struct page_chain *chain, const struct page_chain *from);
/* Every page of @chain returns to the class of @g. */
void page_chain_return(struct session *s, struct group *g, const struct page_chain *chain);

/* The @n leased pages go to @chain, in their order, or, when that is NULL, back to the class of @g. */
void pages_out(struct session *s, struct group *g, const int32_t *pages, int32_t n, struct page_chain *chain);

/* All are empty. */
static inline void page_chains_init(struct page_chains *c, uint32_t n_groups)
{
	for (uint32_t i = 0; i < n_groups; i++)
		c->of[i] = PAGE_CHAIN_EMPTY;
}
/* Pages on all chains. */
int64_t page_chains_count(const struct page_chains *c, uint32_t n_groups);

#endif
