/* SPDX-License-Identifier: Apache-2.0 */
/* manage.c - takes and gives to engine and model, and who is asked for pages that others lack */
#include "managed.h"
#include "press.h"
#include "world.h"

#include <swakv/error.h>

void learn_taken(struct world *w, uint32_t session, const struct ref_take *t, const int32_t *pages, uint32_t n)
{
	w->n_managed += n;
	for (uint32_t i = 0; i < n; i++)
		w->sides[session].scrubbed += pages[i] < 0;
	/* claims try extents in other classes, which nobody else sees: what they touched counts as dirty */
	ref_taken(&w->sessions[session], t, pages, n, w->n_claims > 0);
}

void run_take(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	const struct take t = { .group = (uint32_t)c->value,
				.flags = c->flags,
				.min = (uint32_t)c->list[0],
				.max = (uint32_t)c->list[1],
				.wait = c->new_batch > 0 ? (uint64_t)c->new_batch : 0,
				.ticket = (uint64_t)c->request };
	const struct ref_take ref = { t.group, t.flags, t.min, t.max, t.wait, t.ticket };
	int32_t pages[WIRE_MAX_PAGES];
	uint32_t n = 77;
	struct fault f;
	int got = pages_take(w->sides[c->session].session, &t, pages, &n, &f);

	compare_extents(w, s, 0);
	compare_code(w, "pages_take", got, ref_take(s, &ref, got, n), &f);
	w->labels[c->request % WORLD_COMMANDS] = (struct label){ .session = c->session };
	if (got && n != 0)
		ref_complain(&w->pool, "a take that got nothing says %u pages", n);
	if (!got && !w->pool.error[0])
		learn_taken(w, c->session, &ref, pages, n);
}

/* Of the pages that the session has taken in that group @n, from the @from-th on; returns how many there are. */
static uint32_t pick(const struct ref_session *s, uint32_t g, uint32_t from, uint32_t n, int32_t *out)
{
	const struct ref_class *c = s->groups[g].class;
	int32_t all[REF_PAGES];
	uint32_t n_all = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		if (c->page[id] == REF_LEASED && c->user[id] == s && c->taken[id] == g + 1)
			all[n_all++] = id;
	n = n < n_all ? n : n_all;
	for (uint32_t i = 0; i < n; i++)
		out[i] = all[(from + i) % n_all];
	return n;
}

static void spoil_pages(const struct ref_class *c, const struct command *cmd, int32_t *pages, uint32_t n)
{
	uint32_t at = (uint32_t)cmd->list[1] % n;

	switch (cmd->flags) {
	case WRONG_TWICE:
		pages[at] = pages[n - 1 - at];
		break;
	case WRONG_OTHER:
		pages[at] = (int32_t)((uint32_t)cmd->list[1] * 7 % (uint32_t)c->num_pages);
		break;
	case WRONG_RANGE:
		pages[at] = cmd->list[1] % 3 == 0 ? -1 : cmd->list[1] % 3 == 1 ? c->num_pages : INT32_MIN;
		break;
	default:
		break;
	}
}

void run_give(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	const struct side *e = &w->sides[c->session];
	uint32_t group = (uint32_t)c->value, known = group < s->n_groups ? group : 0, n;
	struct wire_fence fences[STEP_ENTRIES];
	int32_t pages[REF_PAGES];
	struct give g;
	struct ref_give ref;
	struct fault f;
	int got;

	n = pick(s, known, (uint32_t)c->list[1], (uint32_t)c->list[0], pages);
	if (n == 0)
		pages[n++] = c->list[1] % s->groups[known].class->num_pages;
	spoil_pages(s->groups[known].class, c, pages, n);
	for (uint32_t i = 0; i < c->n; i++) {
		fences[i] = fence_of(w, c->session, c->entries[i].fence, (uint32_t)c->entries[i].request);
		if (fences[i].kind == WIRE_FENCE_FAILED)
			fences[i].line = (uint32_t)c->entries[i].request;
	}
	g = (struct give){ .group = group, .n = n, .ids = pages, .fences = fences, .n_fences = c->n };
	ref = (struct ref_give){ .group = group, .n = n, .pages = pages, .fences = fences, .n_fences = c->n };
	got = pages_give(e->session, &g, e->armed, &f);
	compare_code(w, "pages_give", got, ref_give(s, &ref, e->armed), &f);
}

