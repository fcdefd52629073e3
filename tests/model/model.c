/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference model: spec sections 2 to 5 with linear scans and fixed arrays.
 *
 * Where the spec leaves something open, this is what the model takes a user to
 * expect (and what the engine must do):
 *
 * - A fence of kind LINE whose value was reached is DONE. The check of the
 *   value is against `armed`, whatever the word says.
 * - A completed step stays open until its value is reached, also when it
 *   staged nothing.
 * - Pages that leave a request for good (finish, abandon, a drop by
 *   compaction) go together, when the line has reached the fence's value and
 *   every value that the request was given before: DONE proves the step it is
 *   given for, not those that are open.
 * - A page that leaves a row is the sequence's own at once, whatever is open:
 *   its next step comes later on the same stream. It waits, as pages do that
 *   leave for good, where the sequence holds more than its reservation at that
 *   time, or where the request's steps have no order. So a step within what the
 *   model declared never lacks a page of an ordered request that holds no more.
 * - A scrub begins with the first dirty page that is bound and ends with the
 *   last one; none of its pages was bound before, since it was given out.
 * - Shutdown looks at every fence for its form, and at those of streams that
 *   have pages in quarantine for what they say: FAILED is `poisoned`, a value
 *   that was not reached `pending`.
 * - With max_tokens a sequence reserves at most the pages of that many tokens,
 *   and a longer prefill is `invalid`.
 * - A group of a model with max_rewind R keeps the pages of W + R tokens below
 *   the highest endpoint that was ever settled; what it binds at a prefill or an
 *   extend is that, too.
 * - A step lacks pages when it needs more than the sequence has reserved. It
 *   waits for those that are staged (`pending`) when it was promised that they
 *   suffice, and when they do; else it takes all that it lacks from the class.
 *   What returns to a sequence that has more than its reservation goes to the
 *   class.
 * - A slot that was given up behind an open point is free for its former
 *   stream and `pending` for the others. `busy` of any slot of a batch comes
 *   before `pending` of any other.
 * - The entries of a step are looked at one after the other: one that names a
 *   request a second time meets the transition of the first.
 * - A sequence that lacks only pages is `pending`, and comes before another
 *   sequence's `limit`: the request does not turn to finishing then.
 * - Completes go on as usual in a poisoned session, and so do the drops of a
 *   compaction.
 */
#include "parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

/* ---- arithmetic ------------------------------------------------------------ */

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + (a % b != 0);
}

int64_t ref_retained_end(int64_t endpoint, int64_t page_tokens)
{
	return ceil_div(endpoint, page_tokens);
}

int64_t ref_retained_begin(int64_t endpoint, int64_t window, int64_t page_tokens)
{
	int64_t oldest = endpoint - window;

	if (oldest < 0)
		oldest = 0;
	return oldest / page_tokens;
}

int64_t ref_begin_of(const struct ref_session *s, uint32_t g, int64_t highest)
{
	const struct ref_group *o = &s->groups[g];

	return o->full ? 0 : ref_retained_begin(highest, o->window + s->max_rewind, o->page_tokens);
}

int64_t ref_end_of(const struct ref_session *s, uint32_t g, int64_t endpoint)
{
	return ref_retained_end(endpoint, s->groups[g].page_tokens);
}

int32_t ref_reservation(const struct ref_session *s, uint32_t g, int64_t tokens, bool unordered)
{
	const struct ref_group *o = &s->groups[g];
	int64_t width = ref_end_of(s, g, tokens), window = o->window + s->max_rewind, most;

	if (o->full)
		return (int32_t)width;
	if (s->max_advance == 0)
		most = 2 * (ceil_div(window, o->page_tokens) + 1) + 1;
	else
		most = ceil_div(window + (unordered ? s->in_flight : 1) * s->max_advance - 1, o->page_tokens) + 1;
	return (int32_t)(most < width ? most : width);
}

void ref_complain(struct ref_pool *p, const char *format, ...)
{
	va_list args;

	if (p->error[0])
		return;
	va_start(args, format);
	vsnprintf(p->error, sizeof p->error, format, args);
	va_end(args);
}

/* ---- pages ------------------------------------------------------------------ */

/* Adds @by to the owners of the bytes from @at on, counted from the base of K. */
static void own_bytes(struct ref_pool *p, const struct ref_class *c, int32_t id, uint64_t at, int by)
{
	for (uint64_t i = at / REF_GRAIN; i < (at + c->page_bytes) / REF_GRAIN; i++) {
		p->grain[i] = (uint8_t)(p->grain[i] + by);
		if (p->grain[i] > 1)
			ref_complain(p, "byte %llu has two owners (page %d of %llu bytes)",
				     (unsigned long long)i * REF_GRAIN, id, (unsigned long long)c->page_bytes);
	}
}

