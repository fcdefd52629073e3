/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emptying.c - see emptying.h
 *
 * Each movable class notes to which sequence a page was leased last. That is a
 * hint: it tells whether the page can move, and whose request is to look through
 * its pages; what is then moved is found there.
 */
#include "emptying.h"

#include "choice.h"
#include "claim.h"
#include "floor_ceiling.h"
#include "internal.h"
#include "slice.h"

enum { SEQ_BITS = 12 };
_Static_assert(WIRE_MAX_BATCH <= 1 << SEQ_BITS, "a session's sequences have that many numbers");

uint32_t emptying_tenant(const struct session *s, const struct seq *q)
{
	return 1 + (s->tag << SEQ_BITS | (uint32_t)q->index);
}

/* Whose page it is; NULL: nobody's who is known, or it is on its way to its class (@leaves). */
static struct request *tenant_of(const struct engine *e, uint32_t tenant, struct session **of, bool *leaves)
{
	uint32_t tag = (tenant - 1) >> SEQ_BITS, index = (tenant - 1) & ((1u << SEQ_BITS) - 1);
	struct session *s;
	const struct seq *q;

	*leaves = tenant == TENANT_LEAVES;
	if (!tenant || *leaves)
		return NULL;
	LIST_FOREACH (s, &e->sessions, siblings)
		if (s->tag == tag)
			break;
	if (!s || s->ended || index >= (uint32_t)s->model.max_batch)
		return NULL;
	q = &s->seqs[index];
	*of = s;
	*leaves = s->slots[q->slot].seq != q->index;
	return *leaves ? NULL : &s->requests[q->request];
}

/* ---- what can move ------------------------------------------------------------------ */

enum stay { STAY_NOT, STAY_FIXED, STAY_PINNED, STAY_IDLE };

static enum stay page_stay(const struct engine *e, const struct page_class *c, int32_t page)
{
	uint64_t idle = EMPTYING_IDLE_MS * e->stamps_a_ms;
	struct session *s;
	struct request *r;
	bool leaves;

	if (c->state[page] == PAGE_QUARANTINED)
		return STAY_FIXED;
	r = tenant_of(e, c->tenant[page], &s, &leaves);
	if (!r)
		return leaves ? STAY_NOT : STAY_FIXED;
	if (r->unordered || s->poisoned)
		return STAY_FIXED;
	if (r->pinned)
		return STAY_PINNED;
	return e->stamp - r->stepped > idle ? STAY_IDLE : STAY_NOT;
}

/* Its owner is to look through its pages at its next step. */
static void page_mark(const struct engine *e, const struct page_class *c, int32_t page)
{
	struct session *s;
	bool leaves;
	struct request *r = tenant_of(e, c->tenant[page], &s, &leaves);

	if (r)
		r->moves_due = true;
}

/* A search: what is left of the pages that may be looked at. */
struct search {
	struct engine *e;
	int64_t looks;
};

/* Of the pages [first, end) those that are live: what the first that must stay says; with @mark they are told. */
static enum stay pages_stay(struct search *f, const struct page_class *c, int32_t first, int32_t end, bool mark)
{
	enum stay stay = STAY_NOT;

	f->looks -= end - first;
	for (int32_t page = first; page < end && stay == STAY_NOT; page++) {
		if (c->state[page] <= PAGE_FREE)
			continue;
		f->looks -= SLICE_LOOKS;
		if (mark)
			page_mark(f->e, c, page);
		else
			stay = page_stay(f->e, c, page);
	}
	return stay;
}

/* The same of all pages that touch extent @x, which has an owner. */
static enum stay extent_stay(struct search *f, int32_t x, bool mark)
{
	const struct pool *p = &f->e->pool;
	const struct page_class *c = p->classes[p->extent_class[x]];
	const struct extent *e = &p->extents[x];
	int32_t border[BORDERS], n = border_pages(p, c, x, border), lo, hi;
	enum stay stay = c->tenant && e->n_owed == 0 && e->n_quarantined == 0 ? STAY_NOT : STAY_FIXED;

	for (int i = 0; i < n && stay == STAY_NOT; i++)
		stay = pages_stay(f, c, border[i], border[i] + 1, mark);
	for (int r = 0; r < c->n_runs && stay == STAY_NOT; r++) {
		pages_within(p, c, r, x, x + 1, &lo, &hi);
		stay = pages_stay(f, c, lo, e->runs[r].fresh < hi ? e->runs[r].fresh : hi, mark);
	}
	return stay;
}

/* ---- which are chosen ------------------------------------------------------------------ */

