/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emptying.c - see emptying.h
 *
 * Each movable class notes to which sequence a page was leased last. That is a
 * hint: it tells whether the page can move, and whose request is to look through
 * its pages; what is then moved is found there.
 */
#include "emptying.h"

#include <string.h>

#include "choice.h"
#include "claim.h"
#include "floor_ceiling.h"
#include "givers.h"
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

/* A search. */
struct search {
	struct seek seek; /* first: what a choice calls */
	struct engine *e;
	int64_t looks;        /* what is left of the pages that may be looked at */
	struct givers givers; /* pages of these are looked for, too; */
	bool given;           /* and they are no reason to stay, when they may be asked */
	bool notes;           /* of an extent that must stay it is noted why */
	int32_t n_given;      /* pages that are, of the extent that is looked at */
};

static enum stay request_stay(const struct engine *e, const struct session *s, const struct request *r)
{
	uint64_t idle = EMPTYING_IDLE_MS * e->stamps_a_ms;

	if (r->unordered || s->poisoned)
		return STAY_UNORDERED;
	if (r->pinned)
		return r->no_copy ? STAY_NO_COPY : STAY_PINNED;
	return e->stamp - r->stepped > idle ? STAY_IDLE : STAY_NOT;
}

/* Of a page that no request of a movable group has. */
static enum stay managed_stay(struct search *f, const struct page_class *c, int32_t page, struct session **of)
{
	const struct giver *giver = giver_of(&f->givers, c, page);

	f->looks -= f->givers.n;
	if (!giver)
		return STAY_FIXED;
	*of = giver->session;
	if (!giver->asked || !f->given)
		return STAY_MANAGED;
	f->n_given++;
	return STAY_NOT;
}

static enum stay page_stay(struct search *f, const struct page_class *c, int32_t page, struct session **of)
{
	struct request *r;
	bool leaves;

	if (!c->tenant || !c->tenant[page])
		return managed_stay(f, c, page, of);
	r = tenant_of(f->e, c->tenant[page], of, &leaves);
	if (!r)
		return leaves ? STAY_NOT : STAY_FIXED;
	return request_stay(f->e, *of, r);
}

/* Its owner is to look through its pages at its next step. */
static enum stay page_mark(struct search *f, const struct page_class *c, int32_t page, struct session **of)
{
	bool leaves;
	struct request *r = c->tenant ? tenant_of(f->e, c->tenant[page], of, &leaves) : NULL;

	if (r) {
		r->moves_due = true;
		(*of)->n_due++;
	}
	return STAY_NOT;
}

typedef enum stay page_look(struct search *f, const struct page_class *c, int32_t page, struct session **of);

/* @look, of the pages [first, end) that are live, until one must stay: what that says, and *@of whose it is. */
static enum stay pages_look(struct search *f, const struct page_class *c, int32_t first, int32_t end, page_look *look,
			    struct session **of)
{
	enum stay stay = STAY_NOT;

	f->looks -= end - first;
	for (int32_t page = first; page < end && stay == STAY_NOT; page++) {
		if (c->state[page] <= PAGE_FREE)
			continue;
		f->looks -= SLICE_LOOKS;
		*of = NULL;
		stay = look(f, c, page, of);
	}
	return stay;
}

/* The same of all pages that touch extent @x, which has an owner. */
static enum stay extent_look(struct search *f, int32_t x, page_look *look, struct session **of)
{
	const struct pool *p = &f->e->pool;
	const struct page_class *c = p->classes[p->extent_class[x]];
	const struct extent *e = &p->extents[x];
	int32_t border[BORDERS], n = border_pages(p, c, x, border), lo, hi;
	enum stay stay = STAY_NOT;

	for (int i = 0; i < n && stay == STAY_NOT; i++)
		stay = pages_look(f, c, border[i], border[i] + 1, look, of);
	for (int r = 0; r < c->n_runs && stay == STAY_NOT; r++) {
		pages_within(p, c, r, x, x + 1, &lo, &hi);
		stay = pages_look(f, c, lo, e->runs[r].fresh < hi ? e->runs[r].fresh : hi, look, of);
	}
	return stay;
}

static enum stay extent_stay(struct search *f, int32_t x, struct session **of)
{
	const struct extent *e = &f->e->pool.extents[x];

	*of = NULL;
	f->n_given = 0;
	if (e->n_quarantined > 0)
		return STAY_QUARANTINED;
	if (f->looks <= 0 || e->n_owed > 0)
		return STAY_UNSEEN;
	return extent_look(f, x, page_stay, of);
}

/* Extent @x is passed over, for a page of @of perhaps. */
static void note_stay(struct search *f, int32_t x, enum stay stay, struct session *of)
{
	struct pool *p = &f->e->pool;

	if (!f->notes || p->extents[x].stay != STAY_NOT)
		return;
	p->extents[x].stay = (uint8_t)stay;
	p->classes[p->extent_class[x]]->stays[stay]++;
	if (of)
		of->stays[stay]++;
}

