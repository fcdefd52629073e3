/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the reference model's extents and page classes, and the coming and going of sessions */
#include "parts.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

static uint64_t element_bytes(uint32_t dtype)
{
	return dtype == WIRE_F32 ? 4 : dtype == WIRE_FP8 ? 1 : dtype == WIRE_F16 || dtype == WIRE_BF16 ? 2 : 0;
}

uint64_t ref_page_bytes(const struct wire_group *g)
{
	uint64_t heads = (uint64_t)g->page_tokens * g->kv_heads * element_bytes(g->dtype);
	uint64_t k = heads * g->k_head_dim + g->extra_bytes, v = heads * g->v_head_dim;

	return g->layers * (g->form == WIRE_JOINED ? k + v : k > v ? k : v);
}

uint64_t ref_whole(const struct ref_class *c)
{
	return c->joined ? c->page_bytes : 2 * c->page_bytes;
}

void ref_pool_init(struct ref_pool *p, uint64_t half, uint64_t extent)
{
	memset(p, 0, sizeof *p);
	p->half = half;
	p->extent = extent;
	p->n_extents = (uint32_t)((half + extent - 1) / extent); /* the last one may be short */
	memset(p->holder, -1, sizeof p->holder);
	memset(p->former, -1, sizeof p->former);
	p->holder[REF_NOWHERE] = -2;
	p->live[REF_NOWHERE] = 1;
	p->change = 1;
	p->counting = true;
}

/* ---- extents ------------------------------------------------------------------ */

/* All that page @id touches belongs to the class. */
static bool covered(const struct ref_pool *p, const struct ref_class *c, int32_t id)
{
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		if (p->holder[x] != c - p->classes)
			return false;
	return true;
}

bool ref_covered(const struct ref_pool *p, const struct ref_class *c, int32_t id, bool reach)
{
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		if (p->chosen[x] || (p->holder[x] != c - p->classes && !(reach && p->live[x] == 0)))
			return false;
	return true;
}

