/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup.c - the worlds that commands are drawn for
 *
 * Small pages of many sizes, so that a pool of a few megabytes has several
 * classes, extents of odd sizes and pages across them; windows near the edges
 * of pages; models that share classes with others, and groups among themselves.
 */
#include "generate.h"

#include <string.h>

static int64_t draw_window(struct rng *r, int64_t p, int64_t max_seq)
{
	switch (rng_between(r, 0, 8)) {
	case 0:
		return rng_between(r, 1, p - 1);
	case 1:
		return p;
	case 2:
		return p + 1;
	case 3:
		return p * rng_between(r, 1, 5);
	case 4:
		return p * rng_between(r, 1, 5) + rng_between(r, -1, 1);
	case 5:
		return max_seq;
	case 6:
		return max_seq + rng_between(r, 1, 2 * p);
	case 7:
		return 1;
	default:
		return rng_between(r, 1, 6 * p);
	}
}

/* What a world is for, beside the ordinary. */
enum kind {
	KIND_PLAIN,
	KIND_LARGE, /* more table changes than fit into a reply */
	KIND_LATE,  /* words that hardly come at all: until no further point may be open */
};

static void draw_group(struct rng *r, const struct ref_model *m, struct wire_group *g, int64_t page_tokens, bool small)
{
	g->kind = rng_one_in(r, 4) ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING;
	g->page_tokens = (uint32_t)page_tokens;
	g->window = g->kind == WIRE_GROUP_FULL ? 0 : draw_window(r, page_tokens, m->max_seq);
	g->layers = (uint32_t)rng_between(r, 1, small ? 2 : 3);
	g->kv_heads = (uint32_t)rng_between(r, 1, small ? 1 : 2);
	g->k_head_dim = (uint32_t)rng_between(r, 1, 4);
	g->v_head_dim = rng_one_in(r, 3) ? (uint32_t)rng_between(r, 1, 4) : g->k_head_dim;
	g->dtype = (uint32_t)rng_between(r, WIRE_F16, WIRE_FP8);
}

/* A group like the first, but for its page size, or with the same page bytes: the two share a class. */
static void draw_other_group(struct rng *r, struct ref_model *m, struct wire_group *g)
{
	const struct wire_group *first = &m->groups[0];
	int64_t page_tokens = first->page_tokens;

	/* a row is no wider than the model has room for */
	if (page_tokens < 256 && rng_one_in(r, 4))
		page_tokens *= 2;
	draw_group(r, m, g, page_tokens, true);
	if (page_tokens == first->page_tokens && rng_one_in(r, 3)) {
		g->layers = first->layers;
		g->kv_heads = first->kv_heads;
		g->k_head_dim = first->k_head_dim;
		g->v_head_dim = first->v_head_dim;
		g->dtype = first->dtype;
	}
}

/* How far a sequence goes in a step, and what may be taken back. */
static void draw_advance(struct rng *r, struct ref_model *m)
{
	int64_t p = m->groups[0].page_tokens;
	int64_t steps[] = { 1, 1, 2, 3, p / 2, p, p + 1, rng_between(r, 1, 3 * p) };
	int64_t rewinds[] = { 1, 2, p - 1, p, p + 1, rng_between(r, 1, 3 * p), m->max_seq };

	m->max_advance = rng_one_in(r, 2) ? 0 : steps[rng_between(r, 0, 7)];
	m->max_rewind = rng_one_in(r, 2) ? 0 : (uint32_t)rewinds[rng_between(r, 0, 6)];
	m->in_flight = (uint32_t)rng_between(r, 0, 3);
	m->chunk_mapped = rng_one_in(r, 2);
	if (m->max_advance > m->max_seq)
		m->max_advance = m->max_seq;
	if (m->max_rewind > m->max_seq)
		m->max_rewind = (uint32_t)m->max_seq;
}

static void draw_model(struct rng *r, struct ref_model *m, enum kind kind)
{
	static const uint32_t tokens[] = { 16, 16, 16, 16, 32, 32, 64, 128, 256 };
	static const uint32_t groups[] = { 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, WIRE_MAX_GROUPS };
	int64_t page_tokens = kind == KIND_LATE ? 256 : tokens[rng_between(r, 0, 8)];
	bool large = kind == KIND_LARGE;
	int64_t width;

	memset(m, 0, sizeof *m);
	m->n_groups = large ? (uint32_t)rng_between(r, 1, 2) : groups[rng_between(r, 0, 10)];
	m->n_streams = (uint32_t)rng_between(r, 1, 3);
	m->max_batch = (int32_t)(large ? REF_BATCH : rng_between(r, 1, rng_one_in(r, 4) ? REF_BATCH : 6));
	width = large ? REF_WIDTH : rng_between(r, 1, rng_one_in(r, 3) ? 40 : 14);
	m->max_seq = width * page_tokens - (rng_one_in(r, 2) ? 0 : rng_between(r, 0, page_tokens - 1));
	draw_group(r, m, &m->groups[0], page_tokens, m->n_groups > 2 || large);
	if (large)
		m->groups[0].kind = WIRE_GROUP_SLIDING;
	if (large)
		m->groups[0].window = 40 * page_tokens;
	for (uint32_t g = 1; g < m->n_groups; g++)
		draw_other_group(r, m, &m->groups[g]);
	draw_advance(r, m);
}

