/* SPDX-License-Identifier: Apache-2.0 */
/* hold.c - see hold.h */
#include "hold.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "deliver.h"
#include "life_read.h"
#include "worker.h"

static struct wire_board *board_of(const struct worker *v, uint32_t group)
{
	return (struct wire_board *)(v->shared->session + v->shared->layout.boards) + group;
}

static const struct geometry *geometry_of(const struct worker *v, uint32_t group)
{
	return &v->gpu.geometry[group];
}

static bool reached(const struct worker *v, const struct hold_page *p, uint32_t stream)
{
	return load_acquire(&v->gpu.streams[stream].line->word) >= p->until[stream];
}

/* ---- whose a page is ------------------------------------------------------------------ */

static void drop_all(struct worker *v)
{
	for (uint32_t i = 0; i < v->hold.n; i++)
		memory_give(&v->world->memory, geometry_of(v, v->hold.pages[i].group), v->hold.pages[i].page);
	v->hold.n = 0;
}

void hold_start(struct worker *v)
{
	struct rng *r = &v->world->rng;

	v->hold.manages = world_fault(v->world, SIM_TAKES);
	v->hold.alone = v->hold.manages && rng_one_in(r, 2);
	v->hold.most = (uint32_t)rng_between(r, 4, HOLD_PAGES);
	v->hold.yields = !rng_one_in(r, 4);
	v->hold.keeps = rng_one_in(r, 3);
}

void hold_let_go(struct worker *v)
{
	v->hold.let_go = true;
	if (!members_may_run(v))
		drop_all(v);
}

void hold_member_ended(struct worker *v)
{
	if (v->hold.let_go && !members_may_run(v))
		drop_all(v);
}

void hold_end(struct worker *v)
{
	drop_all(v);
}

void hold_check_bound(struct worker *v, uint32_t group, int32_t page)
{
	uint32_t who = page < 0 ? 0 : memory_taker(&v->world->memory, geometry_of(v, group), page);

	if (who)
		world_break(v->world, "page %d of group %u is bound for worker %u, and worker %u has taken it", page,
			    group, v->number, who);
}

static void note_taken(struct worker *v, const struct hold_page *p)
{
	struct world *w = v->world;
	uint32_t who = memory_take(&w->memory, geometry_of(v, p->group), p->page, v->number);

	if (who)
		world_break(w, "worker %u took page %d of group %u, and worker %u has some of it", v->number, p->page,
			    p->group, who);
	v->hold.pages[v->hold.n++] = *p;
}

/* ---- take -------------------------------------------------------------------------------- */

static void take(struct worker *v)
{
	struct rng *r = &v->world->rng;
	struct wire_take t = {
		.group = (uint32_t)rng_between(r, 0, v->model->n_groups - 1),
		.stream = (uint32_t)rng_between(r, 0, v->model->n_streams - 1),
		.flags = rng_one_in(r, 2) ? WIRE_TAKE_OVERWRITES : 0,
	};
	uint32_t coming = v->hold.n + v->hold.n_takes * HOLD_ASKS, max;
	struct message m;
	struct call *c;

	if (coming >= v->hold.most)
		return;
	max = v->hold.most - coming < HOLD_ASKS ? v->hold.most - coming : HOLD_ASKS;
	max = (uint32_t)rng_between(r, 1, max);
	t.min = rng_one_in(r, 2) ? max : (uint32_t)rng_between(r, 1, max);
	if (rng_one_in(r, 2))
		t.wait_ms = (uint32_t)rng_between(r, 1, rng_one_in(r, 3) ? 8000 : 60);
	message_begin(&m, WIRE_OP_TAKE, 0);
	message_add(&m, &t, sizeof(t));
	c = message_send(v, &m, max);
	if (!c)
		return;
	c->hold = (struct hold_call){ .group = t.group,
				      .stream = t.stream,
				      .flags = t.flags,
				      .min = t.min,
				      .max = max,
				      .wait_ns = t.wait_ms * NS_PER_MS };
	if (t.wait_ms)
		call_may_wait(v, c);
	v->hold.n_takes++;
}

