/* SPDX-License-Identifier: Apache-2.0 */
/* sequences.c - sequences whose blocks are found again, or made (plan.h) */
#include "plan.h"

enum {
	FAMILIES = 5, /* beginnings that sequences share */
	AT_ONCE = 16, /* pages that it takes for a miss */
};

static void end_lane(struct plan *e, struct lane *l)
{
	while (l->n > 0)
		block_unref(&e->pool, l->blocks[--l->n]);
}

/* A block for new content, from a page that is free, or from what is cached. */
static struct block *make_block(struct plan *e, uint32_t hash)
{
	struct block *first = TAILQ_FIRST(&e->pool.idle);

	if ((!first || first->hash) && e->pool.n < e->most && swakv_pages_takeable(e->session, 0) > 0)
		(void)plan_take_free(e, AT_ONCE);
	return block_get(&e->pool, hash);
}

/* Finds or makes the blocks of a new sequence; *@n_found of them, the first ones, are old. False: too few pages. */
static bool fill_lane(struct plan *e, struct lane *l, uint32_t *n_found)
{
	uint32_t family = plan_draw(e, FAMILIES), n = 1 + plan_draw(e, LONGEST), shared = plan_draw(e, n + 1);

	for (uint32_t i = 0; i < shared; i++) {
		struct block *b = block_find(&e->pool, plan_mix(family + 2, i));

		if (!b)
			break;
		block_ref(&e->pool, b);
		l->blocks[l->n++] = b;
	}
	*n_found = l->n;
	while (l->n < n) {
		struct block *b = make_block(e, l->n < shared ? plan_mix(family + 2, l->n) : plan_new_content(e));

		if (!b)
			return false;
		l->blocks[l->n++] = b;
	}
	return true;
}

static void batch_of(struct plan *e, const struct lane *l, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		e->batch[i - from] = (struct hands_page){ l->blocks[i]->page, l->blocks[i]->hash };
}

static void step(struct plan *e)
{
	struct lane *l = &e->lanes[e->n_steps++ % LANES];
	uint32_t n_found;
	bool whole;

	end_lane(e, l);
	whole = fill_lane(e, l, &n_found);
	batch_of(e, l, 0, n_found);
	plan_order(e, HANDS_CHECK, n_found);
	batch_of(e, l, n_found, l->n);
	plan_order(e, HANDS_WRITE, l->n - n_found);
	e->n_found += n_found;
	e->n_written += l->n - n_found;
	if (!whole)
		end_lane(e, l);
	plan_offer(e);
	plan_yield(e);
}

void sequences_run(struct plan *e, void (*began)(void))
{
	step(e);
	began();
	while (!plan_line_waits())
		step(e);
	for (int i = 0; i < LANES; i++)
		end_lane(e, &e->lanes[i]);
	plan_offer(e);
}