/* The bytes of both of its halves, and the extents that it touches. */
static void own_page(struct ref_pool *p, const struct ref_class *c, int32_t id, int by)
{
	uint64_t half = p->half / REF_GRAIN * REF_GRAIN;
	uint64_t v_base = half - (uint64_t)c->num_pages * c->page_bytes;

	own_bytes(p, c, id, (uint64_t)id * c->page_bytes, by);
	if (!c->joined)
		own_bytes(p, c, id, v_base + ((uint64_t)id + (uint64_t)c->num_pages) * c->page_bytes, by);
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		p->live[x] += by;
	p->change++;
}

void ref_lease(struct ref_session *s, uint32_t g, int32_t id)
{
	struct ref_class *c = s->groups[g].class;
	struct ref_pool *p = s->pool;

	if (id < 0 || id >= c->num_pages) {
		ref_complain(p, "page %d is outside 0 to %d", id, c->num_pages - 1);
		return;
	}
	if (c->page[id] != REF_FREE) {
		ref_complain(p, "page %d was given out although it is %s", id,
			     c->page[id] == REF_LEASED ? "leased" : "in quarantine");
		return;
	}
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		if (p->holder[x] != (int32_t)s->groups[g].class_index)
			ref_complain(p, "page %d was given out, but lies outside the extents of its class", id);
	c->page[id] = REF_LEASED;
	c->written[id] = false;
	c->taken[id] = 0;
	c->user[id] = s;
	c->given[id] = p->command;
	c->wanted++;
	s->leased++;
	own_page(p, c, id, 1);
}

void ref_release(struct ref_class *c, struct ref_pool *p, int32_t id)
{
	c->page[id] = REF_FREE;
	own_page(p, c, id, -1);
	ref_claim_joined(p, c, id);
}

void ref_doubt(struct ref_class *c, int32_t id)
{
	c->page[id] = REF_QUARANTINED;
	if (c->writer[id])
		c->writer[id] = REF_OTHERS;
}

void ref_quarantine(struct ref_session *s, uint32_t g, int32_t id, uint32_t line)
{
	ref_doubt(s->groups[g].class, id);
	s->groups[g].class->line[id] = line;
	s->pool->change++;
}

/* ---- what is where ------------------------------------------------------------ */

struct ref_request *ref_find(struct ref_session *s, uint64_t handle)
{
	for (int i = 0; i < REF_REQUESTS; i++)
		if (s->requests[i].live && s->requests[i].handle == handle)
			return &s->requests[i];
	return NULL;
}

int32_t ref_live(const struct ref_session *s)
{
	int32_t n = 0;

	for (int i = 0; i < REF_REQUESTS; i++)
		n += s->requests[i].live;
	return n;
}

bool ref_has_ended(const struct ref_session *s, uint64_t handle)
{
	for (uint32_t i = 0; i < s->n_ended; i++)
		if (s->ended_handles[i] == handle)
			return true;
	return false;
}

const int32_t *ref_row(const struct ref_session *s, uint32_t g, int32_t slot)
{
	int32_t owner = s->slots[slot].owner;

	for (int32_t i = 0; owner >= 0 && i < s->requests[owner].n_seqs; i++)
		if (s->requests[owner].seqs[i].slot == slot)
			return s->requests[owner].seqs[i].parts[g].row;
	return NULL;
}

int32_t ref_in_row(const struct ref_session *s, const struct ref_seq *q, uint32_t g)
{
	int32_t n = 0;

	for (int32_t c = 0; c < s->groups[g].width; c++)
		n += q->parts[g].row[c] >= 0;
	return n;
}

int32_t ref_held(const struct ref_session *s, const struct ref_seq *q, uint32_t g)
{
	return ref_in_row(s, q, g) + q->parts[g].n_free + q->parts[g].n_staged;
}

static bool steps(const struct ref_request *r)
{
	return r->transition == TRANSITION_STEP || r->transition == TRANSITION_EXTEND;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void ref_shown_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
		     int64_t *begin, int64_t *end)
{
	bool pending = q->pending_endpoint >= 0;

	/* how much of a mapped chunk stays is not known before its complete */
	*begin = ref_begin_of(s, g, steps(r) && s->chunk_mapped ? q->highest : later(q->highest, q->pending_endpoint));
	*end = ref_end_of(s, g, pending ? q->pending_endpoint : q->endpoint);
}

