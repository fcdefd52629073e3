/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission.c - pages that engine and model give to requests: begins, at once or
 * after a wait, and longer reservations
 */
#include "world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

/* What the engine has reserved for the request's sequences since a begin or reserve. */
static void learn_reserved(struct world *w, uint32_t session, struct ref_request *r)
{
	struct ref_session *s = &w->sessions[session];

	for (int32_t i = 0; i < r->n_seqs * (int32_t)s->n_groups && !w->pool.error[0]; i++) {
		struct wire_query_state q = { .seq = i / (int32_t)s->n_groups, .group = (uint32_t)i % s->n_groups };
		struct ref_seq *seq = &r->seqs[q.seq];
		int32_t wanted = seq->parts[q.group].n_free + r->more[q.group];
		struct wire_binding b[REF_HELD];
		struct wire_sequence_state state;
		int32_t pages[REF_HELD];
		uint32_t n = 0;
		struct fault f;

		if (sequence_query(w->sides[session].session, r->handle, &q, &state, b, REF_HELD, &n, &f) ||
		    state.n_reserved != (uint32_t)wanted || n < state.n_bound + state.n_reserved) {
			ref_complain(&w->pool, "sequence %d, group %u: %u pages reserved, it should be %d", q.seq,
				     q.group, n ? state.n_reserved : 0, wanted);
			return;
		}
		for (int32_t j = 0; j < wanted; j++)
			pages[j] = b[state.n_bound + (uint32_t)j].page;
		ref_learn(s, seq, q.group, pages, wanted);
	}
}

void admitted(struct world *w, uint32_t session, int32_t label, struct ref_request *r, uint64_t handle)
{
	struct ref_session *s = &w->sessions[session];

	if (handle == 0 || ref_find(s, handle) || ref_has_ended(s, handle))
		ref_complain(&w->pool, "handle %llx was given out before", (unsigned long long)handle);
	r->handle = handle;
	w->labels[label % WORLD_COMMANDS] = (struct label){ .handle = handle, .session = session };
	learn_reserved(w, session, r);
}

void run_begin(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	struct begin b = { .stream = c->stream,
			   .n_slots = c->n,
			   .max_tokens = c->value,
			   .slots = c->list,
			   .wait = c->new_batch > 0 ? (uint64_t)c->new_batch : 0,
			   .ticket = (uint64_t)c->request,
			   .unordered = c->flags & 1,
			   .pinned = c->flags & 2 };
	struct ref_begin ref = { .stream = b.stream,
				 .n = b.n_slots,
				 .max_tokens = b.max_tokens,
				 .slots = b.slots,
				 .wait = b.wait,
				 .ticket = b.ticket,
				 .unordered = b.unordered,
				 .pinned = b.pinned };
	uint64_t handle = 77;
	struct ref_request *r;
	struct fault f;
	int got = request_begin_waiting(w->sides[c->session].session, &b, &handle, &f);

	compare_extents(w, s, 0);
	compare_code(w, "request_begin", got, ref_begin(s, &ref, got, &r), &f);
	w->labels[c->request % WORLD_COMMANDS] = (struct label){ .session = c->session };
	if (w->pool.error[0])
		return;
	if (r)
		admitted(w, c->session, c->request, r, handle);
	else if (handle != 0)
		ref_complain(&w->pool, "a refused begin leaves handle %llx", (unsigned long long)handle);
}

void run_withdraw(struct world *w, const struct command *c)
{
	bool got = session_withdraw(w->sides[c->session].session, (uint64_t)c->value);

	if (got != ref_withdraw(&w->sessions[c->session], (uint64_t)c->value))
		ref_complain(&w->pool, "withdraw of begin %lld: the engine says %d", (long long)c->value, got);
}

void run_limit(struct world *w, const struct command *c)
{
	uint32_t quota = (uint32_t)c->value % REF_QUOTAS;
	uint64_t low = (uint64_t)c->list[0], high = (uint64_t)c->list[1];
	const uint64_t *floor = c->list[0] < 0 ? NULL : &low, *ceiling = c->list[1] < 0 ? NULL : &high;
	struct fault f;
	int got = engine_limit(w->engine, quota_name(quota), floor, ceiling, &f);

	compare_code(w, "engine_limit", got, ref_limit(&w->pool, quota, floor, ceiling, got), &f);
}