const struct ref_class *ref_tally(struct ref_pool *p, uint32_t index)
{
	struct ref_class *c = &p->classes[index];

	if (c->tallied == p->change)
		return c;
	memset(c->n, 0, sizeof c->n);
	c->available = c->open = 0;
	for (int32_t id = 0; id < c->num_pages; id++) {
		if (c->page[id] != REF_FREE)
			c->n[c->page[id]]++;
		else {
			c->available += ref_covered(p, c, id, true);
			c->open += ref_covered(p, c, id, false);
			c->n[REF_FREE] += covered(p, c, id);
		}
	}
	c->tallied = p->change;
	return c;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Who runs may have taken some of what is claimed. */
int64_t ref_available(struct ref_pool *p, uint32_t index)
{
	int64_t n = ref_tally(p, index)->available;

	for (int i = 0; i < REF_QUOTAS; i++)
		n -= least(p->quotas[i].claim.kept[index], p->classes[index].open);
	return n > 0 ? n : 0;
}

/* Floors or claims are kept for some. */
static bool is_limited(const struct ref_pool *p)
{
	bool limited = p->n_waits > 0;

	for (int i = 0; i < REF_QUOTAS; i++)
		limited |= p->quotas[i].floor > 0;
	return limited;
}

static bool has_class(const struct ref_session *s, int32_t index)
{
	for (uint32_t g = 0; s && g < s->n_groups; g++)
		if ((int32_t)s->groups[g].class_index == index)
			return true;
	return false;
}

/* Extent @x has come to class @index: where another class had it, that may have written over any of its pages. */
static void come_to_class(struct ref_pool *p, uint32_t x, int32_t index)
{
	struct ref_class *c = &p->classes[index];

	for (int32_t id = 0; id < c->num_pages && p->former[x] >= 0 && p->former[x] != index; id++)
		if (c->first[id] <= x && x <= c->last[id])
			c->writer[id] = REF_OTHERS;
	p->former[x] = index;
}

void ref_extents_learn(struct ref_pool *p, const int32_t *holder, const struct ref_session *taker, int64_t trim)
{
	bool limited = is_limited(p);

	if (memcmp(p->holder, holder, p->n_extents * sizeof *holder) == 0)
		return;
	for (uint32_t x = 0; x < p->n_extents; x++) {
		if (holder[x] == p->holder[x])
			continue;
		if (p->live[x] > 0)
			ref_complain(p, "extent %u went from class %d to %d with %d pages in use", x, p->holder[x],
				     holder[x], p->live[x]);
		else if (holder[x] < 0 ? trim-- <= 0 : !taker || !(limited || has_class(taker, holder[x])))
			ref_complain(p, "extent %u went from class %d to %d without need", x, p->holder[x], holder[x]);
		if (holder[x] >= 0)
			come_to_class(p, x, holder[x]);
	}
	memcpy(p->holder, holder, p->n_extents * sizeof *holder);
	p->change++;
}

/* Pages of the class that are free or were given out by this command, if it had not taken extent @x. */
static int64_t without(const struct ref_pool *p, const struct ref_class *c, uint32_t x)
{
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += (c->page[id] == REF_FREE || c->given[id] == p->command) && (x < c->first[id] || x > c->last[id]) &&
		     covered(p, c, id);
	return n;
}

void ref_check_thrift(struct ref_pool *p, const int32_t *before)
{
	int classes = 0;

	/* what is kept for others gets extents, too */
	if (is_limited(p))
		return;
	for (uint32_t i = 0; i < p->n_classes; i++)
		classes += p->classes[i].wanted > 0;
	for (uint32_t i = 0; i < p->n_classes; i++) {
		const struct ref_class *c = &p->classes[i];
		bool took = false, thrifty = false;

		for (uint32_t x = 0; x < p->n_extents && !thrifty; x++) {
			if (before[x] == p->holder[x] || p->holder[x] != (int32_t)i)
				continue;
			took = true;
			/* where several classes take, one may take what another then needs back */
			thrifty = c->wanted > 0 && (classes > 1 || without(p, c, x) < c->wanted);
		}
		if (took && !thrifty)
			ref_complain(p, "class %u took extents that %lld pages did not need", i, (long long)c->wanted);
	}
}

/* Free pages of the class that start in extent @x; with @given also those that this command has given out. */
static int64_t starting_in(const struct ref_pool *p, const struct ref_class *c, uint32_t x, bool given)
{
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += c->first[id] == x && ref_covered(p, c, id, false) &&
		     (c->page[id] == REF_FREE || (given && c->given[id] == p->command));
	return n;
}

/* It had pages in use before this command; with @since, or has one of it that starts before it. */
static bool was_in_use(const struct ref_pool *p, const struct ref_class *c, uint32_t x, bool since)
{
	for (int32_t id = 0; id < c->num_pages; id++)
		if (c->first[id] <= x && x <= c->last[id] && c->page[id] != REF_FREE &&
		    (c->given[id] != p->command || (since && c->first[id] < x)))
			return true;
	return false;
}

/* Where extent @x with @n free pages stands among those of its class: a smaller number comes first. */
static int rank_of(const struct ref_pool *p, uint32_t x, int64_t n, bool used)
{
	enum { LAST = 64, EMPTY };
	int rank = 0;

	if (!used || p->emptying[x])
		return used ? LAST : EMPTY;
	while (n >>= 1) /* by doublings */
		rank++;
	return rank;
}

void ref_check_fullest(struct ref_pool *p)
{
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->chosen[x])
			return; /* who runs may take what is claimed, and then there is more to choose from */
	for (struct ref_class *c = p->classes; c < p->classes + p->n_classes; c++) {
		int32_t index = (int32_t)(c - p->classes);

		for (uint32_t x = 0; x < p->n_extents && c->wanted > 0; x++) {
			int64_t before = p->holder[x] == index ? starting_in(p, c, x, true) : 0;
			bool used = was_in_use(p, c, x, true);

			if (before == 0 || before == starting_in(p, c, x, false))
				continue; /* it gave none */
			for (uint32_t y = 0; y < p->n_extents; y++) {
				int64_t left = p->holder[y] == index ? starting_in(p, c, y, false) : 0;

				if (y == x || left == 0 || left != starting_in(p, c, y, true) ||
				    !was_in_use(p, c, y, false))
					continue;
				if (rank_of(p, y, left, true) < rank_of(p, x, before, used))
					ref_complain(p,
						     "class %d took pages of extent %u, which had %lld free, and "
						     "left extent %u, which has %lld",
						     (int)index, x, (long long)before, y, (long long)left);
			}
		}
	}
}