void ref_new_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
		   int64_t *begin, int64_t *end)
{
	int64_t window = ref_begin_of(s, g, later(q->highest, q->pending_endpoint));

	*begin = *end = 0;
	if (r->transition != TRANSITION_PREFILL && !steps(r))
		return;
	*begin = ref_end_of(s, g, q->endpoint);
	/* a prefill, and an extend in a model that does not map chunks, bind their final window only */
	if (!(steps(r) && s->chunk_mapped))
		*begin = later(*begin, window);
	*end = ref_end_of(s, g, q->pending_endpoint);
}

void ref_retiring_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g,
			int64_t *begin, int64_t *end)
{
	*begin = *end = 0;
	/* how much of a mapped chunk stays is not known before its complete */
	if (!steps(r) || s->chunk_mapped)
		return;
	*begin = ref_begin_of(s, g, q->highest);
	*end = ref_begin_of(s, g, later(q->highest, q->pending_endpoint));
}

/* ---- binding and leaving ---------------------------------------------------------- */

/* What @s would find in the page is neither its own nor nothing. */
static bool page_is_dirty(const struct ref_session *s, const struct ref_group *o, int32_t id)
{
	const struct ref_class *c = o->class;

	if (s->pool->scrub == WIRE_SCRUB_NEVER)
		return false;
	if (c->writer[id] == 0)
		return s->pool->fresh_is_dirty;
	return s->pool->scrub == WIRE_SCRUB_ALWAYS ? !c->written[id] : c->writer[id] != o->name;
}

static void note_bound(struct ref_session *s, int32_t slot, uint32_t g, int64_t column, int32_t id)
{
	struct ref_group *o = &s->groups[g];
	struct ref_line *l = &s->slots[slot].lines[g];

	if (l->bound_end == 0)
		l->fresh_first = INT32_MAX;
	l->bound_end = (int32_t)column + 1;
	if (l->fresh_first == INT32_MAX && !o->class->written[id])
		l->fresh_first = (int32_t)column;
	if (!l->dirty && page_is_dirty(s, o, id)) {
		l->dirty = true;
		l->dirty_first = (int32_t)column;
	}
	if (l->dirty && o->class->written[id])
		ref_complain(s->pool, "slot %d, group %u: page %d is scrubbed, and an earlier step had it", slot, g,
			     id);
	o->class->writer[id] = o->name;
	o->class->written[id] = true;
}

/* The reserved pages are all among those that the engine bound; the others come from the class. */
static void bind_lacking(struct ref_session *s, struct ref_seq *q, uint32_t g, int64_t begin, int64_t end)
{
	const struct ref_group *o = &s->groups[g];
	const int32_t *row = o->shown + (int64_t)q->slot * (o->class->joined ? 1 : 2) * o->width;
	struct ref_part *t = &q->parts[g];

	for (int64_t c = begin; c < end; c++) {
		int32_t i = 0;

		while (i < t->n_free && t->free[i] != row[c])
			i++;
		if (i < t->n_free)
			t->free[i] = t->free[--t->n_free];
		else
			ref_lease(s, g, row[c]);
		t->row[c] = row[c];
	}
	if (t->n_free)
		ref_complain(s->pool, "slot %d, group %u: a step that lacks pages leaves %d reserved", q->slot, g,
			     t->n_free);
}

static void bind_range(struct ref_session *s, struct ref_seq *q, uint32_t g, int64_t begin, int64_t end)
{
	struct ref_part *t = &q->parts[g];

	for (int64_t c = begin; c < end; c++)
		if (t->row[c] >= 0)
			ref_complain(s->pool, "the model cannot bind logical page %lld of slot %d", (long long)c,
				     q->slot);
	if (end - begin > t->n_free)
		bind_lacking(s, q, g, begin, end);
	else
		for (int64_t c = begin; c < end; c++)
			t->row[c] = t->free[--t->n_free];
	for (int64_t c = begin; c < end && !s->pool->error[0]; c++)
		note_bound(s, q->slot, g, c, t->row[c]);
}

void ref_bind_new(struct ref_session *s, const struct ref_request *r, struct ref_seq *q)
{
	for (uint32_t g = 0; g < s->n_groups; g++) {
		int64_t begin, end;

		ref_new_range(s, r, q, g, &begin, &end);
		bind_range(s, q, g, begin, end);
	}
}

static bool holds_more(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, uint32_t g)
{
	return ref_held(s, q, g) > r->reservation[g];
}