static void refused_take(struct worker *v, const struct call *c, const struct fault *f)
{
	struct world *w = v->world;
	char text[256];

	if (f->code == SWAKV_ENOPAGES && !c->withdrawn && w->healing &&
	    c->sent + c->hold.wait_ns > w->healed + SERVED_NS)
		world_break(w,
			    "worker %u: a take of %u pages that waited was not served though nothing failed any more",
			    v->number, c->hold.min);
	if (f->code == SWAKV_ENOPAGES || f->code == SWAKV_EPENDING || f->code == SWAKV_ENEVER ||
	    f->code == SWAKV_EBUSY || (f->code == SWAKV_EPOISONED && v->poisoned) ||
	    (f->reason == FAULT_DRAINED && orders_drained(w, v->model_index, c->sent)))
		return;
	fault_format(f, text, sizeof(text));
	world_break(w, "worker %u: a take of %u to %u pages was refused with %s: %s", v->number, c->hold.min,
		    c->hold.max, swakv_error_name(f->code), text);
}

/* Zeroes over the dirty ones, on the stream that the take named. */
static void scrub(struct worker *v, const struct call *c, const int32_t *ids, uint32_t n)
{
	struct gpu_update *dirty = malloc((n + 1) * sizeof(*dirty));
	uint32_t n_dirty = 0;
	uint64_t value;

	for (uint32_t i = 0; i < n; i++)
		if (ids[i] < 0)
			dirty[n_dirty++] = (struct gpu_update){ .group = c->hold.group, .page = ~ids[i] };
	if (n_dirty == 0) {
		free(dirty);
		return;
	}
	deliver_arm(v, c->hold.stream);
	gpu_scrub(&v->gpu, c->hold.stream, dirty, n_dirty);
	value = deliver_mark(v, c->hold.stream);
	for (uint32_t i = 0; i < n; i++)
		if (ids[i] < 0)
			v->hold.pages[v->hold.n - n + i].until[c->hold.stream] = value;
}

void hold_read_take(struct worker *v, const struct call *c, const struct message *m, const struct fault *f)
{
	const struct wire_reply *head = (const struct wire_reply *)m->bytes;
	const int32_t *ids = (const int32_t *)(m->bytes + sizeof(*head));
	struct world *w = v->world;

	v->hold.n_takes--;
	if (f) {
		refused_take(v, c, f);
		return;
	}
	if (head->n < c->hold.min || head->n > c->hold.max) {
		world_break(w, "worker %u asked for %u to %u pages and got %u", v->number, c->hold.min, c->hold.max,
			    head->n);
		return;
	}
	for (uint32_t i = 0; i < head->n; i++) {
		struct hold_page p = { .group = c->hold.group,
				       .page = ids[i] < 0 ? ~ids[i] : ids[i],
				       .clean = ids[i] < 0 || !(c->hold.flags & WIRE_TAKE_OVERWRITES) };

		if (!memory_has(&w->memory, geometry_of(v, p.group), p.page)) {
			world_break(w, "worker %u took page %d of group %u, which is none", v->number, p.page, p.group);
			return;
		}
		note_taken(v, &p);
	}
	w->taken += head->n;
	fair_check_admitted(v, c->sent);
	scrub(v, c, ids, head->n);
}

/* ---- use ---------------------------------------------------------------------------------- */

