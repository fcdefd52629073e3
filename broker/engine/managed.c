/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed.c - see managed.h
 *
 * A give is checked to its end before the first page moves: each bit is taken
 * away as its page is seen, so that a page that is named twice is found, and put
 * back when the give is refused. The session's own next command waits meanwhile.
 */
#include "managed.h"
#include "dirty.h"

#include "admission.h"
#include "fence.h"
#include "internal.h"
#include "quarantine.h"
#include "slice.h"
#include "strip.h"
#include "transition.h"
#include "wait.h"

size_t managed_words(const struct session *s, const struct group *g)
{
	return ((size_t)s->geometry[g->index].num_pages + STRIP_WORD - 1) / STRIP_WORD;
}

static bool is_managed(const struct group *g, struct strip s)
{
	return s.first >= 0 && s.first <= g->class->num_pages - s.n && strip_is_set(g->managed, s);
}

/* ---- take ------------------------------------------------------------------------ */

static int check_take(const struct session *s, const struct take *t, struct fault *f)
{
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	if (t->group >= s->n_groups)
		return fault_set(f, FAULT_GROUP_RANGE, -1, t->group, (int64_t)s->n_groups - 1);
	if (t->min < 1 || t->min > t->max || t->max > WIRE_MAX_PAGES)
		return fault_set(f, FAULT_TAKE_COUNT, -1, t->min, t->max);
	if (t->flags & ~(uint32_t)WIRE_TAKE_OVERWRITES)
		return fault_set(f, FAULT_TAKE_FLAGS, -1, t->flags, 0);
	return 0;
}

static __attribute__((noinline)) int provide_beside(struct session *s, uint32_t group, int64_t n, struct fault *f)
{
	int64_t needs[WIRE_MAX_GROUPS] = { 0 };

	needs[group] = n;
	return session_provide(s, needs, NULL, CLAIMS_ALL, f);
}

static inline int provide(struct session *s, uint32_t group, int64_t n, struct fault *f)
{
	const struct engine *e = s->engine;

	/* Nothing is kept for anybody, and nothing has to move: as most often. */
	if (n <= s->groups[group].class->n_free && !e->n_floors && !e->n_claims && !s->quota->ceiling)
		return 0;
	return provide_beside(s, group, n, f);
}

/* As many pages as can be had are free: *@n of them. */
static int provide_most(struct session *s, const struct take *t, uint32_t *n, struct fault *f)
{
	int code = provide(s, t->group, *n = t->max, f);
	int64_t most;

	if (t->min == t->max || (code != SWAKV_ENOPAGES && code != SWAKV_ENEVER))
		return code;
	most = session_takeable_pages(s, t->group);
	most = most < t->max ? most : t->max - 1;
	if (most > t->min && provide(s, t->group, *n = (uint32_t)most, f) == 0)
		return 0;
	return provide(s, t->group, *n = t->min, f);
}

/* The session has the pages of @strip, which @ids names: those that are dirty become their complements. */
static inline void note_taken(struct group *g, uint32_t flags, struct strip strip, int32_t *ids)
{
	struct page_class *c = g->class;

	strip_set(g->managed, strip);
	if (c->scrub != WIRE_SCRUB_NEVER)
		g->n_scrubbed +=
			(uint64_t)page_class_bind_strip(c, strip, g->serial, !(flags & WIRE_TAKE_OVERWRITES), ids);
}

static __attribute__((noinline)) void promise(struct session *s, uint32_t group, int64_t n)
{
	int64_t needs[WIRE_MAX_GROUPS] = { 0 };

	needs[group] = n;
	group_promise(s, needs);
}

/* The pages are free. */
static inline void take(struct session *s, const struct take *t, int32_t *ids, int32_t n)
{
	struct group *g = &s->groups[t->group];
	struct strip strip;

	if (!slice_holds(s, (SLICE_PLACE + 1) * (int64_t)n))
		promise(s, t->group, n);
	group_take(s, g, ids, n);
	for (int32_t i = 0; i < n; i += strip.n) {
		strip = strip_find(ids + i, slice_share(s, n - i));
		note_taken(g, t->flags, strip, ids + i);
		slice_spend(s, strip.n);
	}
	g->n_managed += n;
	s->change++;
	press_given(s);
}