/* A page returns to the sequence, or to the class when that has its share without it. */
static void come_back(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, uint32_t g, int32_t page)
{
	struct ref_part *t = &q->parts[g];

	if (ref_held(s, q, g) >= r->reservation[g])
		ref_release(s->groups[g].class, s->pool, page);
	else
		t->free[t->n_free++] = page;
}

void ref_leave(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, uint32_t g, int64_t column,
	       const struct when *w)
{
	struct ref_part *t = &q->parts[g];
	struct when others = ref_leaving(s, r, *w);
	bool waits = !others.now && (r->unordered || holds_more(s, r, q, g));
	int32_t page = t->row[column];

	if (page < 0)
		return;
	t->row[column] = -1;
	if (waits)
		t->staged[t->n_staged++] = (struct ref_staged){ page, others.value };
	else
		come_back(s, r, q, g, page);
}

/* ---- deliveries ----------------------------------------------------------------- */

static void deliver_row(struct ref_session *s, uint32_t g, int32_t slot, struct ref_delivery *d)
{
	struct ref_line *l = &s->slots[slot].lines[g];
	const int32_t *row = ref_row(s, g, slot);
	struct ref_row *out = &d->rows[g][slot];

	for (int32_t c = 0; c < s->groups[g].width; c++) {
		int32_t want = row ? row[c] : -1;

		if (l->device[c] == want)
			continue;
		l->device[c] = want;
		out->page[c] = want;
		out->goes = true;
		d->n_updates++;
	}
	if (out->goes)
		l->version++;
}

static void deliver_scrub(struct ref_line *l, struct ref_row *out)
{
	out->scrub_first = l->dirty_first;
	out->scrub_n = l->dirty ? l->bound_end - l->dirty_first : 0;
	out->fresh_first = l->fresh_first;
	out->end = l->bound_end;
	l->bound_end = 0;
	l->dirty = false;
}

void ref_deliver(struct ref_session *s, struct ref_request *const requests[], uint32_t n, struct ref_delivery *d)
{
	d->n_updates = 0;
	for (int32_t slot = 0; slot < s->max_batch; slot++) {
		int32_t owner = s->slots[slot].owner;
		bool goes = false;

		for (uint32_t i = 0; i < n; i++)
			goes |= owner >= 0 ? &s->requests[owner] == requests[i]
					   : s->slots[slot].stream == requests[i]->stream;
		for (uint32_t g = 0; g < s->n_groups; g++) {
			struct ref_row *out = &d->rows[g][slot];

			out->goes = false;
			for (int32_t c = 0; c < s->groups[g].width; c++)
				out->page[c] = REF_SAME;
			if (goes)
				deliver_row(s, g, slot, d);
			deliver_scrub(&s->slots[slot].lines[g], out);
		}
	}
}

/* ---- completion ------------------------------------------------------------------- */

int ref_fence_read(const struct ref_session *s, const struct ref_request *r, const struct wire_fence *f, uint64_t armed,
		   bool ending, struct when *w)
{
	*w = (struct when){ 0 };
	switch (f->kind) {
	case WIRE_FENCE_DONE:
		break;
	case WIRE_FENCE_FAILED:
		w->failed = true;
		return SWAKV_OK;
	case WIRE_FENCE_LINE:
		if (f->line != r->stream || f->value > armed)
			return SWAKV_EINVALID;
		w->value = f->value;
		break;
	case WIRE_FENCE_POINT:
		if (!ending)
			return SWAKV_EINVALID;
		w->value = r->transition == TRANSITION_NONE ? 0 : armed;
		break;
	default:
		return SWAKV_EINVALID;
	}
	w->now = w->value <= s->word[r->stream];
	return SWAKV_OK;
}

struct when ref_leaving(const struct ref_session *s, const struct ref_request *r, struct when w)
{
	if (r->last_value > w.value)
		w.value = r->last_value;
	w.now = w.value <= s->word[r->stream];
	return w;
}

void ref_open_point(struct ref_session *s, struct ref_request *r, const struct when *w)
{
	if (w->value > r->last_value)
		r->last_value = w->value;
	if (w->now)
		return;
	for (int32_t i = 0; i < r->n_points; i++)
		if (r->points[i] == w->value)
			return;
	if (r->n_points == REF_POINTS) {
		ref_complain(s->pool, "the model has no room for another completion point");
		return;
	}
	r->points[r->n_points++] = w->value;
}

