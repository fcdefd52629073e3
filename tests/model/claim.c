/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - what is kept for begins that have waited long, in the reference model
 *
 * When a claim begins and ends follows from the times, from what comes free and
 * from the ceilings. Which extents it chose is the engine's word, checked: with
 * them and with the pages that it keeps the begin would have what it needs, not
 * without the last of them, and none that it left has fewer live pages.
 */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

static struct ref_wait *waiter(struct ref_pool *p, const struct ref_claim *c)
{
	for (uint32_t i = 0; i < p->n_waits; i++)
		if (p->waits[i].session == c->session && p->waits[i].ticket == c->ticket)
			return &p->waits[i];
	return NULL;
}

/* From the first of those that held in vain, one into the other, until now; the pause is as long. */
static void note_vain(struct ref_pool *p, const struct ref_claim *c)
{
	uint64_t begin = c->vain_begin;

	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_claim *other = &p->quotas[i].claim;

		if (other->session && other->vain_begin > begin)
			other->vain_begin = begin;
	}
	p->pause_end = p->stamp + (p->stamp - begin);
	if (p->pause_end == p->stamp)
		p->pause_end++;
}

void ref_claim_end(struct ref_pool *p, struct ref_quota *q, bool admitted)
{
	struct ref_wait *w = waiter(p, &q->claim);

	if (q->claim.session && !admitted)
		note_vain(p, &q->claim);
	if (w && !admitted)
		w->turn = p->stamp;
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->chosen[x] == q)
			p->chosen[x] = NULL;
	memset(&q->claim, 0, sizeof q->claim);
	p->change++;
}

void ref_claim_joined(struct ref_pool *p, const struct ref_class *c, int32_t id)
{
	for (uint32_t x = c->last[id] + 1u; x-- > c->first[id];)
		if (p->chosen[x]) {
			((struct ref_quota *)p->chosen[x])->claim.joined = true;
			break; /* with one of them */
		}
}

/* With it the model would be above its ceiling. */
static bool exceeds_ceiling(struct ref_pool *p, struct ref_quota *q, const struct ref_wait *w)
{
	int64_t need[REF_CLASSES];
	uint64_t bytes = ref_used(p, q);

	ref_wait_need(w, need);
	for (uint32_t i = 0; i < p->n_classes; i++)
		bytes += (uint64_t)need[i] * ref_whole(&p->classes[i]);
	return q->ceiling && bytes > q->ceiling;
}

/* ---- begin and end ------------------------------------------------------------------ */

void ref_claims_forget(struct ref_pool *p)
{
	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_quota *q = &p->quotas[i];

		if (q->claim.session && (q->claim.session->poisoned || exceeds_ceiling(p, q, waiter(p, &q->claim))))
			ref_claim_end(p, q, false);
	}
}

/* What it waited for in vain comes later the next time. */
static void give_up(struct ref_pool *p, struct ref_quota *q)
{
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->chosen[x] == q && p->live[x] > 0)
			p->waited[x] = p->stamp;
	ref_claim_end(p, q, false);
}

static bool is_over(const struct ref_pool *p, const struct ref_claim *c)
{
	return p->stamp >= c->moved + p->claim_hold || p->stamp >= c->since + p->claim_max;
}

static struct ref_quota *oldest_over(struct ref_pool *p)
{
	struct ref_quota *oldest = NULL;

	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_quota *q = &p->quotas[i];

		if (q->claim.session && is_over(p, &q->claim) && (!oldest || q->claim.since < oldest->claim.since))
			oldest = q;
	}
	return oldest;
}

void ref_claims_pass(struct ref_pool *p)
{
	struct ref_quota *q;

	for (uint32_t i = 0; i < p->n_waits; i++)
		p->waits[i].overdue |= p->stamp - p->waits[i].since >= p->wait_claim;
	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_claim *c = &p->quotas[i].claim;

		if (c->joined)
			c->moved = p->stamp;
		c->joined = false;
	}
	while ((q = oldest_over(p)))
		give_up(p, q);
}

/* ---- what was chosen ---------------------------------------------------------------- */

/*
 * Pages of class @i that the claim would have once its extents are empty: those
 * that lie in them, and those that it keeps elsewhere. Without extent @but, -1:
 * with all, what is free there would be kept as such.
 */
static int64_t would_have(const struct ref_pool *p, const struct ref_claim *c, uint32_t i, int64_t but)
{
	const struct ref_class *k = &p->classes[i];
	int64_t n = c->kept[i];

	for (int32_t id = 0; id < k->num_pages; id++) {
		bool all = true, touches = false, elsewhere = true, held = true;

		for (uint32_t x = k->first[id]; x <= k->last[id]; x++) {
			all &= c->class_of[x] == (int32_t)i && x != but;
			touches |= x == but;
			elsewhere &= !p->chosen[x] || x == but;
			held &= p->holder[x] == (int32_t)i && p->held[x] == (int32_t)i;
		}
		n += all || (touches && elsewhere && held && k->page[id] == REF_FREE);
	}
	return n;
}

