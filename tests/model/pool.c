/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - the reference model's extents and page classes, and the coming and going of sessions */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

static uint64_t element_bytes(uint32_t dtype)
{
	return dtype == WIRE_F32 ? 4 : dtype == WIRE_FP8 ? 1 : dtype == WIRE_F16 || dtype == WIRE_BF16 ? 2 : 0;
}

uint64_t ref_page_bytes(const struct wire_group *g)
{
	uint64_t dim = g->k_head_dim > g->v_head_dim ? g->k_head_dim : g->v_head_dim;

	return (uint64_t)g->layers * g->page_tokens * g->kv_heads * dim * element_bytes(g->dtype);
}

void ref_pool_init(struct ref_pool *p, uint64_t half, uint64_t extent)
{
	memset(p, 0, sizeof *p);
	p->half = half;
	p->extent = extent;
	p->n_extents = (uint32_t)((half + extent - 1) / extent); /* the last one may be short */
	memset(p->holder, -1, sizeof p->holder);
}

/* Every byte of page @id lies in extents of class @index (with @any: or unassigned ones). */
static bool covered(const struct ref_pool *p, uint64_t page_bytes, int32_t id, int32_t index, bool any)
{
	uint64_t first = (uint64_t)id * page_bytes / p->extent;
	uint64_t last = (((uint64_t)id + 1) * page_bytes - 1) / p->extent;

	for (uint64_t x = first; x <= last; x++)
		if (x >= p->n_extents || (p->holder[x] != index && !(any && p->holder[x] < 0)))
			return false;
	return true;
}

static void refresh(struct ref_pool *p, int32_t index)
{
	struct ref_class *c = &p->classes[index];

	for (int32_t id = 0; id < c->num_pages; id++) {
		c->usable[id] = covered(p, c->page_bytes, id, index, false);
		c->reachable[id] = covered(p, c->page_bytes, id, index, true);
		if (c->page[id] != REF_FREE && !c->usable[id])
			ref_complain(p, "page %d is in use, but class %d no longer holds its extents", id, index);
	}
}

int64_t ref_count(const struct ref_class *c, enum ref_page state)
{
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += c->usable[id] && c->page[id] == state;
	return n;
}

int64_t ref_available(const struct ref_class *c)
{
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += c->reachable[id] && c->page[id] == REF_FREE;
	return n;
}

/* No extent was taken that the begin could have done without. */
static void check_thrift(struct ref_pool *p, const int32_t *before, int32_t taker, int64_t need)
{
	struct ref_class *c = &p->classes[taker];
	bool thrifty = false;

	for (uint32_t x = 0; x < p->n_extents && !thrifty; x++) {
		if (p->holder[x] == before[x])
			continue;
		p->holder[x] = -1;
		refresh(p, taker);
		thrifty = ref_count(c, REF_FREE) < need;
		p->holder[x] = taker;
	}
	refresh(p, taker);
	if (!thrifty)
		ref_complain(p, "class %d took extents that a begin of %lld pages did not need", taker,
			     (long long)need);
}

void ref_extents_learn(struct ref_pool *p, const int32_t *holder, int32_t taker, int64_t need)
{
	int32_t before[REF_EXTENTS];

	if (memcmp(p->holder, holder, p->n_extents * sizeof *holder) == 0)
		return;
	if (taker >= 0 && ref_count(&p->classes[taker], REF_FREE) >= need)
		taker = -1;
	for (uint32_t x = 0; x < p->n_extents; x++)
		if (holder[x] != p->holder[x] && (p->holder[x] >= 0 || holder[x] != taker))
			ref_complain(p, "extent %u went from class %d to %d without need", x, p->holder[x], holder[x]);
	if (p->error[0])
		return;
	memcpy(before, p->holder, sizeof before);
	memcpy(p->holder, holder, p->n_extents * sizeof *holder);
	for (uint32_t i = 0; i < p->n_classes; i++)
		refresh(p, (int32_t)i);
	check_thrift(p, before, taker, need);
}