static void see_claims(const struct world *w, struct ref_claim_seen *seen)
{
	for (uint32_t i = 0; i < REF_QUOTAS; i++) {
		struct quota_counts n = { 0 };

		seen[i].claims = engine_quota_of(w->engine, quota_name(i), &n) && n.claims;
		seen[i].since = n.since;
		for (uint32_t x = 0; x < REF_EXTENTS; x++)
			seen[i].class_of[x] = engine_claim_extent(w->engine, quota_name(i), x);
		seen[i].class_of[REF_NOWHERE] = -1;
		for (uint32_t c = 0; c < REF_CLASSES; c++)
			seen[i].kept[c] = engine_claim_kept(w->engine, quota_name(i), c);
	}
}

/* The begin of @a is answered. */
static void take_answer(struct world *w, const struct admission *a)
{
	struct ref_pool *p = &w->pool;
	struct ref_request *r;
	struct ref_wait was = { 0 };
	uint32_t session = 0;

	while (session < REF_SESSIONS && w->sides[session].session != a->session)
		session++;
	if (session == REF_SESSIONS) {
		ref_complain(p, "a begin is answered in no session");
		return;
	}
	p->command++;
	count_spare(w, session);
	compare_extents(w, &w->sessions[session], 0);
	compare_code(w, "a begin that waited", a->code,
		     ref_answer(&w->sessions[session], a->ticket, a->code, a->n_pages, &r, &was), &a->fault);
	if (was.takes != a->took)
		ref_complain(p, "a take is answered as a begin, or a begin as a take");
	w->n_waited += a->code == SWAKV_OK;
	if (was.takes && !a->code && !p->error[0])
		learn_taken(w, session, &was.take, a->pages, a->n_pages);
	if (r && !p->error[0])
		admitted(w, session, (int32_t)a->ticket, r, a->handle);
}

void look_at_claims(void *arg)
{
	struct world *w = arg;
	struct ref_claim_seen seen[REF_QUOTAS];

	memcpy(w->pool.held, w->pool.holder, sizeof w->pool.held);
	compare_extents(w, &w->sessions[0], 0);
	ref_claims_pass(&w->pool);
	see_claims(w, seen);
	w->n_claims += ref_claims_learn(&w->pool, seen);
}

/* Begins that have waited and are answered now; none may be left that should be. */
void answer_waiting(struct world *w)
{
	struct ref_pool *p = &w->pool;
	struct ref_claim_seen seen[REF_QUOTAS];
	struct admission a;

	do {
		if (engine_admit(w->engine, &a))
			take_answer(w, &a);
		else if (!engine_due(w->engine) || engine_due(w->engine) > p->stamp)
			break;
		ref_claims_forget(p);
	} while (!p->error[0]);
	see_claims(w, seen);
	ref_claims_check(p, seen);
	p->counting = false;
	for (uint32_t i = 0; i < p->n_waits && !p->error[0]; i++) {
		count_spare(w, (uint32_t)(p->waits[i].session - w->sessions));
		if (p->stamp >= p->waits[i].deadline || p->waits[i].session->poisoned || p->waits[i].withdrawn ||
		    ref_should_begin(p, &p->waits[i]))
			ref_complain(
				p, "begin %llu waits: its time is up, its session is poisoned, or there is room for it",
				(unsigned long long)p->waits[i].ticket);
	}
	p->counting = true;
}

void run_reserve(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	uint64_t handle = handle_of(w, c->request);
	struct ref_request *r;
	struct fault f;
	int got = request_reserve(w->sides[c->session].session, handle, c->value, &f);

	compare_extents(w, s, 0);
	compare_code(w, "reserve", got, ref_reserve(s, handle, c->value, got, &r), &f);
	if (r && !w->pool.error[0])
		learn_reserved(w, c->session, r);
}
