/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - see slice.h */
#include "slice.h"

#include "bug.h"

void slice_init(struct slice *w, uint32_t most)
{
	w->most = most < 3 ? 3 : most;
	w->part = most < 8 ? 1 : most / 8;
}

void engine_on_pause(struct engine *e, uint32_t slice, void (*pause)(void *arg), void *arg)
{
	slice_init(&e->slice, slice ? slice : ENGINE_SLICE);
	e->slice.pause = pause;
	e->slice.arg = arg;
}

void engine_looked(struct engine *e)
{
	struct slice *w = &e->slice;

	w->longest = engine_longest(e);
	w->before = 0;
	w->spent = 0;
	w->uncut = 0;
}

uint32_t engine_spent(const struct engine *e)
{
	return e->slice.before + e->slice.spent;
}

uint32_t engine_longest(const struct engine *e)
{
	uint32_t spent = engine_spent(e) - e->slice.uncut;

	return spent > e->slice.longest ? spent : e->slice.longest;
}

uint64_t engine_pauses(const struct engine *e)
{
	return e->slice.pauses;
}

bool session_busy(const struct session *s)
{
	return s->busy;
}

/* The next slice begins. */
static void begin_slice(struct slice *w)
{
	w->before += w->spent;
	w->spent = 0;
}

static void pause_now(struct engine *e)
{
	struct slice *w = &e->slice;

	begin_slice(w);
	if (w->paused) /* a command that is served in a pause was to be a short one */
		return;
	if (!w->pause) {
		engine_looked(e);
		return;
	}
	w->pauses++;
	w->paused = true;
	w->pause(w->arg);
	w->paused = false;
	begin_slice(w);
}

void slice_pause(struct session *s)
{
	bool busy = s->busy;

	s->busy = true;
	pause_now(s->engine);
	s->busy = busy;
}

void engine_spend(struct engine *e, uint32_t n)
{
	e->slice.spent += n;
	if (e->slice.spent > e->slice.most - 2 * e->slice.part)
		pause_now(e);
}

void group_promise(struct session *s, const int64_t *needs)
{
	FOR_EACH_GROUP (g, s) {
		int32_t n = (int32_t)needs[g->index]; /* so many are free */

		page_class_promise(g->class, n);
		g->n_promised += n;
		g->n_held += n;
		g->n_taken += (uint64_t)n;
	}
}

void group_take_promised(struct session *s, struct group *g, int32_t *out, int32_t n)
{
	MUST(g->n_promised >= n);
	while (n > 0) {
		int32_t part = slice_part(s, n);

		n -= part; /* the last place is filled first */
		page_class_place(g->class, out + n, part);
		g->n_promised -= part;
		slice_spend(s, SLICE_PLACE * part);
	}
}