static bool setup_fits(const struct setup *s)
{
	struct {
		uint64_t bytes;
		uint32_t form;
	} sizes[WORLD_MODELS * REF_GROUPS];
	uint32_t n = 0;

	if (s->half / REF_GRAIN > REF_GRAINS || s->half / s->extent >= REF_EXTENTS)
		return false;
	for (uint32_t i = 0; i < s->n_models; i++) {
		for (uint32_t g = 0; g < s->models[i].n_groups; g++) {
			uint32_t known = 0;

			sizes[n].bytes = ref_page_bytes(&s->models[i].groups[g]);
			sizes[n].form = s->models[i].groups[g].form;
			if ((sizes[n].form == WIRE_JOINED ? 2 : 1) * s->half / sizes[n].bytes > REF_PAGES)
				return false;
			while (sizes[known].bytes != sizes[n].bytes || sizes[known].form != sizes[n].form)
				known++;
			n += known == n;
		}
	}
	return n <= REF_CLASSES;
}

/* Bytes of a half that one sequence of @m reserves. */
static int64_t bytes_of_one(const struct ref_model *m)
{
	static struct ref_session s; /* large */
	int64_t bytes = 0;

	ref_declare(&s, m);
	for (uint32_t g = 0; g < s.n_groups; g++)
		bytes += ref_reservation(&s, g, s.max_seq, false) * (int64_t)ref_page_bytes(&m->groups[g]);
	return bytes;
}

/* The model that the pool is made for: mostly that which needs most. */
static const struct ref_model *draw_largest(struct rng *r, const struct setup *s)
{
	const struct ref_model *m = &s->models[0];

	for (uint32_t i = 1; i < s->n_models && !rng_one_in(r, 4); i++)
		if (bytes_of_one(&s->models[i]) > bytes_of_one(m))
			m = &s->models[i];
	return m;
}

static void draw_pool(struct rng *r, struct setup *s)
{
	const struct ref_model *m = draw_largest(r, s);
	int64_t bytes = 0, one = bytes_of_one(m), groups = m->n_groups;

	for (uint32_t g = 0; g < m->n_groups; g++)
		if ((int64_t)ref_page_bytes(&m->groups[g]) > bytes)
			bytes = (int64_t)ref_page_bytes(&m->groups[g]);
	s->half = (uint64_t)(rng_one_in(r, 30) ? rng_between(r, one / 2 + 1, one + 2 * bytes)
					       : rng_between(r, one, 3 * one * m->max_batch + 2 * bytes));
	if (s->half < (uint64_t)bytes)
		s->half = (uint64_t)bytes;
	if (rng_one_in(r, 2))
		s->half -= s->half % (uint64_t)bytes;
	/* mostly enough extents for each group to have some */
	if (rng_one_in(r, 2))
		s->extent = (uint64_t)(bytes * rng_between(r, 1, 1 + (int64_t)s->half / bytes / (2 + groups)));
	else
		s->extent = s->half / (uint64_t)(rng_between(r, 1, 12) + (groups - 1) * rng_between(r, 0, 3)) -
			    (uint64_t)(rng_one_in(r, 2) ? 0 : 7);
	if (s->extent == 0 || s->extent > s->half)
		s->extent = s->half;
}

/*
 * In half of the worlds some groups have joined pages, or bytes beside K and V.
 * What is drawn for that is drawn apart, from the same start: so the others stay
 * as they were when a fault was found in them. Halves are cut as a broker cuts them.
 */
static void draw_forms(struct rng r, struct setup *s)
{
	r.state ^= 83; /* of the worlds in meson.build, which are kept for what was found in them, none has any */
	if (rng_one_in(&r, 2))
		return;
	for (uint32_t i = 0; i < s->n_models; i++) {
		for (uint32_t g = 0; g < s->models[i].n_groups; g++) {
			struct wire_group *group = &s->models[i].groups[g];

			group->form = rng_one_in(&r, 2) ? WIRE_JOINED : WIRE_SPLIT;
			group->extra_bytes = rng_one_in(&r, 3) ? 16 * (uint32_t)rng_between(&r, 1, 4) : 0;
			group->order = (uint32_t)rng_between(&r, 0, group->form == WIRE_JOINED ? 2 : 1);
		}
		for (uint32_t g = 0; i > 0 && g < s->models[i].n_groups && rng_one_in(&r, 2); g++) {
			s->models[i].groups[g].form = s->models[i - 1].groups[g].form;
			s->models[i].groups[g].order = s->models[i - 1].groups[g].order;
		}
	}
	s->half -= s->half % REF_GRAIN;
	if (s->extent > s->half)
		s->extent = s->half;
}