/* What comes first is chosen first by a begin that has waited since @since. */
static uint64_t key_of(const struct ref_pool *p, uint32_t x, uint64_t since)
{
	uint64_t vain = p->live[x] > 0 && p->waited[x] > since;

	uint64_t quarantined = 0;

	for (uint32_t i = 0; i < p->n_classes; i++)
		for (int32_t id = 0; id < p->classes[i].num_pages && p->holder[x] == (int32_t)i; id++)
			quarantined |= p->classes[i].page[id] == REF_QUARANTINED && p->classes[i].first[id] <= x &&
				       x <= p->classes[i].last[id];
	return quarantined << 41 | vain << 40 | (uint64_t)p->live[x] << 20 | x;
}

/*
 * Class @i would gain from extent @x for sure: more whole pages in it that are
 * not free already than free ones that end in it, or begin, which it would lose.
 */
static bool gains(const struct ref_pool *p, uint32_t i, uint32_t x)
{
	const struct ref_class *k = &p->classes[i];
	bool own = p->holder[x] == (int32_t)i;
	int64_t n = 0;

	for (int32_t id = 0; id < k->num_pages; id++) {
		bool free = own && k->page[id] == REF_FREE;

		if (k->first[id] == x && k->last[id] == x)
			n += !free;
		else if (k->first[id] <= x && x <= k->last[id])
			n -= free;
	}
	return n > 0;
}

/* Something is kept beside this claim. */
static bool others_keep(struct ref_pool *p, const struct ref_quota *q)
{
	for (int i = 0; i < REF_QUOTAS; i++)
		if (p->quotas[i].floor || (&p->quotas[i] != q && p->quotas[i].claim.session))
			return true;
	return false;
}

/* What is free in extent @x is kept for another class of the claim. */
static bool is_kept(const struct ref_pool *p, const struct ref_claim *c, uint32_t i, uint32_t x)
{
	return p->holder[x] >= 0 && p->holder[x] != (int32_t)i && c->kept[p->holder[x]] > 0;
}

/* Pages that a claim on its own would have for class @i, with extent @with chosen instead of @but. */
static int64_t would_have_with(const struct ref_pool *p, const struct ref_claim *c, uint32_t i, uint32_t but,
			       uint32_t with, int64_t need)
{
	const struct ref_class *k = &p->classes[i];
	int64_t n = 0, free = 0;

	for (int32_t id = 0; id < k->num_pages; id++) {
		bool all = true, outside = k->page[id] == REF_FREE;

		for (uint32_t x = k->first[id]; x <= k->last[id]; x++) {
			bool chosen = x == with || (x != but && c->class_of[x] == (int32_t)i);

			all &= chosen;
			outside &= !chosen && (!p->chosen[x] || x == but) && p->holder[x] == (int32_t)i;
		}
		n += all;
		free += outside;
	}
	return n + (free < need ? free : need);
}

/* No extent was left that costs others less than a chosen one, and could stand in for it. */
static void check_order(struct ref_pool *p, const struct ref_claim *c, uint32_t i, int64_t need)
{
	uint64_t since = waiter(p, c)->since;

	for (uint32_t x = 0; x < p->n_extents; x++) {
		if (p->chosen[x] || is_kept(p, c, i, x) || !gains(p, i, x))
			continue;
		for (uint32_t y = 0; y < p->n_extents; y++)
			if (c->class_of[y] == (int32_t)i && key_of(p, x, since) < key_of(p, y, since) &&
			    would_have_with(p, c, i, y, x, need) >= need)
				ref_complain(p, "a claim has chosen extent %u (%d live pages) and left extent %u (%d)",
					     y, p->live[y], x, p->live[x]);
	}
}

/* No extent was chosen without which there would be enough. */
static void check_thrift(struct ref_pool *p, const struct ref_claim *c, uint32_t i, int64_t need)
{
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (c->class_of[x] == (int32_t)i && would_have(p, c, i, x) >= need)
			ref_complain(p, "a claim has chosen extent %u, and would have the %lld pages without it", x,
				     (long long)need);
}

/* A claim that has just begun keeps what is needed, in the extents that are best, and no more. */
static void check_choice(struct ref_pool *p, const struct ref_quota *q, const int64_t *need, bool beside)
{
	const struct ref_claim *c = &q->claim;

	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t have = would_have(p, c, i, -1);

		if (c->kept[i] > need[i] || c->kept[i] > ref_tally(p, i)->open)
			ref_complain(p, "a claim keeps %lld free pages of class %u, needs %lld, and there are %lld",
				     (long long)c->kept[i], i, (long long)need[i], (long long)p->classes[i].open);
		if (!q->floor && have < need[i])
			ref_complain(p, "a claim would have %lld pages of class %u, and needs %lld", (long long)have, i,
				     (long long)need[i]);
		check_thrift(p, c, i, need[i]);
		if (2 * p->classes[i].page_bytes <= p->extent && !beside)
			check_order(p, c, i, need[i]);
	}
}

/* ---- what the engine shows ----------------------------------------------------------- */

static bool may_claim(struct ref_pool *p, struct ref_quota *q, const struct ref_wait *w)
{
	return w && w->overdue && !q->claim.session && !w->session->poisoned && !w->withdrawn &&
	       p->stamp >= w->paused_until && p->stamp >= p->pause_end && !exceeds_ceiling(p, q, w);
}

