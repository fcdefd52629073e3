/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disjoint.c - no byte of the pool has two owners, and all counts add up
 *
 * Every page of every living sequence becomes two ranges of bytes, of K and of
 * V; sorted, none may begin before the last has ended. The counts are those of
 * the status page, held against each other and against what the workers say.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "run.h"

struct range {
	int64_t start, end; /* bytes of the pool */
	const struct player *player;
	int64_t page;
	char half; /* 'K' or 'V' */
};

struct ranges {
	size_t n, capacity;
	struct range *list;
};

static bool add_range(struct ranges *all, struct range range)
{
	if (all->n == all->capacity) {
		size_t more = all->capacity ? 2 * all->capacity : 256;
		struct range *list = reallocarray(all->list, more, sizeof(*list));

		if (!list)
			return false;
		all->list = list;
		all->capacity = more;
	}
	all->list[all->n++] = range;
	return true;
}

static int64_t field(const json_t *answer, const char *name)
{
	return json_integer_value(json_object_get(answer, name));
}

/* What the worker answered, now or when it was stopped; a new reference. */
static int ask_pages(struct run *r, struct player *p, json_t **answer)
{
	if (p->pages) {
		*answer = json_incref(p->pages);
		return 0;
	}
	return run_ask(r, p, json_pack("{s:s}", "op", "pages"), answer);
}

/* @group says where its pages lie. */
static int add_sequence(struct run *r, const struct player *p, const json_t *group, const json_t *sequence,
			struct ranges *all)
{
	int64_t stride = field(group, "stride"), num_pages = field(group, "num_pages");
	bool joined = json_is_true(json_object_get(group, "joined"));
	int64_t first = field(group, "first"), v_base = field(group, "v_base");
	json_t *page;
	size_t i;

	json_array_foreach(json_object_get(sequence, "pages"), i, page)
	{
		int64_t id = json_integer_value(page);
		int64_t k = first + id * stride, v = v_base + (id + num_pages) * stride;

		if (id < 0 || id >= num_pages)
			return run_difference(r, "page ids of the pool", "worker %s: page %" PRId64 " of %" PRId64,
					      p->name, id, num_pages);
		if (!add_range(all, (struct range){ k, k + stride, p, id, 'K' }) ||
		    (!joined && !add_range(all, (struct range){ v, v + stride, p, id, 'V' })))
			return run_broken(r, "out of memory");
	}
	return 0;
}

/* The pages of one group; adds how many its sequences hold, and how many of these are staged. */
static int add_group(struct run *r, const struct player *p, const json_t *group, struct ranges *all, int64_t *held,
		     int64_t *staged)
{
	json_t *sequence;
	size_t i;
	int e = 0;

	json_array_foreach(json_object_get(group, "sequences"), i, sequence)
	{
		*held += (int64_t)json_array_size(json_object_get(sequence, "pages"));
		*staged += field(sequence, "staged");
		if (e == 0)
			e = add_sequence(r, p, group, sequence, all);
	}
	return e;
}

/* The pages of one worker, and whether its session's counts say the same. */
static int add_player(struct run *r, struct player *p, struct ranges *all)
{
	const struct status_session *s = broker_session(&r->broker, p->session, p->generation);
	int64_t held = 0, staged = 0;
	json_t *answer, *group;
	size_t i;
	int e;

	if (ask_pages(r, p, &answer))
		return -1;
	e = 0;
	json_array_foreach(json_object_get(answer, "groups"), i, group)
	{
		if (e == 0)
			e = add_group(r, p, group, all, &held, &staged);
	}
	json_decref(answer);
	/* Besides its sequences' pages a session leases those of ended requests behind points. */
	if (e == 0 && s && !p->pages && s->leased != held + s->behind_points - staged)
		e = run_difference(r, "counts that add up",
				   "worker %s: %" PRId64 " pages leased, but its sequences hold %" PRId64
				   " and %" PRId64 " of ended requests wait",
				   p->name, s->leased, held, s->behind_points - staged);
	return e;
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int check_ranges(struct run *r, struct ranges *all)
{
	if (all->n > 0)
		qsort(all->list, all->n, sizeof(*all->list), by_start);
	for (size_t i = 1; i < all->n; i++) {
		const struct range *a = &all->list[i - 1], *b = &all->list[i];

		if (b->start < a->end)
			return run_difference(r, "no byte with two owners",
					      "%c of page %" PRId64 " of worker %s and %c of page %" PRId64
					      " of worker %s overlap at byte %" PRId64,
					      a->half, a->page, a->player->name, b->half, b->page, b->player->name,
					      b->start);
	}
	return 0;
}

/* Pages that all sessions hold of class @index. */
static int64_t held_of_class(const struct status_snapshot *s, uint32_t index)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < s->n_sessions; i++)
		for (uint32_t g = 0; g < s->sessions[i].n_groups; g++)
			n += s->sessions[i].groups[g].class_index == index ? s->sessions[i].groups[g].held : 0;
	return n;
}

static int check_class(struct run *r, uint32_t index)
{
	const struct status_class *c = &r->broker.snapshot->classes[index];
	int64_t held = held_of_class(r->broker.snapshot, index);

	if (c->free + c->leased + c->quarantined == c->pages && held == c->leased + c->quarantined)
		return 0;
	return run_difference(r, "counts that add up",
			      "class of %" PRIu64 " bytes%s: %" PRId64 " pages, free %" PRId64 " + leased %" PRId64
			      " + quarantined %" PRId64 "; sessions hold %" PRId64,
			      c->page_bytes, c->joined ? ", joined" : "", c->pages, c->free, c->leased, c->quarantined,
			      held);
}

static int check_counts(struct run *r)
{
	const struct status_snapshot *s = r->broker.snapshot;
	int64_t leased = 0, quarantined = 0;
	int e = 0;

	if (s->pool_held + s->pool_free + s->pool_unusable != s->pool_total)
		return run_difference(r, "counts that add up",
				      "pool of %" PRIu64 " bytes: held %" PRIu64 " + free %" PRIu64
				      " + unusable %" PRIu64,
				      s->pool_total, s->pool_held, s->pool_free, s->pool_unusable);
	for (uint32_t i = 0; i < s->n_classes && e == 0; i++) {
		leased += s->classes[i].leased;
		quarantined += s->classes[i].quarantined;
		e = check_class(r, i);
	}
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		leased -= s->sessions[i].leased;
		quarantined -= s->sessions[i].quarantined;
	}
	if (e == 0 && (leased || quarantined))
		e = run_difference(r, "counts that add up",
				   "classes have %" PRId64 " leased and %" PRId64
				   " quarantined pages more than all sessions",
				   leased, quarantined);
	return e;
}

int expect_disjoint(struct run *r)
{
	struct ranges all = { 0 };
	int e = run_fresh_status(r);

	if (e == 0)
		e = check_counts(r);
	for (size_t i = 0; i < r->n_players && e == 0; i++)
		if (r->players[i].pid)
			e = add_player(r, &r->players[i], &all);
	if (e == 0)
		e = check_ranges(r, &all);
	free(all.list);
	return e;
}
