/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - everything of spec section 4 that can be asked for, and the counts */
#include "internal.h"

int request_query(const struct session *s, uint64_t handle, struct wire_request_state *out, struct fault *f)
{
	struct request *r;
	int code = request_find(s, handle, &r, f);

	if (code)
		return code;
	*out = (struct wire_request_state){ .phase = r->phase,
					    .transition = r->transition,
					    .stream = r->stream,
					    .n_seqs = r->n_seqs,
					    .open_points = r->n_points,
					    .pending_batch = r->pending_batch };
	return 0;
}

/* Writes what falls into the wanted stretch of the whole list. */
struct binding_writer {
	struct wire_binding *out;
	uint32_t first, cap;
	uint32_t seen, written;
};

static void write_binding(struct binding_writer *w, int32_t logical, int32_t page)
{
	if (w->seen++ >= w->first && w->written < w->cap)
		w->out[w->written++] = (struct wire_binding){ logical, page };
}

static void write_row(const struct session *s, const struct seq *q, int32_t lo, int32_t hi, struct binding_writer *w)
{
	for (int32_t c = lo; c < hi; c++)
		write_binding(w, c, page_table_get(&s->table, q->slot, c));
}

static void write_staged(const struct session *s, const struct request *r, const struct seq *q,
			 struct binding_writer *w)
{
	const struct page_class *c = s->class;
	int32_t index = (int32_t)(q - s->seqs);

	for (int32_t i = r->first_point; i >= 0; i = s->points[i].same_request)
		for (int32_t page = s->points[i].pages.first; page >= 0; page = c->link[page])
			if (c->owner[page] == index)
				write_binding(w, -1, page);
}

static void describe(const struct session *s, const struct request *r, const struct seq *q,
		     struct wire_sequence_state *out, int32_t *lo, int32_t *kept, int32_t *fresh, int32_t *hi)
{
	int64_t e = seq_pending_endpoint(r, q);
	bool moving = r->transition == TRANSITION_PREFILL || r->transition == TRANSITION_STEP;

	seq_mapped(s, r, q, lo, hi);
	*kept = window_begin(&s->window, e);
	*fresh = r->transition == TRANSITION_PREFILL ? *lo : q->end;
	*out = (struct wire_sequence_state){ .slot = q->slot,
					     .generation = s->slots[q->slot].generation,
					     .endpoint = seq_endpoint(r, q),
					     .pending_endpoint = moving ? e : -1,
					     .window = s->window.tokens,
					     .page_tokens = (int32_t)s->window.per_page,
					     .retained_begin = q->begin,
					     .retained_end = q->end,
					     .n_bound = (uint32_t)(*hi - *kept),
					     .n_reserved = (uint32_t)q->n_reserved,
					     .n_new = (uint32_t)(*hi - *fresh),
					     .n_retiring = (uint32_t)(*kept - *lo),
					     .n_staged = (uint32_t)q->n_staged,
					     .length = q->length,
					     .pending_map = r->transition == TRANSITION_COMPACT ? q->map : -2,
					     .change = s->change };
}

int sequence_query(const struct session *s, uint64_t handle, const struct wire_query_state *query,
		   struct wire_sequence_state *out, struct wire_binding *bindings, uint32_t cap, uint32_t *n,
		   struct fault *f)
{
	struct binding_writer w = { .out = bindings, .first = query->first, .cap = cap };
	struct request *r;
	int code = request_find(s, handle, &r, f);
	const struct seq *q;
	int32_t lo, kept, fresh, hi;

	*n = 0;
	if (code)
		return code;
	if (query->seq < 0 || query->seq >= (int32_t)r->n_seqs)
		return fault_set(f, FAULT_STATE_SEQUENCE, -1, query->seq, r->n_seqs);
	q = request_seq(s, r, (uint32_t)query->seq);
	describe(s, r, q, out, &lo, &kept, &fresh, &hi);
	if (query->generation && query->generation != out->generation)
		return fault_set(f, FAULT_GENERATION, query->seq, query->generation, out->generation);
	write_row(s, q, kept, hi, &w);
	for (int32_t i = q->n_reserved - 1; i >= 0; i--)
		write_binding(&w, -1, seq_reserved(s, q)[i]);
	write_row(s, q, fresh, hi, &w);
	write_row(s, q, lo, kept, &w);
	write_staged(s, r, q, &w);
	*n = w.written;
	return 0;
}

int64_t session_free_pages(const struct session *s)
{
	return pool_available(&s->engine->pool, s->class);
}

void engine_count(const struct engine *e, struct engine_counts *out)
{
	const struct pool *p = &e->pool;
	uint64_t held = 0;

	for (int32_t x = 0; x < p->n_extents; x++) {
		uint64_t start = (uint64_t)x * p->extent_bytes;
		uint64_t bytes = p->half_bytes - start < p->extent_bytes ? p->half_bytes - start : p->extent_bytes;

		if (p->extent_class[x] >= 0)
			held += 2 * bytes;
	}
	*out = (struct engine_counts){ .total = 2 * p->half_bytes,
				       .held = held,
				       .free = 2 * p->half_bytes - held,
				       .extent_bytes = p->extent_bytes,
				       .n_classes = (uint32_t)p->n_classes };
}

int32_t engine_extent_class(const struct engine *e, uint32_t extent)
{
	return extent < (uint32_t)e->pool.n_extents ? e->pool.extent_class[extent] : -1;
}

bool engine_class_count(const struct engine *e, uint32_t index, struct class_counts *out)
{
	/* The cache of available pages is the pool's own business: it changes nothing that can be seen. */
	struct pool *p = (struct pool *)&e->pool;
	struct page_class *c;

	if (index >= (uint32_t)p->n_classes)
		return false;
	c = p->classes[index];
	*out = (struct class_counts){ .page_bytes = c->page_bytes,
				      .pages = c->n_usable,
				      .free = c->n_free,
				      .leased = c->n_leased,
				      .quarantined = c->n_quarantined,
				      .available = pool_available(p, c),
				      .num_pages = c->num_pages,
				      .extents = (uint32_t)c->n_extents,
				      .sessions = (uint32_t)c->n_sessions };
	return true;
}

uint32_t session_class(const struct session *s, uint32_t group)
{
	(void)group;
	return s->class_index;
}

void session_count(const struct session *s, struct session_counts *out)
{
	*out = (struct session_counts){ .quarantined = session_quarantined(s),
					.requests = s->n_requests,
					.sequences = s->n_sequences,
					.open_points = s->n_points,
					.poisoned = s->poisoned,
					.ended = s->ended };
	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next)
		out->leased += (int64_t)s->requests[i].reservation * s->requests[i].n_seqs;
	for (uint32_t l = 0; l < s->model.n_streams; l++) {
		for (int32_t i = s->lines[l].first_point; i >= 0; i = s->points[i].next) {
			out->behind_points += s->points[i].pages.n;
			if (s->points[i].request < 0)
				out->leased += s->points[i].pages.n;
		}
	}
}
