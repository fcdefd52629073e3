/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.c - the reference model's word on whether pages of several classes can be had at once
 *
 * In pools of up to 8 extents every way to share out the extents that are free
 * is tried, so the model knows. The engine finds a way class by class, which is
 * exact for one class; for more it may miss one now and then, which is counted.
 * In larger pools the model knows the plain cases, and hears the engine else.
 */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

enum { FEW = 8 }; /* extents */

/*
 * Enough extents for sure: what each class lacks is divided by the pages that
 * lie wholly in any extent, wherever that begins. Extents of the classes
 * themselves are left out, and so is a short one at the end.
 */
static bool room_for_all(struct ref_pool *p, const int64_t *need)
{
	int64_t extents = 0;

	for (uint64_t x = 0; x < p->half / p->extent; x++)
		extents += !p->chosen[x] && (p->holder[x] < 0 || (p->live[x] == 0 && need[p->holder[x]] == 0));
	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t whole =
			((int64_t)((p->extent + 1) / p->classes[i].page_bytes) - 1) * (p->classes[i].joined ? 2 : 1);
		int64_t lack = need[i] - ref_tally(p, i)->open;

		if (need[i] == 0 || lack <= 0)
			continue;
		if (whole < 1)
			return false;
		extents -= (lack + whole - 1) / whole;
	}
	return extents >= 0;
}

static int classes_of(const struct ref_pool *p, const int64_t *need)
{
	int n = 0;

	for (uint32_t i = 0; i < p->n_classes; i++)
		n += need[i] > 0;
	return n;
}

/* Extents that all classes together need for sure (no page straddles), or for sure have enough with (none may). */
static uint64_t extents_for(const struct ref_pool *p, const int64_t *need, bool enough)
{
	uint64_t extents = 0;

	for (uint32_t i = 0; i < p->n_classes; i++) {
		uint64_t size = p->classes[i].page_bytes, n = (uint64_t)need[i];
		uint64_t whole =
			(p->extent + 1) / size; /* one more than lie wholly in any extent, of joined ones in a half */
		uint64_t runs = p->classes[i].joined ? 2 : 1;

		if (n == 0)
			continue;
		if (!enough)
			extents += (n * size + runs * p->extent - 1) / (runs * p->extent);
		else if (whole < 2)
			return UINT64_MAX;
		else
			extents += (n + runs * (whole - 1) - 1) / (runs * (whole - 1));
	}
	return extents;
}

/* ---- every way -------------------------------------------------------------------- */

/* Pages of a class by the extents that they touch, which are side by side. */
struct sorted {
	int64_t n[FEW][FEW];
};

/* The pages of class @c that are free, or with @empty all that it could ever have. */
static void sort_pages(const struct ref_class *c, bool empty, struct sorted *out)
{
	memset(out, 0, sizeof *out);
	for (int32_t id = 0; id < c->num_pages; id++)
		if (c->first[id] != REF_NOWHERE)
			out->n[c->first[id]][c->last[id]] += empty || c->page[id] == REF_FREE;
}

/* How many of them lie in the extents @mask. */
static int64_t pages_in(const struct sorted *s, uint32_t mask)
{
	int64_t n = 0;

	for (uint32_t first = 0; first < FEW; first++)
		for (uint32_t last = first; last < FEW && (mask & 1u << last); last++)
			n += mask & 1u << first ? s->n[first][last] : 0;
	return n;
}

/* Extents that anybody could take: those that nobody has, or that are empty; with @empty all. None that is chosen. */
static uint32_t open_extents(const struct ref_pool *p, bool empty)
{
	uint32_t mask = 0;

	for (uint32_t x = 0; x < p->n_extents; x++)
		if (empty || (!p->chosen[x] && (p->holder[x] < 0 || p->live[x] == 0)))
			mask |= 1u << x;
	return mask;
}

/* Extents of class @i that are its own for sure: in use. */
static uint32_t own_extents(const struct ref_pool *p, uint32_t i)
{
	uint32_t mask = 0;

	for (uint32_t x = 0; x < p->n_extents; x++)
		if (!p->chosen[x] && p->holder[x] == (int32_t)i && p->live[x] > 0)
			mask |= 1u << x;
	return mask;
}

