/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.c - limits of models in the reference model
 *
 * A ceiling is compared with what a model's sessions hold. What a model has not
 * used of its floor is kept: in pages, in the proportion in which a sequence of
 * max_seq takes them. Whether there is room beside that is asked in room.c.
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
				q->used += ref_whole(c);
	q->counted = p->change;
	return q->used;
}

static bool is_share(const struct ref_class *c, const struct ref_share *share)
{
	return c->page_bytes == share->page_bytes && c->joined == share->joined;
}

static uint64_t floors_of_others(const struct ref_pool *p, const struct ref_quota *q)
{
	uint64_t sum = 0;

	for (int i = 0; i < REF_QUOTAS; i++)
		sum += &p->quotas[i] == q ? 0 : p->quotas[i].floor;
	return sum;
}

/* All floors are there together, with that of @q raised to @low. */
static bool floors_fit(struct ref_pool *p, const struct ref_quota *q, uint64_t low, int said)
{
	int64_t need[REF_CLASSES] = { 0 }, whole = 0;

	for (int i = 0; i < REF_QUOTAS; i++) {
		const struct ref_quota *o = &p->quotas[i];
		uint64_t bytes = o == q ? low : o->floor, sequence = 0;

		for (uint32_t k = 0; k < o->n_shares; k++)
			sequence += (o->shares[k].joined ? 1 : 2) * o->shares[k].pages * o->shares[k].page_bytes;
		if (bytes > 0 && o->n_shares == 0)
			whole += (int64_t)((bytes / 2 + p->extent - 1) / p->extent);
		for (uint32_t k = 0; k < o->n_shares; k++) {
			uint32_t c = 0;

			while (c < p->n_classes && !is_share(&p->classes[c], &o->shares[k]))
				c++;
			need[c % REF_CLASSES] += (int64_t)(bytes * o->shares[k].pages / sequence);
		}
	}
	return ref_floors_fit(p, need, whole, said);
}

int ref_limit(struct ref_pool *p, uint32_t quota, const uint64_t *floor, const uint64_t *ceiling, int said)
{
	struct ref_quota *q = &p->quotas[quota];
	uint64_t low = floor ? *floor : q->floor, high = ceiling ? *ceiling : q->ceiling;

	if ((high && low > high) || low + floors_of_others(p, q) > 2 * p->half)
		return SWAKV_EINVALID;
	if (low > q->floor && !floors_fit(p, q, low, said))
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
		bytes += (uint64_t)pages[i] * ref_whole(&p->classes[i]);
	return bytes;
}

bool ref_too_much(struct ref_session *s, const int64_t *whole, int said)
{
	uint64_t bytes = bytes_of(s->pool, whole), others = floors_of_others(s->pool, s->quota);

	if (ref_never(s->pool, whole, said) || (s->quota->ceiling && bytes > s->quota->ceiling))
		return true;
	return bytes + others > 2 * s->pool->half;
}

static void keep_floor(const struct ref_pool *p, const struct ref_quota *q, uint64_t bytes, struct keep *k)
{
	uint64_t sequence = 0;

	k->vague |= q->n_shares == 0;
	for (uint32_t i = 0; i < q->n_shares; i++)
		sequence += (q->shares[i].joined ? 1 : 2) * q->shares[i].pages * q->shares[i].page_bytes;
	for (uint32_t i = 0; i < q->n_shares; i++) {
		uint32_t c = 0;

		while (c < p->n_classes && !is_share(&p->classes[c], &q->shares[i]))
			c++;
		k->vague |= c == p->n_classes;
		k->floors[c % REF_CLASSES] += (int64_t)(bytes * q->shares[i].pages / sequence);
	}
}

static void keep_for_others(struct ref_session *s, struct keep *k)
{
	struct ref_pool *p = s->pool;

	memset(k, 0, sizeof *k);
	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_quota *q = &p->quotas[i];
		uint64_t used = ref_used(p, q);

		if (q != s->quota && q->floor > used)
			keep_floor(p, q, q->floor - used, k);
	}
}

bool ref_is_spared(struct ref_session *s, uint32_t index)
{
	struct ref_pool *p = s->pool;
	struct keep k;

	keep_for_others(s, &k);
	for (int i = 0; i < REF_QUOTAS; i++)
		k.claims[index] += p->quotas[i].claim.kept[index];
	return ref_tally(p, index)->open >= k.floors[index] + k.claims[index];
}

static bool nobody_holds(const struct ref_pool *p)
{
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->live[x] > 0)
			return false;
	return true;
}

