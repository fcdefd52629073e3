/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - pages that sessions take and give themselves, in the reference model (spec section 8) */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

enum { REFUSED_FOR = 1000 }; /* ms, of which a stamp is one */

int ref_heard(int said)
{
	return said == SWAKV_EAGAIN || said == SWAKV_EPENDING || said == SWAKV_EBUSY ? SWAKV_ENOPAGES : said;
}

void ref_note_refused(struct ref_session *s)
{
	s->refused_until = s->pool->stamp + REFUSED_FOR;
}

/* ---- take ------------------------------------------------------------------------- */

int ref_take_check(const struct ref_session *s, const struct ref_take *t)
{
	if (s->ended)
		return SWAKV_EGONE;
	if (s->poisoned)
		return SWAKV_EPOISONED;
	if (t->group >= s->n_groups || t->min < 1 || t->min > t->max || t->max > WIRE_MAX_PAGES)
		return SWAKV_EINVALID;
	return t->flags & ~(uint32_t)WIRE_TAKE_OVERWRITES ? SWAKV_EINVALID : SWAKV_OK;
}

static int code_of(struct ref_session *s, const struct ref_take *t, int64_t n, const struct ref_wait *wait, int said)
{
	int64_t need[REF_CLASSES] = { 0 };

	need[s->groups[t->group].class_index] = n;
	return ref_admit(s, need, need, false, wait, said);
}

/* Nothing is kept for anybody, so what is free can be had. */
static bool nothing_kept(const struct ref_pool *p)
{
	for (int i = 0; i < REF_QUOTAS; i++)
		if (p->quotas[i].floor || p->quotas[i].claim.session)
			return false;
	return true;
}

int ref_take_code(struct ref_session *s, const struct ref_take *t, const struct ref_wait *wait, int said, uint32_t n)
{
	int code = ref_take_check(s, t);

	if (code)
		return code;
	code = code_of(s, t, t->min, wait, said);
	if (code || said)
		return code;
	if (n < t->min || n > t->max)
		ref_complain(s->pool, "a take of %u to %u pages got %u", t->min, t->max, n);
	else if (code_of(s, t, n, wait, SWAKV_OK))
		ref_complain(s->pool, "a take got %u pages, which it may not have", n);
	else if (n < t->max && nothing_kept(s->pool) && code_of(s, t, n + 1, wait, SWAKV_ENOPAGES) == SWAKV_OK)
		ref_complain(s->pool, "a take of %u to %u pages got %u, and there are more", t->min, t->max, n);
	return SWAKV_OK;
}

int ref_take(struct ref_session *s, const struct ref_take *t, int said, uint32_t n)
{
	int code = ref_take_check(s, t), heard = ref_heard(said);
	bool in_turn = !ref_holds_up(s->pool, s->quota);
	int64_t need[REF_CLASSES] = { 0 };

	if (code)
		return code;
	need[s->groups[t->group].class_index] = t->min;
	if (in_turn)
		code = ref_take_code(s, t, NULL, heard, n);
	else
		code = ref_too_much(s, need, heard) ? SWAKV_ENEVER : SWAKV_ENOPAGES;
	if (code == SWAKV_ENOPAGES && t->wait)
		return ref_wait_to_take(s, t);
	if (code == SWAKV_ENOPAGES)
		ref_note_refused(s);
	return code == SWAKV_ENOPAGES && in_turn && ref_waits_for_itself(s, need) ? SWAKV_EPENDING : code;
}

/* Who takes it would find in it what it may not see. */
static bool is_dirty(const struct ref_session *s, const struct ref_group *o, int32_t id, bool overwrites)
{
	const struct ref_class *c = o->class;

	if (s->pool->scrub == WIRE_SCRUB_NEVER)
		return false;
	if (c->writer[id] == 0)
		return s->pool->fresh_is_dirty;
	return !overwrites || s->pool->scrub == WIRE_SCRUB_ALWAYS || c->writer[id] != o->name;
}