/* For choice_seek(). */
static int32_t places(struct seek *seek, int32_t x)
{
	struct search *f = (struct search *)seek;
	struct session *of;
	enum stay stay;

	if (f->e->pool.extents[x].emptying)
		return -1;
	stay = extent_stay(f, x, &of);
	if (stay == STAY_NOT)
		return f->e->pool.extents[x].n_live - f->n_given;
	note_stay(f, x, stay, of);
	return -1;
}

static void crowded(struct seek *seek, int32_t x)
{
	note_stay((struct search *)seek, x, STAY_NO_ROOM, NULL);
}

/* ---- which are chosen ------------------------------------------------------------------ */

/* Extent @x, which has an owner when it changes. */
static void set_emptying(struct pool *p, int32_t x, bool on)
{
	struct extent *e = &p->extents[x];
	struct page_class *c;

	if (e->emptying == on)
		return;
	c = p->classes[p->extent_class[x]];
	e->emptying = on;
	p->n_emptying += on ? 1 : -1;
	c->n_emptying += on ? 1 : -1;
	if (!e->choice)
		extent_file(c, x, extent_kind(e));
}

/* Pages of class @index that will lie in extents which claims have chosen for it, and which others have. */
static int64_t empty_claimed(struct search *f, int32_t index)
{
	struct pool *p = &f->e->pool;
	const struct claim *c;
	int64_t n = 0;

	f->given = f->notes = true;
	TAILQ_FOREACH (c, &f->e->claims, link) {
		FOR_EACH_GROUP (g, c->of->session) {
			if ((int32_t)g->class_index != index)
				continue;
			for (int32_t x = c->of_group[g->index].chosen.first; x >= 0; x = p->extents[x].next_chosen) {
				if (p->extent_class[x] == index)
					continue;
				n += pages_count(p, g->class, x, x + 1);
				if (p->extents[x].n_live > 0 && places(&f->seek, x) >= 0)
					set_emptying(p, x, true);
			}
		}
	}
	return n;
}

/* Others than those that claims have chosen are to come empty for @pages pages of class @index; what is lacking still.
 */
static int64_t empty_others(struct search *f, int32_t index, int64_t pages)
{
	struct pool *p = &f->e->pool;
	struct choice k = { .first = -1 };
	int64_t lack = choice_seek(p, &k, p->classes[index], pages, &f->seek);
	int32_t first = k.first;

	choice_drop(p, &k, false);
	for (int32_t x = first; x >= 0; x = p->extents[x].next_chosen)
		if (p->extents[x].n_live > 0)
			set_emptying(p, x, true);
	return lack;
}

/* First such as come empty of themselves; only what these do not make up for hangs on what somebody is told. */
static void empty_for(struct search *f, int32_t index, int64_t pages)
{
	f->given = false;
	f->notes = !f->givers.any_asked;
	pages = empty_others(f, index, pages);
	if (pages <= 0 || !f->givers.any_asked)
		return;
	f->given = f->notes = true;
	(void)empty_others(f, index, pages);
}

static void decide(struct engine *e, struct search *f, const int64_t *lacks)
{
	struct pool *p = &e->pool;
	uint64_t looked = p->looked;
	struct session *of;
	struct pool_keep keep;

	keep_for_others(&keep, e, NULL, true);
	for (int i = 0; i < p->n_classes; i++)
		p->classes[i]->promised = keep.floors[i] + keep.claims[i];
	for (int32_t i = 0; i < p->n_classes; i++) {
		int64_t lack = lacks[i] > 0 ? lacks[i] - empty_claimed(f, i) : 0;

		if (lack > 0)
			empty_for(f, i, lack);
	}
	pool_unpromise(p);
	for (int32_t x = 0; x < p->n_extents && p->n_emptying > 0; x++)
		if (p->extents[x].emptying)
			(void)extent_look(f, x, page_mark, &of);
	givers_tell(&f->givers, e);
	slice_count(e, (p->looked - looked + (uint64_t)(EMPTYING_LOOKS - f->looks)) / SLICE_LOOKS);
}

/* ---- what is seen of it ------------------------------------------------------------- */

/* A digest of what was decided: another one, when anything of it is another. */
static uint64_t sight_of(struct engine *e)
{
	const struct pool *p = &e->pool;
	const struct session *s;
	uint64_t sum = givers_compare(e);

	for (int32_t x = 0; x < p->n_extents; x++)
		if (p->extents[x].emptying || p->extents[x].stay)
			sight_add(&sum, (uint64_t)x << 8 | p->extents[x].stay);
	LIST_FOREACH (s, &e->sessions, siblings) {
		sight_add(&sum, (uint64_t)s->n_due);
		for (int i = 0; i < STAY_COUNT; i++)
			sight_add(&sum, s->stays[i]);
	}
	return sum;
}