/* Takes what can be had now. Not @in_turn: nothing, as others of the model wait. */
static int admit(struct session *s, const struct take *t, bool in_turn, int32_t *ids, uint32_t *n, struct fault *f)
{
	int code = check_take(s, t, f);

	*n = 0;
	if (code)
		return code;
	if (!in_turn)
		return fault_set(f, FAULT_QUEUE, -1, s->quota->n_waiting, 0);
	code = provide_most(s, t, n, f);
	if (code)
		*n = 0;
	else
		take(s, t, ids, (int32_t)*n);
	return code;
}

int pages_admit(struct session *s, const struct take *t, int32_t *ids, uint32_t *n, struct fault *f)
{
	return admit(s, t, true, ids, n, f);
}

/* There are no pages for it now. */
static __attribute__((noinline)) int wait_or_refuse(struct session *s, const struct take *t, bool in_turn,
						    struct fault *f)
{
	int64_t needs[WIRE_MAX_GROUPS] = { 0 };
	int code;

	needs[t->group] = t->min;
	code = wait_or_not(s, SWAKV_ENOPAGES, in_turn, t->wait, needs, f);
	return code == SWAKV_EAGAIN ? wait_add_take(s, t, needs, f) : code;
}

int pages_take(struct session *s, const struct take *t, int32_t *ids, uint32_t *n, struct fault *f)
{
	bool in_turn = !wait_holds_up(s->quota);
	int code = admit(s, t, in_turn, ids, n, f);

	return code == SWAKV_ENOPAGES ? wait_or_refuse(s, t, in_turn, f) : code;
}

/* ---- give ------------------------------------------------------------------------ */

/* What the fences of a give come to. */
struct proofs {
	uint32_t n; /* values that are not reached */
	struct line_value values[WIRE_MAX_STREAMS];
	uint64_t failed; /* a bit for each line whose work has failed */
};
_Static_assert(WIRE_MAX_STREAMS <= 64, "a bit for each");

static int check_fence(const struct session *s, const struct wire_fence *fence, const uint64_t *armed, struct proofs *p,
		       struct fault *f)
{
	uint32_t line = fence->kind == WIRE_FENCE_DONE ? 0 : fence->line;
	struct resolved_fence r;
	int code;

	if (line >= s->model.n_streams)
		return fault_set(f, FAULT_STREAM_RANGE, -1, line, s->model.n_streams - 1);
	code = fence_resolve_line(s, line, fence, armed[line], &r, f);
	if (code)
		return code;
	if (r.failed)
		p->failed |= UINT64_C(1) << line;
	else if (!r.reached)
		p->values[p->n++] = (struct line_value){ line, r.value };
	return 0;
}

static int check_give(const struct session *s, const struct give *give, const uint64_t *armed, struct proofs *p,
		      struct fault *f)
{
	int code = 0;

	p->n = 0;
	p->failed = 0;
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (give->group >= s->n_groups)
		return fault_set(f, FAULT_GROUP_RANGE, -1, give->group, (int64_t)s->n_groups - 1);
	if (give->n < 1 || give->n > WIRE_MAX_PAGES)
		return fault_set(f, FAULT_GIVE_COUNT, -1, give->n, WIRE_MAX_PAGES);
	if (give->n_fences > s->model.n_streams)
		return fault_set(f, FAULT_GIVE_FENCES, -1, give->n_fences, s->model.n_streams);
	for (uint32_t i = 0; i < give->n_fences && !code; i++)
		code = check_fence(s, &give->fences[i], armed, p, f);
	return code;
}

/* The first @n pages of @ids are the session's again. */
static void undo_given(struct session *s, struct group *g, const int32_t *ids, int32_t n)
{
	struct strip strip;

	for (int32_t i = 0; i < n; i += strip.n) {
		strip = strip_find(ids + i, slice_share(s, n - i));
		strip_set(g->managed, strip);
		slice_spend(s, strip.n);
	}
}

static int refuse_page(struct session *s, const struct group *g, const int32_t *ids, int32_t i, struct fault *f)
{
	bool twice = false;

	for (int32_t k = 0, end; k < i && !twice;) {
		end = k + slice_part(s, i - k);
		slice_spend(s, end - k);
		for (; k < end && !twice; k++)
			twice = ids[k] == ids[i];
	}
	if (twice)
		return fault_set(f, FAULT_GIVE_TWICE, -1, ids[i], 0);
	return fault_set(f, FAULT_GIVE_PAGE, -1, ids[i], g->index);
}