/* The page bytes and groups of another model, with windows and lengths of its own: the two share classes. */
static void share_classes(struct rng *r, struct ref_model *m, const struct ref_model *other)
{
	m->n_groups = other->n_groups;
	m->max_seq = rng_between(r, 1, (rng_one_in(r, 3) ? 40 : 14) * (int64_t)other->groups[0].page_tokens);
	for (uint32_t g = 0; g < m->n_groups; g++) {
		m->groups[g] = other->groups[g];
		if (m->groups[g].kind == WIRE_GROUP_SLIDING)
			m->groups[g].window = draw_window(r, m->groups[g].page_tokens, m->max_seq);
	}
	draw_advance(r, m);
}

/* In a third of the worlds sessions take and give pages themselves; drawn apart, as in draw_forms(). */
static uint32_t draw_manage(struct rng r)
{
	static const uint32_t often[] = { 2, 6, 20 };

	r.state ^= 55; /* of the worlds in meson.build none has any */
	return rng_one_in(&r, 3) ? often[rng_between(&r, 0, 2)] : 0;
}

/* In half of the worlds steps are ended and begun in one command; the same. */
static uint32_t draw_turns(struct rng r)
{
	r.state ^= 62; /* the same */
	return rng_one_in(&r, 2) ? (uint32_t)rng_between(&r, 1, 4) : 0;
}

/* In half of the worlds pages can move; drawn apart, as in draw_forms(). */
static uint32_t draw_moves(struct rng r, struct setup *s)
{
	static const uint32_t often[] = { 4, 10, 30 };

	r.state ^= 443; /* of the worlds in meson.build none has any */
	if (rng_one_in(&r, 2))
		return 0;
	for (uint32_t i = 0; i < s->n_models; i++)
		for (uint32_t g = 0; g < s->models[i].n_groups; g++)
			if (!rng_one_in(&r, 5))
				s->models[i].groups[g].flags = WIRE_GROUP_MOVABLE;
	return often[rng_between(&r, 0, 2)];
}

/* ---- worlds in which pages move ------------------------------------------------------ */

/* Many short sequences of small pages, or, @times more than one, of pages so many times as large. */
static void draw_mover(struct rng *r, struct ref_model *m, uint32_t times)
{
	memset(m, 0, sizeof *m);
	m->n_groups = rng_one_in(r, 3) ? 2 : 1;
	m->n_streams = (uint32_t)rng_between(r, 1, 2);
	m->max_batch = (int32_t)(times > 1 ? 8 : rng_between(r, 8, REF_BATCH));
	m->max_seq = 16 * rng_between(r, 2, times > 1 ? 2 : 6) - rng_between(r, 0, 15);
	for (uint32_t g = 0; g < m->n_groups; g++) {
		draw_group(r, m, &m->groups[g], 16, true);
		m->groups[g].flags = rng_one_in(r, times > 1 ? 3 : 30) ? 0 : WIRE_GROUP_MOVABLE;
		m->groups[g].layers = times * (uint32_t)(g ? rng_between(r, 1, 2) : 1);
		m->groups[g].k_head_dim = m->groups[g].v_head_dim = 2;
		m->groups[g].dtype = WIRE_F16;
	}
	draw_advance(r, m);
}

/* Extents of one large page or two, and few of them. */
static void draw_moving_pool(struct rng *r, struct setup *s)
{
	uint64_t bytes = 0, one = 0;

	for (uint32_t i = 0; i < s->n_models; i++) {
		one = (uint64_t)bytes_of_one(&s->models[i]) > one ? (uint64_t)bytes_of_one(&s->models[i]) : one;
		for (uint32_t g = 0; g < s->models[i].n_groups; g++)
			if (ref_page_bytes(&s->models[i].groups[g]) > bytes)
				bytes = ref_page_bytes(&s->models[i].groups[g]);
	}
	s->extent = bytes * (rng_one_in(r, 4) ? 2 : 1) + (rng_one_in(r, 3) ? 16 * (uint64_t)rng_between(r, 1, 9) : 0);
	s->half = s->extent * (uint64_t)rng_between(r, 5, 12);
	while (s->half < one)
		s->half += s->extent;
}