/* ---- sessions ---------------------------------------------------------------- */

static bool between(int64_t value, int64_t low, int64_t high)
{
	return value >= low && value <= high;
}

static int group_check(const struct wire_group *g, uint64_t half)
{
	uint64_t bytes = ref_page_bytes(g);

	if (g->kind == WIRE_GROUP_FULL ? g->window != 0
				       : g->kind != WIRE_GROUP_SLIDING || !between(g->window, 1, INT32_MAX))
		return SWAKV_EINVALID;
	if (g->page_tokens != 16 && g->page_tokens != 32 && g->page_tokens != 64 && g->page_tokens != 128 &&
	    g->page_tokens != 256)
		return SWAKV_EINVALID;
	if (g->layers < 1 || g->kv_heads < 1 || g->k_head_dim < 1 || g->v_head_dim < 1 || element_bytes(g->dtype) == 0)
		return SWAKV_EINVALID;
	if (bytes > half)
		return SWAKV_ENEVER;
	return 2 * half / bytes > INT32_MAX / 2 ? SWAKV_EINVALID : SWAKV_OK;
}

int ref_model_check(const struct ref_model *m, uint64_t half)
{
	if (!between(m->n_groups, 1, WIRE_MAX_GROUPS) || !between(m->n_streams, 1, WIRE_MAX_STREAMS) ||
	    !between(m->max_batch, 1, WIRE_MAX_BATCH) || !between(m->max_seq, 1, INT32_MAX))
		return SWAKV_EINVALID;
	if (!between(m->max_advance, 0, m->max_seq) || m->max_rewind > m->max_seq || m->in_flight > 1024)
		return SWAKV_EINVALID;
	for (uint32_t g = 0; g < m->n_groups; g++) {
		int code = group_check(&m->groups[g], half);

		if (code)
			return code;
	}
	return SWAKV_OK;
}

/* Where the pages of a new class lie. */
static void lay_out(const struct ref_pool *p, struct ref_class *c)
{
	uint64_t all = c->joined ? 2 * p->half : p->half;

	c->num_pages = (int32_t)(all / c->page_bytes);
	c->most = c->num_pages;
	for (int32_t id = 0; id < c->num_pages; id++) {
		uint64_t first = (uint64_t)id * c->page_bytes, last = first + c->page_bytes - 1;
		bool middle = first / p->half != last / p->half;

		c->most -= middle;
		c->first[id] = (uint8_t)(middle ? REF_NOWHERE : first % p->half / p->extent);
		c->last[id] = (uint8_t)(middle ? REF_NOWHERE : last % p->half / p->extent);
	}
}

static uint32_t join_class(struct ref_pool *p, const struct wire_group *g)
{
	uint64_t page_bytes = ref_page_bytes(g);
	bool joined = g->form == WIRE_JOINED;
	struct ref_class *c = p->classes;

	while (c < p->classes + p->n_classes && (c->page_bytes != page_bytes || c->joined != joined))
		c++;
	if (c == p->classes + p->n_classes) {
		p->n_classes++;
		c->page_bytes = page_bytes;
		c->joined = joined;
		lay_out(p, c);
	}
	c->sessions++;
	return (uint32_t)(c - p->classes);
}

