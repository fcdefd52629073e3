/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - the state of a request and of a sequence, as spec section 4 has it */
#include "query.h"

#include "quarantine.h"
#include "shared_point.h"
#include "slice.h"

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
					    .open_points = request_open_points(s, r),
					    .pending_batch = r->pending_batch };
	return 0;
}

/* Writes what falls into the wanted stretch of the whole list. */
struct binding_writer {
	struct wire_binding *out;
	uint32_t first, cap;
	uint32_t seen, written;
	struct session *session;
	int32_t left; /* before the next spending (slice.h) */
};

static void write_binding(struct binding_writer *w, int32_t logical, int32_t page)
{
	if (w->seen++ >= w->first && w->written < w->cap)
		w->out[w->written++] = (struct wire_binding){ logical, page };
}

/* Of @n bindings that are next, the first that is wanted: those before it, or all that are left, are passed over. */
static int32_t pass_over(struct binding_writer *w, int32_t n)
{
	uint32_t skip = w->written == w->cap ? (uint32_t)n : w->seen < w->first ? w->first - w->seen : 0;

	skip = skip < (uint32_t)n ? skip : (uint32_t)n;
	w->seen += skip;
	return (int32_t)skip;
}

static void write_row(const struct group *g, const struct seq *q, int32_t lo, int32_t hi, struct binding_writer *w)
{
	for (int32_t c = lo + pass_over(w, hi > lo ? hi - lo : 0); c < hi && w->written < w->cap; c++) {
		write_binding(w, c, page_table_get(&g->table, q->slot, c));
		slice_step(w->session, &w->left, 1);
	}
}

static void write_reserved(const struct group *g, const struct seq *q, struct binding_writer *w)
{
	int32_t n = seq_span(g, q)->n_reserved;

	for (int32_t i = n - 1 - pass_over(w, n); i >= 0 && w->written < w->cap; i--) {
		write_binding(w, -1, seq_reserved(g, q)[i]);
		slice_step(w->session, &w->left, 1);
	}
}

static void write_staged(const struct session *s, const struct group *g, const struct request *r, const struct seq *q,
			 struct binding_writer *w)
{
	const struct page_class *c = g->class;
	int32_t index = q->index, left = seq_span(g, q)->n_staged;

	/* Neither what is not wanted nor what is behind the last of its pages is looked for. */
	for (int32_t i = r->first_point; i >= 0 && left > 0 && w->written < w->cap; i = s->points[i].same_request) {
		for (int32_t page = point_chain(s, &s->points[i], g->index)->first; page >= 0 && left > 0;
		     page = c->link[page]) {
			if (c->owner[page] == index) {
				write_binding(w, -1, page);
				left--;
			}
			slice_step(w->session, &w->left, 1);
		}
		slice_step(w->session, &w->left, 1);
	}
}

/*
 * Columns of a row, from left to right: retiring [lo, kept), bound [kept, gap) and
 * [resume, hi), new ones from fresh. What is retained begins at `begin`: kept, or
 * where nothing of the former window is, resume.
 */
struct row_parts {
	int32_t lo, kept, gap, resume, fresh, hi;
	int32_t begin;
};

static struct row_parts row_parts(const struct session *s, const struct group *g, const struct request *r,
				  const struct seq *q)
{
	struct mapped m = seq_mapped(s, g, r, q);
	struct row_parts p = { m.lo, m.lo, m.gap, m.resume, m.resume, m.hi, m.lo };

	/* how much of a mapped chunk stays is not known before its complete */
	if ((r->transition == TRANSITION_STEP || r->transition == TRANSITION_EXTEND) && !s->model.chunk_mapped) {
		p.begin = seq_retained_begin(g, q, seq_pending_endpoint(r, q));
		p.kept = p.begin < p.gap ? p.begin : p.gap;
	}
	return p;
}

static void describe(const struct session *s, const struct group *g, const struct request *r, const struct seq *q,
		     const struct row_parts *p, struct wire_sequence_state *out)
{
	bool moving = r->transition != TRANSITION_NONE && r->transition != TRANSITION_COMPACT;
	const struct span *span = seq_span(g, q);

	*out = (struct wire_sequence_state){ .slot = q->slot,
					     .generation = s->slots[q->slot].generation,
					     .endpoint = seq_endpoint(r, q),
					     .pending_endpoint = moving ? seq_pending_endpoint(r, q) : -1,
					     .window = s->model.groups[g->index].window,
					     .page_tokens = (int32_t)g->window.per_page,
					     .retained_begin = p->begin,
					     .retained_end = p->hi,
					     .n_bound = (uint32_t)(p->gap - p->kept + p->hi - p->resume),
					     .n_reserved = (uint32_t)span->n_reserved,
					     .n_new = (uint32_t)(p->hi - p->fresh),
					     .n_retiring = (uint32_t)(p->kept - p->lo),
					     .n_staged = (uint32_t)span->n_staged,
					     .length = q->length,
					     .pending_map = r->transition == TRANSITION_COMPACT ? q->map : -2,
					     .change = s->change };
}

int sequence_query(const struct session *s, uint64_t handle, const struct wire_query_state *query,
		   struct wire_sequence_state *out, struct wire_binding *bindings, uint32_t cap, uint32_t *n,
		   struct fault *f)
{
	/* That it is counted on, and may be paused, changes nothing that can be seen of it. */
	struct binding_writer w = {
		.out = bindings, .first = query->first, .cap = cap, .session = (struct session *)s
	};
	struct request *r;
	int code = request_find(s, handle, &r, f);
	const struct group *g;
	struct row_parts p;
	const struct seq *q;

	*n = 0;
	if (code)
		return code;
	if (query->seq < 0 || query->seq >= (int32_t)r->n_seqs)
		return fault_set(f, FAULT_STATE_SEQUENCE, -1, query->seq, r->n_seqs);
	if (query->group >= s->n_groups)
		return fault_set(f, FAULT_STATE_GROUP, -1, query->group, s->n_groups);
	q = request_seq(s, r, (uint32_t)query->seq);
	g = &s->groups[query->group];
	p = row_parts(s, g, r, q);
	describe(s, g, r, q, &p, out);
	if (query->generation && query->generation != out->generation)
		return fault_set(f, FAULT_GENERATION, query->seq, query->generation, out->generation);
	w.left = slice_part(s, INT32_MAX);
	write_row(g, q, p.kept, p.gap, &w);
	write_row(g, q, p.resume, p.hi, &w);
	write_reserved(g, q, &w);
	write_row(g, q, p.fresh, p.hi, &w);
	write_row(g, q, p.lo, p.kept, &w);
	write_staged(s, g, r, q, &w);
	slice_rest(w.session, w.left);
	*n = w.written;
	return 0;
}