static void draw_moving(struct rng *r, struct setup *s, struct mood *mood)
{
	static const uint32_t times[] = { 1, 3, 2 };
	uint32_t factor;

	do {
		memset(s, 0, sizeof *s);
		s->n_models = (uint32_t)rng_between(r, 2, 3);
		factor = (uint32_t)rng_between(r, 3, 8);
		for (uint32_t i = 0; i < s->n_models; i++)
			draw_mover(r, &s->models[i], i ? factor * times[i] : 1);
		if (s->n_models > 2 && rng_one_in(r, 3))
			share_classes(r, &s->models[2], &s->models[0]);
		draw_forms(*r, s);
		draw_moving_pool(r, s);
	} while (!setup_fits(s));
	for (uint32_t i = 0; i < s->n_models; i++)
		s->quotas[i] = i;
	s->wait_claim = (uint64_t)(rng_one_in(r, 2) ? 1000 : rng_between(r, 0, 300));
	s->claim_hold = (uint64_t)rng_between(r, 1, 100);
	s->claim_max = (uint64_t)rng_between(r, 1, 400);
	s->scrub = (uint32_t)rng_between(r, WIRE_SCRUB_NEVER, WIRE_SCRUB_ALWAYS);
	s->fresh_is_dirty = rng_one_in(r, 2);
	s->slice = rng_one_in(r, 2) ? 0 : (uint32_t)rng_between(r, 64, 400);
	*mood = (struct mood){
		.late = rng_one_in(r, 2) ? 0 : (uint32_t)rng_between(r, 1, 30),
		.most = 40,
		.fail = rng_one_in(r, 3) ? 600 : 0,
		.stop = rng_one_in(r, 2) ? (uint32_t)rng_between(r, 4, 40) : 0,
		.wrong = 200,
		.death = rng_one_in(r, 3) ? 400 : 0,
		.extend = (uint32_t)rng_between(r, 10, 60),
		.rewind = 60,
		.limit = rng_one_in(r, 4) ? 200 : 0,
		.wait = (uint32_t)rng_between(r, 0, 3),
		.turn = rng_one_in(r, 2) ? (uint32_t)rng_between(r, 1, 4) : 0,
		.manage = rng_one_in(r, 4) ? 12 : 0,
		.scene = true,
	};
}

void generate_setup(struct rng *r, struct setup *s, struct mood *mood, bool moves)
{
	static const uint32_t often[] = { 6, 20, 60, 200 };

	enum kind kind = rng_one_in(r, 20) ? KIND_LARGE : rng_one_in(r, 15) ? KIND_LATE : KIND_PLAIN;

	if (moves) {
		draw_moving(r, s, mood);
		return;
	}
	do {
		memset(s, 0, sizeof *s);
		s->n_models = (uint32_t)rng_between(r, 1, 3);
		for (uint32_t i = 0; i < s->n_models; i++) {
			draw_model(r, &s->models[i], kind == KIND_LARGE && i > 0 ? KIND_PLAIN : kind);
			if (i > 0 && rng_one_in(r, 2))
				share_classes(r, &s->models[i], &s->models[i - 1]);
		}
		draw_pool(r, s);
		draw_forms(*r, s);
	} while (!setup_fits(s));
	for (uint32_t i = 0; i < s->n_models; i++)
		s->quotas[i] = rng_one_in(r, 4) ? 0 : i;
	s->wait_claim = (uint64_t)rng_between(r, 0, 300);
	s->claim_hold = (uint64_t)rng_between(r, 1, 100);
	s->claim_max = (uint64_t)rng_between(r, 1, 400);
	s->scrub = (uint32_t)rng_between(r, WIRE_SCRUB_NEVER, WIRE_SCRUB_ALWAYS);
	s->fresh_is_dirty = rng_one_in(r, 2);
	*mood = (struct mood){
		.late = (uint32_t)rng_between(r, 0, 1) * (uint32_t)rng_between(r, 1, 100),
		.fail = rng_one_in(r, 3) ? 300 : 0,
		.wrong = often[rng_between(r, 1, 3)],
		.ending = often[rng_between(r, 2, 3)] * 2,
		.begin = 40,
		.compact = often[rng_between(r, 1, 3)],
		.death = rng_one_in(r, 2) ? 0 : 400,
		.most = 150,
		.extend = often[rng_between(r, 0, 2)],
		.rewind = often[rng_between(r, 1, 3)],
		.limit = rng_one_in(r, 2) ? 0 : 200,
		.wait = (uint32_t)rng_between(r, 0, 1) * (uint32_t)rng_between(r, 1, 4),
	};
	if (kind == KIND_LARGE)
		mood->ending = 30;
	if (kind == KIND_LATE) {
		mood->late = 2000;
		mood->most = REF_POINTS - 20;
		mood->wrong = 200;
	}
	s->slice = rng_one_in(r, 2) ? 0 : (uint32_t)rng_between(r, 64, 400);
	mood->manage = draw_manage(*r);
	mood->turn = draw_turns(*r);
	mood->moves = draw_moves(*r, s);
}