static void learn_new(struct ref_pool *p, struct ref_quota *q, const struct ref_claim_seen *seen)
{
	struct ref_wait *w = ref_head(p, q);
	struct ref_claim *c = &q->claim;
	int64_t need[REF_CLASSES];

	if (seen->since != p->stamp)
		ref_complain(p, "a claim is since %llu, and now is %llu", (unsigned long long)seen->since,
			     (unsigned long long)p->stamp);
	c->session = w->session;
	c->ticket = w->ticket;
	c->since = c->moved = c->vain_begin = p->stamp;
	memcpy(c->class_of, seen->class_of, sizeof c->class_of);
	memcpy(c->kept, seen->kept, sizeof c->kept);
	for (uint32_t x = 0; x < p->n_extents; x++) {
		if (c->class_of[x] < 0)
			continue;
		if (p->chosen[x])
			ref_complain(p, "extent %u is chosen by two claims", x);
		p->chosen[x] = q;
	}
	p->change++;
	ref_wait_need(w, need);
	check_choice(p, q, need, others_keep(p, q));
}

/* Only kept pages may have become fewer: who runs has taken them. */
static void check_known(struct ref_pool *p, struct ref_quota *q, const struct ref_claim_seen *seen)
{
	struct ref_claim *c = &q->claim;

	if (!seen->claims || seen->since != c->since || memcmp(seen->class_of, c->class_of, sizeof c->class_of))
		ref_complain(p, "the claim of model %d is gone, or is another", (int)(q - p->quotas));
	for (uint32_t i = 0; i < p->n_classes; i++) {
		if (seen->kept[i] > c->kept[i] || seen->kept[i] < 0)
			ref_complain(p, "a claim keeps %lld pages of class %u, and kept %lld", (long long)seen->kept[i],
				     i, (long long)c->kept[i]);
		c->kept[i] = seen->kept[i];
	}
}

/* A begin of one class, with nothing else kept, finds enough extents for sure. */
static bool can_choose(struct ref_pool *p, struct ref_quota *q, const struct ref_wait *w)
{
	int n = 0;

	for (uint32_t g = 1; g < w->session->n_groups && !w->takes; g++)
		n += w->session->groups[g].class != w->session->groups[0].class;
	return n == 0 && !others_keep(p, q);
}

/* Of those that may claim the one whose turn comes first; of equal ones the oldest. */
static struct ref_wait *next_to_claim(struct ref_pool *p)
{
	struct ref_wait *next = NULL;

	for (uint32_t i = 0; i < p->n_waits; i++) {
		struct ref_wait *w = &p->waits[i];

		if (ref_head(p, w->session->quota) == w && may_claim(p, w->session->quota, w) &&
		    (!next || w->turn < next->turn))
			next = w;
	}
	return next;
}

uint32_t ref_claims_learn(struct ref_pool *p, const struct ref_claim_seen *seen)
{
	struct ref_wait *w;
	uint32_t n = 0;

	for (int i = 0; i < REF_QUOTAS && !p->error[0]; i++)
		if (p->quotas[i].claim.session)
			check_known(p, &p->quotas[i], &seen[i]);
	/* in the order in which they have chosen */
	while (!p->error[0] && (w = next_to_claim(p))) {
		struct ref_quota *q = w->session->quota;

		if (seen[q - p->quotas].claims) {
			learn_new(p, q, &seen[q - p->quotas]);
			n++;
			continue;
		}
		if (can_choose(p, q, w))
			ref_complain(p, "model %d does not claim, and may", (int)(q - p->quotas));
		w->paused_until = p->stamp + p->claim_hold;
	}
	ref_claims_check(p, seen);
	return n;
}

/* All claims together keep no more free pages than there are. */
static void check_kept(struct ref_pool *p)
{
	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t kept = 0;

		for (int q = 0; q < REF_QUOTAS; q++)
			kept += p->quotas[q].claim.kept[i];
		if (kept > ref_tally(p, i)->open)
			ref_complain(p, "claims keep %lld free pages of class %u, and there are %lld", (long long)kept,
				     i, (long long)p->classes[i].open);
	}
}

void ref_claims_check(struct ref_pool *p, const struct ref_claim_seen *seen)
{
	for (uint32_t i = 0; i < p->n_waits; i++)
		if (!p->waits[i].overdue && p->stamp - p->waits[i].since >= p->wait_claim)
			ref_complain(p, "a begin is overdue, and nobody has noticed");
	for (int i = 0; i < REF_QUOTAS && !p->error[0]; i++) {
		struct ref_quota *q = &p->quotas[i];

		if (q->claim.session)
			check_known(p, q, &seen[i]);
		else if (seen[i].claims)
			ref_complain(p, "model %d claims, and must not", i);
		if (q->claim.session && is_over(p, &q->claim))
			ref_complain(p, "the claim of model %d is over, and goes on", i);
	}
	check_kept(p);
	if (!p->error[0] && next_to_claim(p))
		ref_complain(p, "nobody has looked for what a begin may claim");
}