/* Those whose work on other streams is over are written, and read where they have been written before. */
static void use(struct worker *v)
{
	uint32_t stream = (uint32_t)rng_between(&v->world->rng, 0, v->model->n_streams - 1), n = 0;
	struct gpu_use *uses = malloc((v->hold.n + 1) * sizeof(*uses));
	uint64_t value;

	for (uint32_t i = 0; i < v->hold.n; i++) {
		struct hold_page *p = &v->hold.pages[i];
		bool may = rng_one_in(&v->world->rng, 2);

		for (uint32_t s = 0; s < v->model->n_streams; s++)
			may &= s == stream || reached(v, p, s);
		if (!may)
			continue;
		uses[n++] = (struct gpu_use){ p->group, p->page, p->uid, ++v->world->sequences, p->clean };
		p->uid = v->world->sequences;
	}
	if (n == 0) {
		free(uses);
		return;
	}
	deliver_arm(v, stream);
	gpu_use(&v->gpu, stream, uses, n, v->world->plan.kernel_ns);
	value = deliver_mark(v, stream);
	for (uint32_t i = 0; i < v->hold.n; i++)
		for (uint32_t k = 0; k < n; k++)
			if (v->hold.pages[i].uid == uses[k].after)
				v->hold.pages[i].until[stream] = value;
}

/* ---- give ---------------------------------------------------------------------------------- */

/* One for each stream whose uses may not be over, and at times for others; how many. */
static uint32_t make_fences(struct worker *v, const struct hold_call *c, struct wire_fence *fences, bool *failed)
{
	struct rng *r = &v->world->rng;
	uint32_t n = 0;

	*failed = !v->poisoned && world_fault(v->world, SIM_POISON);
	for (uint32_t s = 0; s < v->model->n_streams; s++) {
		uint64_t until = 0;

		for (uint32_t i = 0; i < c->n; i++)
			until = c->pages[i].until[s] > until ? c->pages[i].until[s] : until;
		if (load_acquire(&v->gpu.streams[s].line->word) < until)
			fences[n++] = (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = s, .value = until };
		else if (rng_one_in(r, 4))
			fences[n++] = (struct wire_fence){ .kind = rng_one_in(r, 2) ? WIRE_FENCE_LINE : WIRE_FENCE_DONE,
							   .line = s,
							   .value = v->marked[s] };
	}
	if (*failed && n == 0)
		n = 1;
	if (*failed)
		fences[0] =
			(struct wire_fence){ .kind = WIRE_FENCE_FAILED, .line = fences[0].line % v->model->n_streams };
	return n;
}

static struct call *send_give(struct worker *v, const struct hold_call *h, bool *failed)
{
	struct wire_give g = { .group = h->group };
	struct wire_fence fences[SIM_STREAMS] = { 0 };
	uint32_t n_fences = make_fences(v, h, fences, failed);
	struct message m;
	struct call *c;

	message_begin(&m, WIRE_OP_GIVE, n_fences);
	message_add(&m, &g, sizeof(g));
	message_add(&m, fences, n_fences * sizeof(fences[0]));
	for (uint32_t i = 0; i < h->n; i++)
		message_add(&m, &h->pages[i].page, sizeof(h->pages[i].page));
	c = message_send(v, &m, h->n);
	if (!c)
		return NULL;
	c->hold = *h;
	c->failed[0] = *failed;
	v->poisoned |= *failed;
	return c;
}

/* Up to @most pages of @group. */
static void give(struct worker *v, uint32_t group, uint32_t most)
{
	struct hold_call h = { .group = group };
	struct hold *o = &v->hold;
	uint32_t n = 0;
	bool failed;

	for (uint32_t i = 0; i < o->n && h.n < most && h.n < HOLD_GIVES; i++)
		if (o->pages[i].group == group)
			h.pages[h.n++] = o->pages[i];
	if (h.n == 0 || !send_give(v, &h, &failed))
		return;
	v->world->given += h.n;
	for (uint32_t i = 0, given = 0; i < o->n; i++) {
		bool goes = given < h.n && o->pages[i].group == group;

		if (goes)
			memory_give(&v->world->memory, geometry_of(v, group), o->pages[i].page);
		else
			o->pages[n++] = o->pages[i];
		given += goes;
	}
	o->n = n;
}