/* Some way gives every class what it needs; @empty: of an empty pool. */
static bool some_way(const struct ref_pool *p, const int64_t *need, bool empty)
{
	uint32_t open = open_extents(p, empty);
	bool now[1 << FEW] = { true }, next[1 << FEW]; /* sets of extents that the classes so far can make do with */

	for (uint32_t i = 0; i < p->n_classes; i++) {
		uint32_t own = empty ? 0 : own_extents(p, i);
		struct sorted s;

		if (need[i] == 0)
			continue;
		sort_pages(&p->classes[i], empty, &s);
		memset(next, 0, sizeof next);
		for (uint32_t mine = 0; mine < 1u << FEW; mine++) {
			if ((mine & ~open) || pages_in(&s, mine | own) < need[i])
				continue;
			for (uint32_t used = 0; used < 1u << FEW; used++)
				next[used | mine] |= now[used] && !(used & mine);
		}
		memcpy(now, next, sizeof now);
	}
	for (uint32_t used = 0; used < 1u << FEW; used++)
		if (now[used])
			return true;
	return false;
}

/* ---- answers ------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, int64_t value)
{
	return (hash ^ (uint64_t)value) * 0x100000001b3;
}

/* Such a refusal counts once, however often the same is asked for where the same is in use. */
static bool is_new(struct ref_pool *p, const int64_t *all)
{
	uint64_t hash = 0xcbf29ce484222325, *known;

	for (uint32_t x = 0; x < p->n_extents; x++)
		hash = mix(mix(hash, p->live[x] ? p->holder[x] : -1), 2 * p->live[x] + (p->chosen[x] != NULL));
	for (uint32_t i = 0; i < p->n_classes; i++)
		hash = mix(hash, all[i]);
	known = &p->asked[hash % REF_ASKED];
	if (*known == hash)
		return false;
	*known = hash;
	return true;
}

/* A refusal of @all, which only who gets which extents can justify; in small pools the model knows. */
static void count_refusal(struct ref_pool *p, const int64_t *all, bool vague)
{
	if (!p->counting || !is_new(p, all))
		return;
	p->n_rooms++;
	p->n_missed += p->n_extents <= FEW && !vague && some_way(p, all, false);
}

bool ref_never(struct ref_pool *p, const int64_t *need, int said)
{
	for (uint32_t i = 0; i < p->n_classes; i++)
		if (need[i] > p->classes[i].most)
			return true;
	if (p->n_extents <= FEW) {
		if (!some_way(p, need, true))
			return true;
		/* two sizes behind one another are exact */
		return said == SWAKV_ENEVER && classes_of(p, need) > 2 &&
		       extents_for(p, need, true) > p->half / p->extent;
	}
	if (extents_for(p, need, false) > p->n_extents)
		return true;
	return said == SWAKV_ENEVER && classes_of(p, need) > 1 && extents_for(p, need, true) > p->half / p->extent;
}

/* For sure not: a class for itself, or all together whatever is kept, want more than there is. */
static bool hopeless(struct ref_pool *p, const struct keep *k, const int64_t *need, const int64_t *claimed)
{
	int64_t all[REF_CLASSES];

	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t available = ref_tally(p, i)->available;

		all[i] = need[i] + claimed[i];
		if (need[i] > 0 && (need[i] + k->floors[i] > available || all[i] > available))
			return true;
	}
	return p->n_extents <= FEW && !some_way(p, all, false);
}

int ref_provide_beside(struct ref_pool *p, const struct keep *k, const int64_t *need, int said)
{
	int64_t all[REF_CLASSES], claimed[REF_CLASSES];

	for (uint32_t i = 0; i < p->n_classes; i++) {
		int64_t open = ref_tally(p, i)->open;

		claimed[i] = k->claims[i] < open ? k->claims[i] : open; /* who runs may have taken some */
		all[i] = need[i] + claimed[i] + k->floors[i];
	}
	if (hopeless(p, k, need, claimed))
		return SWAKV_ENOPAGES;
	if (said != SWAKV_ENOPAGES)
		return SWAKV_OK;
	for (uint32_t i = 0; i < p->n_classes; i++)
		if (all[i] > p->classes[i].available)
			return SWAKV_ENOPAGES;
	if (!k->vague && (classes_of(p, all) == 1 || room_for_all(p, all)))
		return SWAKV_OK;
	count_refusal(p, all, k->vague);
	return SWAKV_ENOPAGES;
}

bool ref_floors_fit(struct ref_pool *p, const int64_t *need, int64_t whole, int said)
{
	uint64_t least = extents_for(p, need, false), most = extents_for(p, need, true);

	for (uint32_t i = 0; i < p->n_classes; i++)
		if (need[i] > p->classes[i].most)
			return false;
	if (least + (uint64_t)whole > p->n_extents)
		return false;
	if (most != UINT64_MAX && most + (uint64_t)whole <= p->half / p->extent)
		return true;
	if (p->n_extents <= FEW && whole == 0 && !some_way(p, need, true))
		return false;
	return said == SWAKV_OK; /* as the classes lie, one behind the other */
}
