/* SPDX-License-Identifier: Apache-2.0 */
/* deliver.c - see deliver.h; rows are read from the host table where an answer has no room for what changed */
#include "deliver.h"

#include <stdlib.h>
#include <string.h>

#include "wire_turn.h"

/* What one stream gets of a delivery. */
struct share {
	struct gpu_update *updates, *pages, *copies;
	uint32_t n_updates, n_pages, n_copies, cap_updates, cap_pages, cap_copies;
};

void deliver_arm(struct worker *v, uint32_t stream)
{
	if (v->armed[stream] > v->marked[stream])
		return;
	v->armed[stream] = v->marked[stream] + 1;
	store_release(&v->gpu.streams[stream].line->armed, v->armed[stream]);
}

uint64_t deliver_mark(struct worker *v, uint32_t stream)
{
	deliver_arm(v, stream);
	v->marked[stream] = v->armed[stream];
	gpu_mark(&v->gpu, stream, v->marked[stream]);
	return v->marked[stream];
}

void deliver_mark_clears(struct worker *v)
{
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		if (v->armed[i] > v->marked[i])
			deliver_mark(v, i);
}

void deliver_take_slots(struct worker *v, struct life *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		int32_t slot = l->seqs[i].slot;
		uint32_t stream = v->slots[slot].applied;

		v->slots[slot].stream = l->stream;
		if (v->slots[slot].until && stream != l->stream &&
		    load_acquire(&v->gpu.streams[stream].line->word) < v->slots[slot].until)
			l->early = true;
	}
}

static void push(struct gpu_update **list, uint32_t *n, uint32_t *cap, struct gpu_update u)
{
	if (*n == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		*list = realloc(*list, *cap * sizeof(**list));
		if (!*list)
			abort();
	}
	(*list)[(*n)++] = u;
}

/* The K id, or that of a joined page, that the host table has now. */
static int32_t host_page(const struct worker *v, uint32_t group, int32_t slot, int32_t column)
{
	const struct shared *s = v->shared;
	const int32_t *cells = (const int32_t *)(s->tables + s->layout.cells[group]);

	return cells[(int64_t)slot * shape_id_rows(v->gpu.geometry[group].shape.joined) * v->gpu.geometry[group].width +
		     column];
}

static uint32_t host_version(const struct worker *v, uint32_t group, int32_t slot)
{
	const struct shared *s = v->shared;
	const struct wire_row_head *rows = (const struct wire_row_head *)(s->tables + s->layout.rows[group]);

	return load_acquire(&rows[slot].version);
}

static void add_update(struct worker *v, struct share *shares, struct gpu_update u)
{
	struct share *s = &shares[v->slots[u.slot].stream];

	hold_check_bound(v, u.group, u.page);
	push(&s->updates, &s->n_updates, &s->cap_updates, u);
}

/* The columns that may differ, or all where the row has moved on meanwhile: later answers are contained in it then. */
static void read_row(struct worker *v, struct share *shares, const struct wire_row *r, uint32_t group, int32_t slot)
{
	int32_t first = (int32_t)r->first, end = (int32_t)r->end;
	uint32_t version = host_version(v, group, slot);

	if (end == 0 || version != r->version) {
		first = 0;
		end = v->gpu.geometry[group].width;
	}
	v->held[group][slot] = version;
	for (int32_t c = first; c < end; c++)
		add_update(v, shares, (struct gpu_update){ group, slot, c, host_page(v, group, slot, c), -1 });
}

static void take_rows(struct worker *v, struct share *shares, const struct wire_delivery *d,
		      const struct wire_row *rows, bool fresh[SIM_GROUPS][SIM_BATCH])
{
	uint32_t max_batch = (uint32_t)v->model->max_batch;

	for (uint32_t i = 0; i < d->n_rows; i++) {
		uint32_t group = rows[i].row / max_batch;
		int32_t slot = (int32_t)(rows[i].row % max_batch);

		fresh[group][slot] = (int32_t)(rows[i].version - v->held[group][slot]) > 0;
		if (!fresh[group][slot])
			continue;
		if (d->flags & WIRE_DELIVERY_BY_REFERENCE)
			read_row(v, shares, &rows[i], group, slot);
		else
			v->held[group][slot] = rows[i].version;
	}
}

static void take_updates(struct worker *v, struct share *shares, const struct wire_delivery *d,
			 const struct wire_update *updates, bool fresh[SIM_GROUPS][SIM_BATCH])
{
	for (uint32_t i = 0; i < d->n_updates; i++) {
		uint32_t cell = updates[i].cell, group = 0, width, n;

		for (;; group++, cell -= n) {
			width = (uint32_t)v->gpu.geometry[group].width;
			n = width * (uint32_t)v->model->max_batch;
			if (cell < n)
				break;
		}
		if (fresh[group][cell / width])
			add_update(v, shares,
				   (struct gpu_update){ group, (int32_t)(cell / width), (int32_t)(cell % width),
							updates[i].page, -1 });
	}
}