static void set_emptying(struct pool *p, int32_t x, bool on)
{
	struct extent *e = &p->extents[x];

	if (e->emptying == on)
		return;
	e->emptying = on;
	p->n_emptying += on ? 1 : -1;
	if (p->extent_class[x] >= 0 && !e->choice)
		extent_file(p->classes[p->extent_class[x]], x, extent_kind(e));
}

/* Extent @x can come empty: for choice_seek(). */
static bool may_empty(void *arg, int32_t x)
{
	struct search *f = arg;
	struct emptying *m = &f->e->emptying;
	enum stay stay = f->looks > 0 ? extent_stay(f, x, false) : STAY_FIXED;

	m->fixed += stay == STAY_FIXED;
	m->pinned += stay == STAY_PINNED;
	m->idle += stay == STAY_IDLE;
	return stay == STAY_NOT;
}

/* Pages of class @index that will lie in extents which claims have chosen for it, and which others have. */
static int64_t empty_claimed(struct search *f, int32_t index)
{
	struct pool *p = &f->e->pool;
	const struct claim *c;
	int64_t n = 0;

	TAILQ_FOREACH (c, &f->e->claims, link) {
		FOR_EACH_GROUP (g, c->of->session) {
			if ((int32_t)g->class_index != index)
				continue;
			for (int32_t x = c->of_group[g->index].chosen.first; x >= 0; x = p->extents[x].next_chosen) {
				if (p->extent_class[x] == index)
					continue;
				n += pages_count(p, g->class, x, x + 1);
				if (p->extents[x].n_live > 0 && may_empty(f, x))
					set_emptying(p, x, true);
			}
		}
	}
	return n;
}

/* Others than those that claims have chosen are to come empty for @pages pages of class @index. */
static void empty_others(struct search *f, int32_t index, int64_t pages)
{
	struct pool *p = &f->e->pool;
	struct choice k = { .first = -1 };
	int32_t first;

	choice_seek(p, &k, p->classes[index], pages, may_empty, f);
	first = k.first;
	choice_drop(p, &k, false);
	for (int32_t x = first; x >= 0; x = p->extents[x].next_chosen)
		if (p->extents[x].n_live > 0)
			set_emptying(p, x, true);
}

static void decide(struct engine *e, const int64_t *lacks)
{
	struct search f = { .e = e, .looks = EMPTYING_LOOKS };
	struct pool *p = &e->pool;
	uint64_t looked = p->looked;
	struct pool_keep keep;

	keep_for_others(&keep, e, NULL, true);
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised = keep.floors[i] + keep.claims[i];
	for (int32_t i = 0; i < p->n_classes; i++) {
		int64_t lack = lacks[i] > 0 ? lacks[i] - empty_claimed(&f, i) : 0;

		if (lack > 0)
			empty_others(&f, i, lack);
	}
	pool_unpromise(p);
	for (int32_t x = 0; x < p->n_extents && p->n_emptying > 0; x++)
		if (p->extents[x].emptying)
			(void)extent_stay(&f, x, true);
	slice_count(e, (p->looked - looked + (uint64_t)(EMPTYING_LOOKS - f.looks)) / SLICE_LOOKS);
}

void emptying_review(struct engine *e, const int64_t *lacks)
{
	struct emptying *m = &e->emptying;
	bool movable = false;

	if (lacks && e->stamp < m->due)
		return;
	for (int i = 0; i < e->pool.n_classes && lacks; i++)
		movable |= e->pool.classes[i]->tenant != NULL;
	if (e->pool.n_emptying == 0 && !movable)
		return;
	for (int32_t x = 0; x < e->pool.n_extents && e->pool.n_emptying > 0; x++)
		set_emptying(&e->pool, x, false);
	*m = (struct emptying){ .moved = m->moved };
	if (!movable)
		return;
	m->due = e->stamp + EMPTYING_AGAIN_MS * e->stamps_a_ms;
	decide(e, lacks);
}

/* ---- what is seen of it ------------------------------------------------------------- */

void engine_count_emptying(const struct engine *e, struct emptying_counts *out)
{
	const struct emptying *m = &e->emptying;

	*out = (struct emptying_counts){ .extents = (uint32_t)e->pool.n_emptying,
					 .fixed = m->fixed,
					 .pinned = m->pinned,
					 .idle = m->idle,
					 .moved = m->moved };
}

bool engine_extent_emptying(const struct engine *e, uint32_t extent)
{
	return extent < (uint32_t)e->pool.n_extents && e->pool.extents[extent].emptying;
}