/* ---- sessions ---------------------------------------------------------------- */

static bool between(int64_t value, int64_t low, int64_t high)
{
	return value >= low && value <= high;
}

int ref_model_check(const struct ref_model *m, uint64_t half)
{
	const struct wire_group *g = &m->group;
	uint64_t bytes = ref_page_bytes(g);

	if (m->n_groups != 1 || m->max_advance || m->max_rewind || g->kind == WIRE_GROUP_FULL)
		return SWAKV_EUNSUPPORTED;
	if (g->kind != WIRE_GROUP_SLIDING || !between(m->n_streams, 1, WIRE_MAX_STREAMS) ||
	    !between(m->max_batch, 1, WIRE_MAX_BATCH) || !between(m->max_seq, 1, INT32_MAX) || g->window < 1 ||
	    g->window > INT32_MAX)
		return SWAKV_EINVALID;
	if (g->page_tokens != 16 && g->page_tokens != 32 && g->page_tokens != 64 && g->page_tokens != 128 &&
	    g->page_tokens != 256)
		return SWAKV_EINVALID;
	if (g->layers < 1 || g->kv_heads < 1 || g->k_head_dim < 1 || g->v_head_dim < 1 || element_bytes(g->dtype) == 0)
		return SWAKV_EINVALID;
	if (bytes > half)
		return SWAKV_ENEVER;
	return half / bytes > INT32_MAX / 2 ? SWAKV_EINVALID : SWAKV_OK;
}

static void join_class(struct ref_session *s, uint64_t page_bytes)
{
	struct ref_pool *p = s->pool;
	uint32_t i = 0;

	while (i < p->n_classes && p->classes[i].page_bytes != page_bytes)
		i++;
	s->class_index = i;
	s->class = &p->classes[i];
	if (i == p->n_classes) {
		p->n_classes++;
		s->class->page_bytes = page_bytes;
		s->class->num_pages = (int32_t)(p->half / page_bytes);
		refresh(p, (int32_t)i);
	}
	s->class->sessions++;
}

void ref_attach(struct ref_session *s, struct ref_pool *p, const struct ref_model *m)
{
	memset(s, 0, sizeof *s);
	s->attached = true;
	s->pool = p;
	s->name = ++p->names;
	s->window = m->group.window;
	s->page_tokens = m->group.page_tokens;
	s->max_seq = m->max_seq;
	s->max_batch = m->max_batch;
	s->width = (int32_t)ref_retained_end(m->max_seq, s->page_tokens);
	s->private_pages = (int32_t)ref_private_pages(s->window, s->page_tokens, s->max_seq);
	s->n_streams = m->n_streams;
	for (int i = 0; i < REF_BATCH; i++) {
		s->slots[i].owner = -1;
		memset(s->slots[i].device, -1, sizeof s->slots[i].device);
	}
	join_class(s, ref_page_bytes(&m->group));
}

/* Everything that the session holds is in doubt: quarantined until it is reclaimed. */
void ref_end(struct ref_session *s)
{
	for (int32_t id = 0; id < s->class->num_pages; id++)
		if (s->class->page[id] == REF_LEASED && s->class->user[id] == s)
			s->class->page[id] = REF_QUARANTINED;
	for (int i = 0; i < REF_REQUESTS; i++)
		s->requests[i].live = false;
	for (int i = 0; i < REF_BATCH; i++)
		s->slots[i].owner = -1;
	s->n_tails = 0;
	s->ended = true;
}

int64_t ref_reclaim(struct ref_session *s)
{
	int64_t n = 0;

	for (int32_t id = 0; id < s->class->num_pages; id++) {
		if (s->class->page[id] == REF_FREE || s->class->user[id] != s)
			continue;
		ref_release(s, id);
		n++;
	}
	return n;
}

void ref_detach(struct ref_session *s)
{
	s->class->sessions--;
	free(s->ended_handles);
	memset(s, 0, sizeof *s);
}