static void take_scrubs(struct worker *v, struct share *shares, const struct wire_delivery *d,
			const struct wire_scrub *scrubs)
{
	for (uint32_t i = 0; i < d->n_scrubs; i++) {
		uint32_t group = scrubs[i].row / (uint32_t)v->model->max_batch;
		int32_t slot = (int32_t)(scrubs[i].row % (uint32_t)v->model->max_batch);
		struct share *s = &shares[v->slots[slot].stream];

		for (uint32_t c = scrubs[i].first; c < scrubs[i].first + scrubs[i].n; c++) {
			int32_t page = host_page(v, group, slot, (int32_t)c);

			if (page >= 0)
				push(&s->pages, &s->n_pages, &s->cap_pages,
				     (struct gpu_update){ group, slot, (int32_t)c, page, -1 });
		}
	}
}

static struct life *life_in(struct worker *v, int32_t slot)
{
	for (int i = 0; i < SIM_BATCH; i++)
		for (uint32_t k = 0; k < v->lives[i].n; k++)
			if (v->lives[i].seqs[k].slot == slot)
				return &v->lives[i];
	return NULL;
}

/* Only pages of a movable group of a request that is not pinned move, and to pages that are there. */
static bool may_move(struct worker *v, const struct life *l, uint32_t group, const struct wire_move *m)
{
	const struct geometry *g = &v->gpu.geometry[group];

	if (!(v->model->groups[group].flags & WIRE_GROUP_MOVABLE))
		world_break(v->world, "a page of group %u of worker %u moves, which may not", group, v->number);
	else if (!l || l->pinned)
		world_break(v->world, "worker %u: a page of slot %u moves, whose request %s", v->number,
			    m->row % (uint32_t)v->model->max_batch, l ? "is pinned" : "is no more");
	else if (!memory_has(&v->world->memory, g, m->from) || !memory_has(&v->world->memory, g, m->to))
		world_break(v->world, "page %d of group %u moves to %d", m->from, group, m->to);
	return !v->world->broken[0];
}

/* Pages that move: all of each is copied, behind what the stream has, or its request is lost. */
static void take_moves(struct worker *v, struct share *shares, const struct wire_move *moves, uint32_t n)
{
	if (n > WIRE_MAX_MOVES)
		world_break(v->world, "%u pages of worker %u move with one answer", n, v->number);
	for (uint32_t i = 0; i < n && !v->world->broken[0]; i++) {
		uint32_t group = moves[i].row / (uint32_t)v->model->max_batch;
		int32_t slot = (int32_t)(moves[i].row % (uint32_t)v->model->max_batch);
		struct share *s = &shares[v->slots[slot].stream];
		struct life *l = life_in(v, slot);

		if (!may_move(v, l, group, &moves[i]))
			return;
		l->lost |= world_fault(v->world, SIM_POISON);
		if (l->lost)
			continue;
		push(&s->copies, &s->n_copies, &s->cap_copies,
		     (struct gpu_update){ .group = group, .slot = slot, .page = moves[i].to, .from = moves[i].from });
	}
	v->world->moved += n;
}

/* Scrubs and copies first, then the updates; their slots are another stream's only when the next mark is reached. */
static void enqueue(struct worker *v, uint32_t stream, struct share *s)
{
	if (s->n_pages || s->n_copies || s->n_updates)
		deliver_arm(v, stream);
	for (uint32_t i = 0; i < s->n_updates; i++) {
		v->slots[s->updates[i].slot].applied = stream;
		v->slots[s->updates[i].slot].until = v->armed[stream];
	}
	if (s->n_pages)
		gpu_scrub(&v->gpu, stream, s->pages, s->n_pages);
	if (s->n_copies)
		gpu_copy(&v->gpu, stream, s->copies, s->n_copies, v->world->plan.kernel_ns);
	if (s->n_updates)
		gpu_apply(&v->gpu, stream, s->updates, s->n_updates);
}

const struct wire_entry_fault *deliver(struct worker *v, const struct message *m, struct wire_delivery *d)
{
	const unsigned char *p = m->bytes + sizeof(struct wire_reply);
	bool fresh[SIM_GROUPS][SIM_BATCH] = { 0 };
	struct share shares[SIM_STREAMS] = { 0 };
	const struct wire_entry_fault *faults;
	const struct wire_update *updates;
	const struct wire_scrub *scrubs;
	const struct wire_begun *begun;
	const struct wire_row *rows;

	memcpy(d, p, sizeof(*d));
	faults = (const struct wire_entry_fault *)(p + sizeof(*d));
	updates = (const struct wire_update *)(faults + d->n_faults);
	rows = (const struct wire_row *)(updates + d->n_updates);
	v->world->by_reference += (d->flags & WIRE_DELIVERY_BY_REFERENCE) != 0;
	take_rows(v, shares, d, rows, fresh);
	take_updates(v, shares, d, updates, fresh);
	scrubs = (const struct wire_scrub *)(rows + d->n_rows);
	take_scrubs(v, shares, d, scrubs);
	begun = (const struct wire_begun *)(scrubs + d->n_scrubs);
	take_moves(v, shares, (const struct wire_move *)(begun + d->n_begun), d->flags / WIRE_DELIVERY_MOVE);
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		enqueue(v, i, &shares[i]);
	return faults;
}