void ref_taken(struct ref_session *s, const struct ref_take *t, const int32_t *pages, uint32_t n, bool vague)
{
	struct ref_group *o = &s->groups[t->group];
	struct ref_class *c = o->class;

	s->refused_until = 0;
	for (uint32_t i = 0; i < n && !s->pool->error[0]; i++) {
		int32_t id = pages[i] < 0 ? ~pages[i] : pages[i];
		bool scrubs = pages[i] < 0, dirty;

		ref_lease(s, t->group, id);
		if (s->pool->error[0])
			return;
		dirty = is_dirty(s, o, id, t->flags & WIRE_TAKE_OVERWRITES);
		if (dirty != scrubs && !(scrubs && vague))
			ref_complain(s->pool, "a take gets page %d, which is %sdirty, and %s", id, dirty ? "" : "not ",
				     scrubs ? "scrubs it" : "does not scrub it");
		c->taken[id] = (uint8_t)(t->group + 1);
		c->writer[id] = o->name;
		c->written[id] = true;
	}
}

/* ---- give ------------------------------------------------------------------------- */

/* What the fences of a give come to. */
struct proof {
	uint64_t until[REF_STREAMS];
	uint32_t open;                /* values that are not reached */
	bool failed, of[REF_STREAMS]; /* lines whose work may not have ended */
};

static int read_fence(const struct ref_session *s, const struct wire_fence *f, const uint64_t *armed, struct proof *p)
{
	if (f->kind == WIRE_FENCE_DONE)
		return SWAKV_OK;
	if ((f->kind != WIRE_FENCE_LINE && f->kind != WIRE_FENCE_FAILED) || f->line >= s->n_streams)
		return SWAKV_EINVALID;
	if (f->kind == WIRE_FENCE_LINE && f->value > armed[f->line])
		return SWAKV_EINVALID;
	if (f->kind == WIRE_FENCE_LINE && f->value <= s->word[f->line])
		return SWAKV_OK;
	p->of[f->line] = true;
	if (f->kind == WIRE_FENCE_FAILED) {
		p->failed = true;
		return SWAKV_OK;
	}
	p->open++;
	if (f->value > p->until[f->line])
		p->until[f->line] = f->value;
	return SWAKV_OK;
}

static int give_check(const struct ref_session *s, const struct ref_give *g, const uint64_t *armed, struct proof *p)
{
	memset(p, 0, sizeof *p);
	if (s->ended)
		return SWAKV_EGONE;
	if (g->group >= s->n_groups || g->n < 1 || g->n > WIRE_MAX_PAGES || g->n_fences > s->n_streams)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < g->n_fences; i++)
		if (read_fence(s, &g->fences[i], armed, p))
			return SWAKV_EINVALID;
	for (uint32_t i = 0; i < g->n; i++) {
		const struct ref_class *c = s->groups[g->group].class;
		int32_t id = g->pages[i];

		if (id < 0 || id >= c->num_pages || c->page[id] != REF_LEASED || c->user[id] != s ||
		    c->taken[id] != g->group + 1)
			return SWAKV_EINVALID;
		for (uint32_t k = 0; k < i; k++)
			if (g->pages[k] == id)
				return SWAKV_EINVALID;
	}
	return !p->failed && !s->poisoned && p->open > s->spare ? SWAKV_EPENDING : SWAKV_OK;
}

/* The page of a group leaves the session. */
static void give_page(struct ref_session *s, uint32_t g, int32_t id, const struct proof *p)
{
	struct ref_class *c = s->groups[g].class;
	uint32_t line = 0;

	c->taken[id] = 0;
	s->pool->change++;
	while (line < s->n_streams && !p->of[line])
		line++;
	if (p->failed || s->poisoned) {
		ref_quarantine(s, g, id, line % s->n_streams);
	} else if (p->open == 0) {
		ref_release(c, s->pool, id);
	} else if (s->n_tails == REF_TAILS) {
		ref_complain(s->pool, "the model has no room for another page behind a point");
	} else {
		s->tails[s->n_tails] = (struct ref_tail){ .group = g, .page = id };
		memcpy(s->tails[s->n_tails++].until, p->until, sizeof p->until);
	}
}

int ref_give(struct ref_session *s, const struct ref_give *g, const uint64_t *armed)
{
	struct proof p;
	int code = give_check(s, g, armed, &p);

	if (code)
		return code;
	for (uint32_t i = 0; i < g->n; i++)
		give_page(s, g->group, g->pages[i], &p);
	for (uint32_t i = 0; i < REF_STREAMS && (p.failed || s->poisoned); i++)
		s->doubtful[i] |= p.of[i];
	s->poisoned |= p.failed;
	return p.failed ? SWAKV_EPOISONED : SWAKV_OK;
}