/* What was decided last is so no longer. */
static void forget(struct engine *e)
{
	struct pool *p = &e->pool;
	struct session *s;

	for (int32_t x = 0; x < p->n_extents; x++) {
		set_emptying(p, x, false);
		p->extents[x].stay = STAY_NOT;
	}
	for (int i = 0; i < p->n_classes; i++)
		memset(p->classes[i]->stays, 0, sizeof(p->classes[i]->stays));
	LIST_FOREACH (s, &e->sessions, siblings) {
		memset(s->stays, 0, sizeof(s->stays));
		s->n_due = 0;
	}
	givers_forget(e);
}

/* Some class has pages that can move, or that others may be asked for than those of the only class that lacks any. */
static bool any_can_leave(struct search *f, const int64_t *lacks)
{
	const struct pool *p = &f->e->pool;
	int32_t n = 0, lacking = -1;
	bool any = false;

	for (int32_t i = 0; i < p->n_classes; i++) {
		any |= p->classes[i]->tenant != NULL;
		n += lacks[i] > 0;
		lacking = lacks[i] > 0 ? i : lacking;
	}
	if (p->n_classes > 1)
		givers_find(&f->givers, f->e);
	for (int32_t i = 0; i < f->givers.n && !any; i++)
		any = f->givers.of[i].asked && (n > 1 || (int32_t)f->givers.of[i].group->class_index != lacking);
	return any;
}

/* A bit for each class. */
static uint64_t classes_lacking(const struct engine *e, const int64_t *lacks)
{
	uint64_t bits = 0;

	for (int i = 0; i < e->pool.n_classes; i++)
		bits |= (uint64_t)(lacks[i] > 0) << i;
	return bits;
}

/*
 * No class lacks pages that did not, no extent has gone to another, and nobody else may be asked since: the last
 * decision may stand a while.
 */
static bool is_as_before(const struct engine *e, const int64_t *lacks)
{
	const struct emptying *m = &e->emptying;

	return !(classes_lacking(e, lacks) & ~m->lacking) && m->hands == e->pool.hands &&
	       m->askable == givers_askable(e);
}

void emptying_review(struct engine *e, const int64_t *lacks)
{
	struct search f = { .seek = { places, crowded }, .e = e, .looks = EMPTYING_LOOKS };
	struct emptying *m = &e->emptying;
	uint64_t sight;

	if (lacks ? e->stamp < m->due && is_as_before(e, lacks) : !m->decided)
		return;
	m->round += e->pool.n_emptying == 0;
	forget(e);
	m->decided = lacks && any_can_leave(&f, lacks);
	m->due = m->decided ? e->stamp + EMPTYING_AGAIN_MS * e->stamps_a_ms : 0;
	m->decisions++;
	if (m->decided)
		decide(e, &f, lacks);
	m->lacking = m->decided ? classes_lacking(e, lacks) : 0;
	m->hands = e->pool.hands;
	m->askable = givers_askable(e);
	sight = sight_of(e);
	e->shifts += sight != m->sight;
	m->sight = sight;
}

void engine_count_emptying(const struct engine *e, struct emptying_counts *out)
{
	const struct emptying *m = &e->emptying;

	*out = (struct emptying_counts){ .extents = (uint32_t)e->pool.n_emptying,
					 .moved = m->moved,
					 .moved_bytes = m->moved_bytes,
					 .unplaced = m->unplaced,
					 .decisions = m->decisions };
	for (int i = 0; i < e->pool.n_classes; i++)
		for (int k = 0; k < STAY_COUNT; k++)
			out->stays[k] += e->pool.classes[i]->stays[k];
}

void engine_count_class_emptying(const struct engine *e, uint32_t index, struct emptying_counts *out)
{
	const struct page_class *c = e->pool.classes[index];

	*out = (struct emptying_counts){ .extents = (uint32_t)c->n_emptying,
					 .moved = c->n_moved,
					 .moved_bytes = c->n_moved * page_class_whole(c) };
	memcpy(out->stays, c->stays, sizeof(out->stays));
}

bool engine_extent_emptying(const struct engine *e, uint32_t extent)
{
	return extent < (uint32_t)e->pool.n_extents && e->pool.extents[extent].emptying;
}

void session_count_due(const struct session *s, struct due_counts *out)
{
	*out = (struct due_counts){ .to_move = s->n_due };
	memcpy(out->stays, s->stays, sizeof(out->stays));
}

uint64_t session_moved_pages(const struct session *s, uint32_t group)
{
	return s->groups[group].n_moved;
}
