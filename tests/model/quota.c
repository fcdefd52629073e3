/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.c - limits of models in the reference model
 *
 * A ceiling is compared with what a model's sessions hold. What a model has not
 * used of its floor is kept: in pages, in the proportion in which a sequence of
 * max_seq takes them. With one class in the pool that is exact; with several,
 * what is kept and asked for must fit each class for itself, and where more
 * depends on who gets which extent the engine is heard.
 */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

uint64_t ref_used(struct ref_pool *p, struct ref_quota *q)
{
	if (q->counted == p->change)
		return q->used;
	q->used = 0;
	for (const struct ref_class *c = p->classes; c < p->classes + p->n_classes; c++)
		for (int32_t id = 0; id < c->num_pages; id++)
			if (c->page[id] != REF_FREE && c->user[id]->quota == q)
				q->used += 2 * c->page_bytes;
	q->counted = p->change;
	return q->used;
}

static uint64_t floors_of_others(const struct ref_pool *p, const struct ref_quota *q)
{
	uint64_t sum = 0;

	for (int i = 0; i < REF_QUOTAS; i++)
		sum += &p->quotas[i] == q ? 0 : p->quotas[i].floor;
	return sum;
}

int ref_limit(struct ref_pool *p, uint32_t quota, const uint64_t *floor, const uint64_t *ceiling)
{
	struct ref_quota *q = &p->quotas[quota];
	uint64_t low = floor ? *floor : q->floor, high = ceiling ? *ceiling : q->ceiling;

	if ((high && low > high) || low + floors_of_others(p, q) > 2 * p->half)
		return SWAKV_EINVALID;
	q->floor = low;
	q->ceiling = high;
	if (!low && !high && q->sessions == 0)
		q->n_shares = 0;
	return SWAKV_OK;
}

static uint64_t bytes_of(const struct ref_pool *p, const int64_t *pages)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < p->n_classes; i++)
		bytes += 2 * (uint64_t)pages[i] * p->classes[i].page_bytes;
	return bytes;
}

bool ref_too_much(struct ref_session *s, const int64_t *whole, int said)
{
	uint64_t bytes = bytes_of(s->pool, whole), others = floors_of_others(s->pool, s->quota);

	if (ref_never(s->pool, whole, said) || (s->quota->ceiling && bytes > s->quota->ceiling))
		return true;
	return bytes + others > 2 * s->pool->half;
}

/* What is to be left to others. */
struct keep {
	int64_t floors[REF_CLASSES], claims[REF_CLASSES];
	bool any;
	bool vague; /* also whole extents, for pages of which nothing is known */
};

static void keep_floor(const struct ref_pool *p, const struct ref_quota *q, uint64_t bytes, struct keep *k)
{
	uint64_t sequence = 0;

	k->any = true;
	k->vague |= q->n_shares == 0;
	for (uint32_t i = 0; i < q->n_shares; i++)
		sequence += 2 * q->shares[i].pages * q->shares[i].page_bytes;
	for (uint32_t i = 0; i < q->n_shares; i++) {
		uint32_t c = 0;

		while (c < p->n_classes && p->classes[c].page_bytes != q->shares[i].page_bytes)
			c++;
		k->vague |= c == p->n_classes;
		k->floors[c % REF_CLASSES] += (int64_t)(bytes * q->shares[i].pages / sequence);
	}
}

/* The claim of the first in the queue of @q counts for those that came after it. */
static bool keep_claim(struct ref_pool *p, struct ref_quota *q, const struct ref_wait *before, uint64_t *used,
		       struct keep *k)
{
	const struct ref_wait *w = ref_head(p, q);
	int64_t need[REF_CLASSES] = { 0 };

	if (!w || !w->claims || (before && w >= before))
		return false;
	for (uint32_t g = 0; g < w->session->n_groups; g++)
		need[w->session->groups[g].class_index] +=
			(int64_t)w->n * ref_reservation(w->session, g,
							w->max_tokens ? w->max_tokens : w->session->max_seq,
							w->unordered);
	if (q->ceiling && *used + bytes_of(p, need) > q->ceiling)
		return false;
	for (uint32_t i = 0; i < p->n_classes; i++)
		k->claims[i] += need[i];
	*used += bytes_of(p, need); /* the floor serves the claim, too */
	return true;
}

static void keep_for_others(struct ref_session *s, bool claims, const struct ref_wait *before, struct keep *k)
{
	struct ref_pool *p = s->pool;

	memset(k, 0, sizeof *k);
	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_quota *q = &p->quotas[i];
		uint64_t used = ref_used(p, q);

		if (q == s->quota)
			continue;
		if (claims)
			k->any |= keep_claim(p, q, before, &used, k);
		if (q->floor > used)
			keep_floor(p, q, q->floor - used, k);
	}
}

/* @need beside what is kept. */
static int provide_beside(struct ref_pool *p, const struct keep *k, const int64_t *need, int said)
{
	int64_t all[REF_CLASSES];

	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t available = ref_tally(p, i)->available;

		all[i] = need[i] + k->claims[i] + k->floors[i];
		if ((need[i] > 0 || k->claims[i] > 0) && all[i] > available)
			return SWAKV_ENOPAGES;
	}
	if (said != SWAKV_ENOPAGES || (!k->vague && (p->n_classes == 1 || ref_room_for_all(p, all))))
		return SWAKV_OK;
	return SWAKV_ENOPAGES;
}

static bool nobody_holds(const struct ref_pool *p)
{
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->live[x] > 0)
			return false;
	return true;
}

int ref_admit(struct ref_session *s, const int64_t *need, const int64_t *whole, bool running,
	      const struct ref_wait *before, int said)
{
	struct ref_pool *p = s->pool;
	struct ref_quota *q = s->quota;
	uint64_t bytes = bytes_of(p, need), used = ref_used(p, q);
	struct keep k;
	int code;

	if (bytes == 0)
		return SWAKV_OK;
	if (ref_too_much(s, whole, said))
		return SWAKV_ENEVER;
	if (q->ceiling && used + bytes > q->ceiling)
		return SWAKV_ENOPAGES;
	/* what stays within its floor owes nothing to those that wait */
	keep_for_others(s, !running && used + bytes > q->floor, before, &k);
	/* Where nobody holds anything, "not now" is "never", unless something is kept for who waits. */
	if (said == SWAKV_ENEVER)
		said = SWAKV_ENOPAGES;
	code = k.any ? provide_beside(p, &k, need, said) : ref_provide(p, need, said);
	return code == SWAKV_ENOPAGES && nobody_holds(p) && bytes_of(p, k.claims) == 0 ? SWAKV_ENEVER : code;
}