/* A page twice, or one that it has not: refused, and nothing changes. */
static void misuse(struct worker *v)
{
	struct rng *r = &v->world->rng;
	struct hold_call h = { .group = (uint32_t)rng_between(r, 0, v->model->n_groups - 1), .misuse = true };
	struct hold_page p = { .group = h.group };
	bool failed;

	for (uint32_t i = 0; i < v->hold.n && h.n < 3; i++)
		if (v->hold.pages[i].group == h.group)
			h.pages[h.n++] = v->hold.pages[i];
	if (h.n > 0 && rng_one_in(r, 2)) {
		h.pages[h.n++] = h.pages[0];
	} else {
		p.page = (int32_t)rng_between(r, -1, geometry_of(v, h.group)->num_pages);
		if (memory_has(&v->world->memory, geometry_of(v, h.group), p.page) &&
		    memory_taker(&v->world->memory, geometry_of(v, h.group), p.page) == v->number)
			return;
		h.pages[h.n++] = p;
	}
	if (send_give(v, &h, &failed) && failed) /* a refused call changes nothing: not even that */
		v->poisoned = false;
}

void hold_read_give(struct worker *v, const struct call *c, const struct fault *f)
{
	char text[256] = "accepted";

	if (c->hold.misuse && f && (f->reason == FAULT_GIVE_TWICE || f->reason == FAULT_GIVE_PAGE))
		return;
	if (!c->hold.misuse && (!f || (f->code == SWAKV_EPOISONED && c->failed[0])))
		return;
	if (!c->hold.misuse && f->code == SWAKV_EPENDING) { /* too many points: they are its own again */
		for (uint32_t i = 0; i < c->hold.n; i++)
			note_taken(v, &c->hold.pages[i]);
		return;
	}
	if (f)
		fault_format(f, text, sizeof(text));
	world_break(v->world, "worker %u: a give of %u pages of group %u%s was answered: %s", v->number, c->hold.n,
		    c->hold.group, c->hold.misuse ? ", not all of them its own," : "", text);
}

/* ---- what it does --------------------------------------------------------------------------- */

static uint32_t held_of(const struct worker *v, uint32_t group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->hold.n; i++)
		n += v->hold.pages[i].group == group;
	return n;
}

/* What it is asked for it gives, perhaps. */
static bool yield(struct worker *v)
{
	for (uint32_t g = 0; g < v->model->n_groups; g++) {
		uint64_t wanted = load_relaxed(&board_of(v, g)->wanted);

		if (!wanted)
			continue;
		v->world->asked++;
		if (!v->hold.yields || held_of(v, g) == 0)
			continue;
		give(v, g, wanted < HOLD_GIVES ? (uint32_t)wanted : HOLD_GIVES);
		return true;
	}
	return false;
}

/* Any number may stand there. */
static void offer(struct worker *v)
{
	uint32_t g = (uint32_t)rng_between(&v->world->rng, 0, v->model->n_groups - 1);
	uint64_t n = (uint64_t)rng_between(&v->world->rng, 0, held_of(v, g));

	store_relaxed(&board_of(v, g)->offered, world_fault(v->world, SIM_FORGED) ? rng_next(&v->world->rng) : n);
}

bool hold_is_over(const struct worker *v)
{
	return v->hold.n == 0 || v->hold.keeps;
}

void hold_act(struct worker *v)
{
	struct rng *r = &v->world->rng;
	uint32_t group = (uint32_t)rng_between(r, 0, v->model->n_groups - 1);

	if (v->world->healing || v->leaves) {
		give(v, group, HOLD_GIVES);
		return;
	}
	if (rng_one_in(r, 2) && yield(v))
		return;
	switch (rng_between(r, 0, 9)) {
	case 0:
	case 1:
	case 2:
		if (!v->poisoned)
			take(v);
		break;
	case 3:
	case 4:
	case 5:
		if (!v->poisoned)
			use(v);
		break;
	case 6:
	case 7:
		if (rng_one_in(r, 3))
			give(v, group, (uint32_t)rng_between(r, 1, HOLD_GIVES));
		break;
	case 8:
		offer(v);
		break;
	default:
		if (v->hold.n_takes == 0 && rng_one_in(r, 20))
			misuse(v);
	}
}