/* ---- pressure --------------------------------------------------------------------- */

void run_offer(struct world *w, const struct command *c)
{
	struct side *side = &w->sides[c->session];

	if ((uint64_t)c->value >= w->sessions[c->session].n_groups)
		return;
	side->offered[c->value] = (uint64_t)c->list[0];
	session_set_spare(side->session, (uint32_t)c->value, side->offered[c->value]);
}

static bool waits(const struct ref_pool *p, const struct ref_session *s)
{
	for (uint32_t i = 0; i < p->n_waits; i++)
		if (p->waits[i].session == s)
			return true;
	return false;
}

/* It lacks pages. */
static bool lacks(const struct ref_pool *p, const struct ref_session *s)
{
	return s->attached && !s->ended && (waits(p, s) || s->refused_until > p->stamp);
}

/* Bytes that the session is asked for: no more than it manages, and none of one that may not be asked. */
static uint64_t asked_of(struct world *w, uint32_t session, bool lacking)
{
	const struct ref_session *s = &w->sessions[session];
	uint64_t bytes = 0;

	for (uint32_t g = 0; g < s->n_groups; g++) {
		const struct ref_class *c = s->groups[g].class;
		int64_t taken = 0, wanted;
		uint64_t since;

		wanted = session_wanted_pages(w->sides[session].session, g, &since);
		for (int32_t id = 0; id < c->num_pages; id++)
			taken += c->page[id] == REF_LEASED && c->user[id] == s && c->taken[id] == g + 1;
		if (wanted < 0 || wanted > taken)
			ref_complain(&w->pool, "session %u is asked for %lld pages of group %u, and manages %lld",
				     session, (long long)wanted, g, (long long)taken);
		if (wanted > 0 && (!lacking || s->ended || waits(&w->pool, s)))
			ref_complain(&w->pool, "session %u is asked for pages, and %s", session,
				     lacking ? "waits for some itself" : "nobody lacks any");
		if (s->refused_until > w->pool.stamp && (uint64_t)wanted > w->sides[session].offered[g])
			ref_complain(&w->pool, "session %u was refused, and is asked for %lld pages of group %u",
				     session, (long long)wanted, g);
		if ((wanted > 0) != (since > 0) || since > w->pool.stamp)
			ref_complain(&w->pool, "session %u is asked for %lld pages since %llu", session,
				     (long long)wanted, (unsigned long long)since);
		w->n_asked += wanted > 0;
		bytes += (uint64_t)wanted * ref_whole(c);
	}
	return bytes;
}

void run_press(struct world *w)
{
	struct ref_pool *p = &w->pool;
	bool emptying[REF_EXTENTS];
	uint64_t asked[REF_QUOTAS] = { 0 };
	bool lacking = false;

	engine_press(w->engine);
	for (uint32_t i = 0; i < REF_SESSIONS; i++)
		lacking |= lacks(p, &w->sessions[i]);
	see_emptying(w, emptying);
	for (uint32_t x = 0; x < p->n_extents; x++)
		w->n_emptying += emptying[x] && !p->emptying[x];
	ref_emptying_learn(p, emptying, lacking);
	if (!p->error[0])
		see_ranges(w, emptying);
	for (uint32_t i = 0; i < REF_SESSIONS; i++)
		if (w->sessions[i].attached && w->sides[i].session)
			asked[w->sessions[i].quota - p->quotas] += asked_of(w, i, lacking);
	for (int i = 0; i < REF_QUOTAS; i++) {
		struct ref_quota *q = &p->quotas[i];
		uint64_t used = ref_used(p, q);

		if (asked[i] > (used > q->floor ? used - q->floor : 0))
			ref_complain(p, "model %d is asked for %llu bytes, uses %llu, and its floor is %llu", i,
				     (unsigned long long)asked[i], (unsigned long long)used,
				     (unsigned long long)q->floor);
	}
}