/* Takes claims out of the way, or puts them back: all, or only that of @wait. */
static void step_aside(struct ref_pool *p, bool all, const struct ref_wait *wait, const struct ref_quota **chosen)
{
	for (uint32_t x = 0; x < p->n_extents; x++) {
		const struct ref_quota *q = p->chosen[x];

		chosen[x] = q;
		if (q && (all || (wait && q->claim.session == wait->session && q->claim.ticket == wait->ticket)))
			p->chosen[x] = NULL;
	}
	p->change++;
}

static void step_back(struct ref_pool *p, const struct ref_quota **chosen)
{
	memcpy(p->chosen, chosen, p->n_extents * sizeof *chosen);
	p->change++;
}

/* Pages of each class that others can have when the session's open points are reached. */
static void count_behind(const struct ref_session *s, int64_t *pages)
{
	memset(pages, 0, REF_CLASSES * sizeof *pages);
	for (int32_t i = 0; i < s->n_tails; i++)
		pages[s->groups[s->tails[i].group].class_index]++;
	for (int i = 0; i < REF_REQUESTS; i++) {
		const struct ref_request *r = &s->requests[i];

		for (int32_t j = 0; r->live && j < r->n_seqs; j++) {
			for (uint32_t g = 0; g < s->n_groups; g++) {
				int64_t more = ref_held(s, &r->seqs[j], g) - r->reservation[g];
				int64_t staged = r->seqs[j].parts[g].n_staged;

				pages[s->groups[g].class_index] += more < staged ? more : staged;
			}
		}
	}
}

bool ref_waits_for_itself(struct ref_session *s, const int64_t *need)
{
	struct ref_pool *p = s->pool;
	struct ref_quota *q = s->quota;
	int64_t behind[REF_CLASSES], all = 0;
	uint64_t used, bytes = bytes_of(p, need);
	const struct ref_quota *chosen[REF_EXTENTS];
	bool enough = true;
	struct keep k;

	count_behind(s, behind);
	used = ref_used(p, q) - bytes_of(p, behind);
	if (q->ceiling && used + bytes > q->ceiling)
		return false;
	keep_for_others(s, &k);
	step_aside(p, true, NULL, chosen);
	for (uint32_t i = 0; i < p->n_classes; i++) {
		all += behind[i];
		enough &= need[i] == 0 || need[i] + k.floors[i] <= ref_tally(p, i)->available + behind[i];
	}
	step_back(p, chosen);
	return enough && all > 0;
}

/* Beside the claims, but for that of @wait; or with @all beside none. *@claimed: there are some. */
static int provide(struct ref_session *s, const int64_t *need, bool all, const struct ref_wait *wait, int said,
		   bool *claimed)
{
	const struct ref_quota *chosen[REF_EXTENTS];
	struct ref_pool *p = s->pool;
	struct keep k;
	int code;

	keep_for_others(s, &k);
	*claimed = false;
	for (int i = 0; i < REF_QUOTAS && !all; i++) {
		const struct ref_claim *c = &p->quotas[i].claim;

		if (!c->session || (wait && c->session == wait->session && c->ticket == wait->ticket))
			continue;
		for (uint32_t j = 0; j < p->n_classes; j++) {
			k.claims[j] += c->kept[j];
			*claimed |= c->kept[j] > 0;
		}
		for (uint32_t x = 0; x < p->n_extents; x++)
			*claimed |= c->class_of[x] >= 0;
	}
	step_aside(p, all, wait, chosen);
	code = ref_provide_beside(p, &k, need, said);
	step_back(p, chosen);
	return code;
}

int ref_admit(struct ref_session *s, const int64_t *need, const int64_t *whole, bool running,
	      const struct ref_wait *wait, int said)
{
	struct ref_pool *p = s->pool;
	struct ref_quota *q = s->quota;
	uint64_t bytes = bytes_of(p, need), used = ref_used(p, q);
	bool claimed;
	int code;

	if (bytes == 0)
		return SWAKV_OK;
	if (ref_too_much(s, whole, said))
		return SWAKV_ENEVER;
	if (q->ceiling && used + bytes > q->ceiling)
		return SWAKV_ENOPAGES;
	/* Where nobody holds anything, "not now" is "never", unless something is kept for who waits. */
	if (said == SWAKV_ENEVER)
		said = SWAKV_ENOPAGES;
	code = provide(s, need, false, wait, said, &claimed);
	/* what runs, or stays within its floor, owes nothing to those that wait */
	if (code == SWAKV_ENOPAGES && (running || used + bytes <= q->floor))
		code = provide(s, need, true, NULL, said, &claimed);
	return code == SWAKV_ENOPAGES && nobody_holds(p) && !claimed ? SWAKV_ENEVER : code;
}
