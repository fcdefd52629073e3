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
 * - Shutdown looks at every fence for its form, and at those of streams that
 *   have pages in quarantine for what they say: FAILED is `poisoned`, a value
 *   that was not reached `pending`.
 * - With max_tokens a sequence reserves at most the pages of that many tokens,
 *   and a longer prefill is `invalid`.
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

int64_t ref_private_pages(int64_t window, int64_t page_tokens, int64_t max_seq)
{
	int64_t width = ceil_div(max_seq, page_tokens);
	int64_t most = ceil_div(window, page_tokens) + 1;

	/* 2 * most + 1 would not overflow for any window that is an int64, but is of no interest beyond the width */
	return most > width || 2 * most + 1 > width ? width : 2 * most + 1;
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

/* Adds @by to the owners of every byte of page @id. The V page lies at the same place of the other half. */
static void own_bytes(struct ref_session *s, int32_t id, int by)
{
	struct ref_pool *p = s->pool;
	uint64_t begin = (uint64_t)id * s->class->page_bytes / REF_GRAIN;
	uint64_t end = ((uint64_t)id + 1) * s->class->page_bytes / REF_GRAIN;

	for (uint64_t g = begin; g < end; g++) {
		p->grain[g] = (uint8_t)(p->grain[g] + by);
		if (p->grain[g] > 1)
			ref_complain(p, "byte %llu of a half has two owners (page %d of %llu bytes)",
				     (unsigned long long)g * REF_GRAIN, id, (unsigned long long)s->class->page_bytes);
	}
}

void ref_lease(struct ref_session *s, int32_t id)
{
	struct ref_class *c = s->class;

	if (id < 0 || id >= c->num_pages) {
		ref_complain(s->pool, "page %d is outside 0 to %d", id, c->num_pages - 1);
		return;
	}
	if (c->page[id] != REF_FREE)
		ref_complain(s->pool, "page %d was given out although it is %s", id,
			     c->page[id] == REF_LEASED ? "leased" : "in quarantine");
	c->page[id] = REF_LEASED;
	c->written[id] = false;
	c->user[id] = s;
	own_bytes(s, id, 1);
}

void ref_release(struct ref_session *s, int32_t id)
{
	s->class->page[id] = REF_FREE;
	own_bytes(s, id, -1);
}

void ref_quarantine(struct ref_session *s, int32_t id, uint32_t line)
{
	s->class->page[id] = REF_QUARANTINED;
	s->class->line[id] = line;
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

const int32_t *ref_row(const struct ref_session *s, int32_t slot)
{
	int32_t owner = s->slots[slot].owner;

	for (int32_t i = 0; owner >= 0 && i < s->requests[owner].n_seqs; i++)
		if (s->requests[owner].seqs[i].slot == slot)
			return s->requests[owner].seqs[i].row;
	return NULL;
}

void ref_new_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q, int64_t *begin,
		   int64_t *end)
{
	*begin = *end = 0;
	if (r->transition == TRANSITION_PREFILL)
		*begin = ref_retained_begin(q->pending_endpoint, s->window, s->page_tokens);
	else if (r->transition == TRANSITION_STEP)
		*begin = ref_retained_end(q->endpoint, s->page_tokens);
	else
		return;
	*end = ref_retained_end(q->pending_endpoint, s->page_tokens);
}

void ref_retiring_range(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q,
			int64_t *begin, int64_t *end)
{
	*begin = *end = 0;
	if (r->transition != TRANSITION_STEP)
		return;
	*begin = ref_retained_begin(q->endpoint, s->window, s->page_tokens);
	*end = ref_retained_begin(q->pending_endpoint, s->window, s->page_tokens);
}

int64_t ref_settled_begin(const struct ref_session *s, const struct ref_seq *q)
{
	return ref_retained_begin(q->endpoint, s->window, s->page_tokens);
}

/* ---- deliveries ----------------------------------------------------------------- */

static void deliver_row(struct ref_session *s, int32_t slot, struct ref_delivery *d)
{
	struct ref_slot *l = &s->slots[slot];
	const int32_t *row = ref_row(s, slot);

	for (int32_t c = 0; c < s->width; c++) {
		int32_t want = row ? row[c] : -1;

		if (l->device[c] == want)
			continue;
		l->device[c] = want;
		d->page[slot][c] = want;
		d->row[slot] = true;
		d->n_updates++;
	}
	if (d->row[slot])
		l->version++;
}

static void deliver_scrub(struct ref_slot *l, int32_t slot, struct ref_delivery *d)
{
	d->scrub_first[slot] = l->bound_first;
	d->scrub_n[slot] = l->dirty ? l->bound_end - l->bound_first : 0;
	l->bound_end = l->bound_first = 0;
	l->dirty = false;
}

void ref_deliver(struct ref_session *s, struct ref_request *const requests[], uint32_t n, struct ref_delivery *d)
{
	memset(d->row, 0, sizeof d->row);
	d->n_updates = 0;
	for (int i = 0; i < REF_BATCH; i++)
		for (int c = 0; c < REF_WIDTH; c++)
			d->page[i][c] = REF_SAME;
	for (int32_t slot = 0; slot < s->max_batch; slot++) {
		bool goes = false;

		for (uint32_t i = 0; i < n; i++) {
			int32_t owner = s->slots[slot].owner;

			if (owner >= 0 ? &s->requests[owner] == requests[i]
				       : s->slots[slot].stream == requests[i]->stream)
				goes = true;
		}
		if (goes)
			deliver_row(s, slot, d);
		deliver_scrub(&s->slots[slot], slot, d);
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
static void give_up_page(struct ref_session *s, const struct ref_request *r, int32_t page, const struct when *w)
{
	if (w->failed)
		ref_quarantine(s, page, r->stream);
	else if (w->now)
		ref_release(s, page);
	else
		s->tails[s->n_tails++] = (struct ref_tail){ page, r->stream, w->value };
}

void ref_give_up_seq(struct ref_session *s, const struct ref_request *r, struct ref_seq *q, const struct when *w)
{
	for (int32_t c = 0; c < s->width; c++)
		if (q->row[c] >= 0)
			give_up_page(s, r, q->row[c], w);
	for (int32_t i = 0; i < q->n_free; i++)
		give_up_page(s, r, q->free[i], w);
	for (int32_t i = 0; i < q->n_staged; i++)
		give_up_page(s, r, q->staged[i].page, w);
	s->slots[q->slot].owner = -1;
	s->slots[q->slot].stream = r->stream;
	s->slots[q->slot].blocked = w->now || w->failed ? 0 : w->value;
}

void ref_end_request(struct ref_session *s, struct ref_request *r, const struct when *w)
{
	for (int32_t i = 0; i < r->n_seqs; i++)
		ref_give_up_seq(s, r, &r->seqs[i], w);
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

static void reach_seq(struct ref_seq *q, uint64_t word)
{
	/* in the order of their values, as if the line had moved one by one */
	for (;;) {
		int32_t next = -1;

		for (int32_t i = 0; i < q->n_staged; i++)
			if (q->staged[i].value <= word && (next < 0 || q->staged[i].value < q->staged[next].value))
				next = i;
		if (next < 0)
			return;
		q->free[q->n_free++] = q->staged[next].page;
		q->n_staged--;
		for (int32_t i = next; i < q->n_staged; i++)
			q->staged[i] = q->staged[i + 1];
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
			reach_seq(&r->seqs[j], word);
		for (int32_t j = 0; j < r->n_points; j++)
			if (r->points[j] > word)
				r->points[open++] = r->points[j];
		r->n_points = open;
	}
	for (int32_t i = 0; i < s->n_tails; i++) {
		if (s->tails[i].line == line && s->tails[i].value <= word)
			ref_release(s, s->tails[i].page);
		else
			s->tails[kept++] = s->tails[i];
	}
	s->n_tails = kept;
}