/* How many of the @ids in @strip, which lie side by side, are the session's, from the first on. */
static int32_t managed_first(const struct group *g, const int32_t *ids, struct strip strip)
{
	int32_t n = 0;

	while (n < strip.n && is_managed(g, (struct strip){ ids[n], 1, false }))
		n++;
	return n;
}

/* The pages are the session's no longer. 0, or the code of why one of them never was: then nothing has changed. */
static int note_given(struct session *s, struct group *g, const struct give *give, struct fault *f)
{
	int32_t n = (int32_t)give->n;
	struct strip strip;

	for (int32_t i = 0; i < n; i += strip.n) {
		strip = strip_find(give->ids + i, slice_share(s, n - i));
		if (!is_managed(g, strip)) {
			int32_t wrong = i + managed_first(g, give->ids + i, strip);
			int code = refuse_page(s, g, give->ids, wrong, f);

			undo_given(s, g, give->ids, i);
			return code;
		}
		strip_clear(g->managed, strip);
		slice_spend(s, strip.n);
	}
	g->n_managed -= n;
	return 0;
}

/* Work of all lines in @p may touch what is in the quarantine of the one that it returns; the first when none does. */
static uint32_t doubt_lines(struct session *s, const struct proofs *p)
{
	uint64_t lines = p->failed;

	for (uint32_t i = 0; i < p->n; i++)
		lines |= UINT64_C(1) << p->values[i].line;
	for (uint32_t i = 0; i < s->model.n_streams; i++)
		s->lines[i].doubtful |= lines >> i & 1;
	return lines ? (uint32_t)__builtin_ctzll(lines) : 0;
}

/* Of @n pages that it gives: so many are those that it is asked for, and has not given since. */
static uint64_t still_wanted(const struct group *g, uint64_t n)
{
	uint64_t since = g->n_given - g->given_seen, wanted = (uint64_t)g->wanted;

	if (since >= wanted)
		return 0;
	return n < wanted - since ? n : wanted - since;
}

int pages_give(struct session *s, const struct give *give, const uint64_t *armed, struct fault *f)
{
	struct page_chains chains;
	struct proofs p;
	struct group *g;
	bool failed;
	int code = check_give(s, give, armed, &p, f);

	if (code)
		return code;
	g = &s->groups[give->group];
	if ((code = note_given(s, g, give, f)))
		return code;
	failed = p.failed || s->poisoned;
	if (!failed && p.n > points_spare(s)) {
		undo_given(s, g, give->ids, (int32_t)give->n);
		g->n_managed += give->n;
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	}
	s->change++;
	g->n_yielded += still_wanted(g, give->n);
	g->n_given += give->n;
	if (p.n == 0 && !failed) {
		pages_out(s, g, give->ids, (int32_t)give->n, NULL);
		return 0;
	}
	page_chains_init(&chains, s->n_groups);
	pages_out(s, g, give->ids, (int32_t)give->n, &chains.of[g->index]);
	if (!failed) {
		pages_release_behind(s, p.values, p.n, &chains);
		return 0;
	}
	pages_quarantine(s, doubt_lines(s, &p), &chains);
	if (!p.failed)
		return 0;
	s->poisoned = true;
	session_refuse_waiting(s, FAULT_POISONED);
	return fault_set(f, FAULT_GIVE_FAILED, -1, give->n, 0);
}

/* ---- all of them ------------------------------------------------------------------- */

int64_t session_managed_pages(const struct session *s, uint32_t group)
{
	return s->groups[group].n_managed;
}

/* The pages of word @w. */
static void dissolve_word(struct session *s, struct group *g, size_t w, struct page_chain *chain)
{
	for (uint64_t word = g->managed[w]; word; word &= word - 1) {
		page_chain_add(g->class, chain, (int32_t)(w * STRIP_WORD) + __builtin_ctzll(word), -1);
		slice_spend(s, 1);
	}
	g->managed[w] = 0;
}

void managed_dissolve(struct session *s)
{
	FOR_EACH_GROUP (g, s) {
		struct page_chains chains;
		int32_t left = slice_part(s, INT32_MAX);

		if (g->n_managed == 0)
			continue;
		page_chains_init(&chains, s->n_groups);
		for (size_t w = 0; w < managed_words(s, g); w++) {
			dissolve_word(s, g, w, &chains.of[g->index]);
			slice_step(s, &left, 1);
		}
		slice_rest(s, left);
		g->n_managed = 0;
		/* Of any line: an end waits for all of them. */
		pages_quarantine(s, 0, &chains);
	}
}