static void clear(struct ref_session *s)
{
	memset(s, 0, offsetof(struct ref_session, requests));
	for (int i = 0; i < REF_REQUESTS; i++)
		s->requests[i].live = false;
}

void ref_declare(struct ref_session *s, const struct ref_model *m)
{
	clear(s);
	s->max_seq = m->max_seq;
	s->max_advance = m->max_advance;
	s->max_rewind = m->max_rewind;
	s->in_flight = m->in_flight ? m->in_flight : 2;
	s->chunk_mapped = m->chunk_mapped;
	s->max_batch = m->max_batch;
	s->n_streams = m->n_streams;
	s->n_groups = m->n_groups;
	for (uint32_t g = 0; g < m->n_groups; g++) {
		s->groups[g].full = m->groups[g].kind == WIRE_GROUP_FULL;
		s->groups[g].window = m->groups[g].window;
		s->groups[g].movable = m->groups[g].flags & WIRE_GROUP_MOVABLE;
		s->groups[g].page_tokens = m->groups[g].page_tokens;
		s->groups[g].width = (int32_t)ref_end_of(s, g, m->max_seq);
	}
}

/* The session's model decides from now on how the floor of its name is split. */
static void join_quota(struct ref_session *s, struct ref_quota *q)
{
	s->quota = q;
	q->sessions++;
	q->n_shares = s->n_groups;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		q->shares[g].page_bytes = s->groups[g].class->page_bytes;
		q->shares[g].joined = s->groups[g].class->joined;
		q->shares[g].pages = (uint64_t)ref_reservation(s, g, s->max_seq, false);
	}
}

void ref_attach(struct ref_session *s, struct ref_pool *p, const struct ref_model *m, uint32_t quota)
{
	ref_declare(s, m);
	s->attached = true;
	s->pool = p;
	for (uint32_t g = 0; g < m->n_groups; g++) {
		s->groups[g].name = ++p->names;
		s->groups[g].class_index = join_class(p, &m->groups[g]);
		s->groups[g].class = &p->classes[s->groups[g].class_index];
	}
	join_quota(s, &p->quotas[quota]);
	for (int i = 0; i < REF_BATCH; i++) {
		s->slots[i].owner = -1;
		for (uint32_t g = 0; g < s->n_groups; g++)
			memset(s->slots[i].lines[g].device, -1, sizeof s->slots[i].lines[g].device);
	}
}

/* Everything that the session holds is in doubt: quarantined until it is reclaimed. */
void ref_end(struct ref_session *s)
{
	struct ref_pool *p = s->pool;

	ref_forget_waits(s);
	for (struct ref_class *c = p->classes; c < p->classes + p->n_classes; c++)
		for (int32_t id = 0; id < c->num_pages; id++)
			if (c->page[id] == REF_LEASED && c->user[id] == s)
				ref_doubt(c, id);
	p->change++;
	for (int i = 0; i < REF_REQUESTS; i++)
		s->requests[i].live = false;
	for (int i = 0; i < REF_BATCH; i++)
		s->slots[i].owner = -1;
	s->n_tails = 0;
	s->ended = true;
}

int64_t ref_release_quarantined(struct ref_session *s)
{
	struct ref_pool *p = s->pool;
	int64_t n = 0;

	for (struct ref_class *c = p->classes; c < p->classes + p->n_classes; c++) {
		for (int32_t id = 0; id < c->num_pages; id++) {
			if (c->page[id] != REF_QUARANTINED || c->user[id] != s)
				continue;
			ref_release(c, p, id);
			n++;
		}
	}
	return n;
}

void ref_detach(struct ref_session *s)
{
	for (uint32_t g = 0; g < s->n_groups; g++)
		s->groups[g].class->sessions--;
	s->quota->sessions--;
	if (s->quota->sessions == 0 && !s->quota->floor && !s->quota->ceiling)
		s->quota->n_shares = 0; /* forgotten */
	free(s->ended_handles);
	clear(s);
}
