/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.c - see quota.h
 *
 * A model is found by its name. What a sequence of it takes is noted as its last
 * session declared it: by that its floor is split over page sizes (floor_ceiling.c).
 */
#include "quota.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- quotas ------------------------------------------------------------------ */

struct quota *quota_find(const struct engine *e, const char *name)
{
	struct quota *q;

	TAILQ_FOREACH (q, &e->quotas, link)
		if (!strcmp(q->name, name))
			return q;
	return NULL;
}

/* The quota of @name, made when it is new; NULL: memory is short. */
struct quota *quota_get(struct engine *e, const char *name)
{
	struct quota *q = quota_find(e, name);

	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	strncpy(q->name, name, sizeof(q->name) - 1);
	LIST_INIT(&q->sessions);
	TAILQ_INIT(&q->queue);
	claim_init(&q->claim);
	TAILQ_INSERT_TAIL(&e->quotas, q, link);
	return q;
}

void quota_drop(struct engine *e, struct quota *q)
{
	if (!q || q->n_sessions > 0 || q->floor || q->ceiling)
		return;
	TAILQ_REMOVE(&e->quotas, q, link);
	free(q);
}

/* Notes what a sequence of @m takes. */
static void quota_learn(struct quota *q, const struct model *m, const struct geometry *g)
{
	q->n_shares = m->n_groups;
	memcpy(q->groups, m->groups, sizeof(q->groups));
	for (uint32_t i = 0; i < m->n_groups; i++) {
		q->shares[i].key = geometry_key(&g[i]);
		q->shares[i].pages = (uint64_t)g[i].private_pages;
	}
}

/* Bytes, K and V, of one sequence of max_seq. */
static uint64_t sequence_bytes(const struct quota *q)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < q->n_shares; i++)
		bytes += q->shares[i].pages * page_key_whole(q->shares[i].key);
	return bytes;
}

uint64_t engine_declared_otherwise(const struct engine *e, const char *name, const struct model *m,
				   const struct geometry g[])
{
	const struct quota *q = quota_find(e, name);
	bool same;

	if (!q || q->n_shares == 0)
		return 0;
	same = q->n_shares == m->n_groups && memcmp(q->groups, m->groups, m->n_groups * sizeof(q->groups[0])) == 0;
	for (uint32_t i = 0; same && i < m->n_groups; i++)
		same = q->shares[i].pages == (uint64_t)g[i].private_pages;
	return same ? 0 : sequence_bytes(q);
}

uint64_t quota_used(const struct quota *q)
{
	const struct session *s;
	uint64_t used = 0;

	LIST_FOREACH (s, &q->sessions, sharers)
		FOR_EACH_GROUP (g, s)
			used += (uint64_t)g->n_held * page_class_whole(g->class);
	return used;
}

int session_join(struct session *s, const char *name)
{
	struct quota *q = quota_get(s->engine, name), *former = s->quota;

	if (!q)
		return fault_set(NULL, FAULT_BROKER_MEMORY, -1, 0, 0);
	if (former) {
		LIST_REMOVE(s, sharers);
		former->n_sessions--;
	}
	s->quota = q;
	LIST_INSERT_HEAD(&q->sessions, s, sharers);
	q->n_sessions++;
	quota_learn(q, &s->model, s->geometry);
	s->engine->retry = true; /* its floor may be kept in other pages now */
	if (former != q)
		quota_drop(s->engine, former);
	return 0;
}

int engine_introduce(struct engine *e, const char *name, const struct model *m, struct fault *f)
{
	struct geometry g[WIRE_MAX_GROUPS];
	int code = model_check(m, e->pool.half_bytes, g, f);
	struct quota *q = code ? NULL : quota_get(e, name);

	if (!code && !q)
		return fault_set(f, FAULT_BROKER_MEMORY, -1, sizeof(*q), 0);
	if (q && q->n_shares == 0) {
		quota_learn(q, m, g);
		e->retry = true;
	}
	return code;
}

static void quota_count(const struct quota *q, struct quota_counts *out)
{
	*out = (struct quota_counts){
		.floor = q->floor,
		.ceiling = q->ceiling,
		.used = quota_used(q),
		.sessions = q->n_sessions,
		.waiting = q->n_waiting,
		.oldest = q->n_waiting ? TAILQ_FIRST(&q->queue)->since : 0,
		.claims = q->claim.of != NULL,
		.since = q->claim.since,
	};
	memcpy(out->name, q->name, sizeof(out->name));
	out->sequence = sequence_bytes(q);
	for (uint32_t i = 0; i < q->n_shares; i++)
		out->least += page_key_whole(q->shares[i].key);
}

bool engine_quota_count(const struct engine *e, uint32_t index, struct quota_counts *out)
{
	const struct quota *q = TAILQ_FIRST(&e->quotas);

	for (; q && index > 0; index--)
		q = TAILQ_NEXT(q, link);
	if (q)
		quota_count(q, out);
	return q != NULL;
}

bool engine_quota_of(const struct engine *e, const char *name, struct quota_counts *out)
{
	const struct quota *q = quota_find(e, name);

	if (q)
		quota_count(q, out);
	return q != NULL;
}
