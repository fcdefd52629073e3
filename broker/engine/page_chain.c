/* SPDX-License-Identifier: Apache-2.0 */
/* page_chain.c - see page_chain.h */
#include "page_chain.h"

#include "slice.h"

void page_chain_append(struct page_class *c, struct page_chain *chain, const struct page_chain *from)
{
	if (from->n == 0)
		return;
	if (chain->n == 0)
		chain->first = from->first;
	else
		c->link[chain->last] = from->first;
	chain->last = from->last;
	chain->n += from->n;
}

void page_chain_return(struct session *s, struct group *g, const struct page_chain *chain)
{
	int32_t left = slice_part(s, INT32_MAX);

	for (int32_t page = chain->first, next; page >= 0; page = next) {
		next = g->class->link[page];
		page_class_put(g->class, page);
		g->n_held--;
		slice_step(s, &left, SLICE_PUT);
	}
	slice_rest(s, left);
}

void pages_out(struct session *s, struct group *g, const int32_t *pages, int32_t n, struct page_chain *chain)
{
	for (int32_t i = 0, part; i < n; i += part) {
		part = slice_share(s, n - i);
		if (!chain) {
			page_class_put_many(g->class, pages + i, part);
			g->n_held -= part;
		}
		for (int32_t k = i; chain && k < i + part; k++)
			page_chain_add(g->class, chain, pages[k], -1);
		slice_spend(s, part);
	}
}

int64_t page_chains_count(const struct page_chains *c, uint32_t n_groups)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < n_groups; i++)
		n += c->of[i].n;
	return n;
}