/* Pages that a sequence gives up for good. */
static void give_up_page(struct ref_session *s, const struct ref_request *r, uint32_t g, int32_t page,
			 const struct when *w)
{
	if (w->failed)
		ref_quarantine(s, g, page, r->stream);
	else if (w->now)
		ref_release(s->groups[g].class, s->pool, page);
	else if (s->n_tails == REF_TAILS)
		ref_complain(s->pool, "the model has no room for another page behind a point");
	else {
		s->tails[s->n_tails] = (struct ref_tail){ .group = g, .page = page };
		s->tails[s->n_tails++].until[r->stream] = w->value;
	}
}

void ref_take_slot(struct ref_slot *l, uint32_t stream)
{
	if (l->stream != stream)
		l->blocked = 0;
	l->stream = stream;
}

/* What an earlier request did on that stream counts as well, and may be later. */
void ref_leave_slot(struct ref_slot *l, uint64_t value)
{
	l->owner = -1;
	if (value > l->blocked)
		l->blocked = value;
}

void ref_give_up_seq(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, const struct when *w)
{
	for (uint32_t g = 0; g < s->n_groups; g++) {
		struct ref_part *t = &q->parts[g];

		for (int32_t c = 0; c < s->groups[g].width; c++)
			if (t->row[c] >= 0)
				give_up_page(s, r, g, t->row[c], w);
		for (int32_t i = 0; i < t->n_free; i++)
			give_up_page(s, r, g, t->free[i], w);
		for (int32_t i = 0; i < t->n_staged; i++)
			give_up_page(s, r, g, t->staged[i].page, w);
	}
}

void ref_leave_moved(struct ref_session *s, struct ref_request *r, const struct when *w)
{
	struct when last = ref_leaving(s, r, *w);

	last.failed = w->failed;
	for (int32_t i = 0; i < r->n_moved; i++)
		give_up_page(s, r, r->moved[i].group, r->moved[i].page, &last);
	r->n_moved = 0;
}

void ref_end_request(struct ref_session *s, struct ref_request *r, const struct when *w)
{
	s->pool->n_lost += r->n_moved > 0;
	for (int32_t i = 0; i < r->n_seqs; i++) {
		ref_give_up_seq(s, r, &r->seqs[i], w);
		ref_leave_slot(&s->slots[r->seqs[i].slot], w->now || w->failed ? 0 : w->value);
	}
	ref_leave_moved(s, r, w);
	if (w->failed)
		s->poisoned = true;
	if (s->n_ended == s->cap_ended) {
		s->cap_ended = s->cap_ended ? 2 * s->cap_ended : 64;
		s->ended_handles = realloc(s->ended_handles, s->cap_ended * sizeof *s->ended_handles);
		if (!s->ended_handles)
			abort();
	}
	s->ended_handles[s->n_ended++] = r->handle;
	r->live = false;
}

static void reach_part(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, uint32_t g, uint64_t word)
{
	struct ref_part *t = &q->parts[g];

	/* in the order of their values, as if the line had moved one by one */
	for (;;) {
		int32_t next = -1, page;

		for (int32_t i = 0; i < t->n_staged; i++)
			if (t->staged[i].value <= word && (next < 0 || t->staged[i].value < t->staged[next].value))
				next = i;
		if (next < 0)
			return;
		page = t->staged[next].page;
		t->n_staged--;
		for (int32_t i = next; i < t->n_staged; i++)
			t->staged[i] = t->staged[i + 1];
		come_back(s, r, q, g, page);
	}
}

void ref_reach(struct ref_session *s, uint32_t line, uint64_t word)
{
	int32_t kept = 0;

	if (s->ended || word <= s->word[line])
		return;
	s->word[line] = word;
	for (int i = 0; i < REF_REQUESTS; i++) {
		struct ref_request *r = &s->requests[i];
		int32_t open = 0;

		if (!r->live || r->stream != line)
			continue;
		for (int32_t j = 0; j < r->n_seqs; j++)
			for (uint32_t g = 0; g < s->n_groups; g++)
				reach_part(s, r, &r->seqs[j], g, word);
		for (int32_t j = 0; j < r->n_points; j++)
			if (r->points[j] > word)
				r->points[open++] = r->points[j];
		r->n_points = open;
	}
	for (int32_t i = 0; i < s->n_tails; i++) {
		bool reached = true;

		for (uint32_t k = 0; k < REF_STREAMS; k++)
			reached &= s->tails[i].until[k] <= s->word[k];
		if (reached)
			ref_release(s->groups[s->tails[i].group].class, s->pool, s->tails[i].page);
		else
			s->tails[kept++] = s->tails[i];
	}
	s->n_tails = kept;
}
