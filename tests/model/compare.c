/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - everything the engine can be asked, against the reference model */
#include "world.h"

#include <string.h>

#include <swakv/error.h>

#define COMPLAIN(w, ...) ref_complain(&(w)->pool, __VA_ARGS__)

static bool same(struct world *w, const char *what, int64_t index, int64_t got, int64_t want)
{
	if (got == want)
		return true;
	COMPLAIN(w, "%s (of %lld): the engine says %lld, it should be %lld", what, (long long)index, (long long)got,
		 (long long)want);
	return false;
}

static const int reason_codes[] = {
#define REASON_CODE(name, code, text) code,
	FAULT_REASONS(REASON_CODE)
#undef REASON_CODE
};

static const char *const reason_names[] = {
#define REASON_NAME(name, code, text) #name,
	FAULT_REASONS(REASON_NAME)
#undef REASON_NAME
};

const char *reason_name(uint32_t reason)
{
	return reason_names[reason];
}

static void compare_fault(struct world *w, const char *call, int code, const struct fault *f)
{
	char text[512];

	if (f->reason >= FAULT_REASON_COUNT || reason_codes[f->reason] != code || f->code != code)
		COMPLAIN(w, "%s: refused with %s, but the fault says code %d, reason %u", call, swakv_error_name(code),
			 f->code, f->reason);
	else if (fault_format(f, text, sizeof text) == 0 || strchr(text, '%'))
		COMPLAIN(w, "%s: no whole sentence for reason %u: \"%s\"", call, f->reason, text);
}

void compare_code(struct world *w, const char *call, int got, int want, const struct fault *f)
{
	char text[512] = "";

	w->code = want;
	w->codes[-want]++;
	if (got != want) {
		if (got)
			fault_format(f, text, sizeof text);
		COMPLAIN(w, "%s: the engine answers %s%s%s%s, it should be %s", call, swakv_error_name(got),
			 got ? " (" : "", text, got ? ")" : "", swakv_error_name(want));
	} else if (got && got != SWAKV_EAGAIN) {
		compare_fault(w, call, got, f);
		w->reasons[f->reason % FAULT_REASON_COUNT]++;
	}
}

/* ---- deliveries -------------------------------------------------------------------- */

static void take_row(struct world *w, uint32_t session, const struct wire_row *row)
{
	const struct ref_session *s = &w->sessions[session];
	uint32_t g = row->row / (uint32_t)s->max_batch, slot = row->row % (uint32_t)s->max_batch;

	if (g >= s->n_groups) {
		COMPLAIN(w, "delivery names row %u of %d rows in %u groups", row->row, s->max_batch, s->n_groups);
		return;
	}
	if (!w->expected.rows[g][slot].goes)
		COMPLAIN(w, "delivery names row %u, where nothing changed or which must wait", row->row);
	same(w, "version of a delivered row", row->row, row->version, ++w->sides[session].version[g][slot]);
	w->expected.rows[g][slot].goes = false;
}

/* Cells are counted over the tables of all groups. */
static void take_update(struct world *w, uint32_t session, const struct wire_update *u)
{
	const struct ref_session *s = &w->sessions[session];
	uint32_t g = 0, cell = u->cell, width;
	int32_t *want;

	while (g < s->n_groups && cell >= (uint32_t)(s->max_batch * s->groups[g].width))
		cell -= (uint32_t)(s->max_batch * s->groups[g++].width);
	if (g == s->n_groups) {
		COMPLAIN(w, "delivery names cell %u", u->cell);
		return;
	}
	width = (uint32_t)s->groups[g].width;
	want = &w->expected.rows[g][cell / width].page[cell % width];
	if (*want != u->page)
		COMPLAIN(w, "delivery sets group %u row %u column %u to page %d%s", g, cell / width, cell % width,
			 u->page,
			 *want == REF_SAME ? ", which the device has, has got already or must not get now" : "");
	*want = REF_SAME;
	w->sides[session].device[g][cell / width][cell % width] = u->page;
}

static void take_reference(struct world *w, uint32_t session, uint32_t row)
{
	struct side *e = &w->sides[session];
	const struct ref_session *s = &w->sessions[session];
	uint32_t g = row / (uint32_t)s->max_batch, slot = row % (uint32_t)s->max_batch;
	int32_t width = s->groups[g].width;

	for (int32_t c = 0; c < width; c++) {
		e->device[g][slot][c] =
			e->tables[g].cells[(int64_t)slot * (s->groups[g].class->joined ? 1 : 2) * width + c];
		w->expected.rows[g][slot].page[c] = REF_SAME;
	}
}

static void compare_scrubs(struct world *w, uint32_t session, const struct delivery *d)
{
	const struct ref_session *s = &w->sessions[session];

	for (uint32_t i = 0; i < d->n_scrubs && !w->pool.error[0]; i++) {
		const struct wire_scrub *c = &d->scrubs[i];
		uint32_t g = c->row / (uint32_t)s->max_batch;
		struct ref_row *want = &w->expected.rows[g % REF_GROUPS][c->row % (uint32_t)s->max_batch];

		if (g >= s->n_groups || c->reserved) {
			COMPLAIN(w, "delivery scrubs row %u of %d in %u groups", c->row, s->max_batch, s->n_groups);
			return;
		}
		/* claims try extents in other classes, which nobody else sees: what they touched counts as dirty */
		if (w->n_claims == 0 || (int64_t)c->first < want->fresh_first ||
		    (int64_t)c->first + c->n != want->end || (want->scrub_n && (int64_t)c->first > want->scrub_first)) {
			same(w, "first column to be scrubbed", c->row, c->first, want->scrub_first);
			same(w, "columns to be scrubbed", c->row, c->n, want->scrub_n);
		}
		want->scrub_n = 0;
		want->end = 0;
		w->n_scrubs++;
		w->sides[session].scrubbed += c->n;
	}
}

/* What the delivery should have brought and has not. */
static void compare_missing(struct world *w, const struct ref_session *s)
{
	for (uint32_t g = 0; g < s->n_groups; g++) {
		for (int32_t i = 0; i < s->max_batch; i++) {
			if (w->expected.rows[g][i].goes)
				COMPLAIN(w, "delivery does not name row %d of group %u", i, g);
			if (w->expected.rows[g][i].scrub_n)
				COMPLAIN(w, "delivery does not scrub row %d of group %u", i, g);
		}
	}
}

void compare_delivery(struct world *w, uint32_t session, const struct delivery *d)
{
	const struct ref_session *s = &w->sessions[session];
	bool by_reference = w->expected.n_updates > WIRE_MAX_INLINE_UPDATES;

	same(w, "flags of a delivery", session, d->flags, by_reference ? WIRE_DELIVERY_BY_REFERENCE : 0);
	same(w, "updates of a delivery", session, d->n_updates, by_reference ? 0 : w->expected.n_updates);
	if (w->pool.error[0])
		return;
	w->n_updates += (uint64_t)w->expected.n_updates;
	w->n_references += by_reference;
	for (uint32_t i = 0; i < d->n_updates && !w->pool.error[0]; i++)
		take_update(w, session, &d->updates[i]);
	for (uint32_t i = 0; i < d->n_rows && !w->pool.error[0]; i++) {
		take_row(w, session, &d->rows[i]);
		if (by_reference && !w->pool.error[0])
			take_reference(w, session, d->rows[i].row);
	}
	compare_scrubs(w, session, d);
	if (!w->pool.error[0])
		compare_missing(w, s);
}

/* ---- rows ------------------------------------------------------------------------------ */

static void compare_row(struct world *w, uint32_t session, uint32_t g, int32_t slot)
{
	struct side *e = &w->sides[session];
	const struct ref_session *s = &w->sessions[session];
	const struct ref_group *o = &s->groups[g];
	const struct ref_line *l = &s->slots[slot].lines[g];
	const struct wire_row_head *head = &e->tables[g].rows[slot];
	const int32_t *row = ref_row(s, g, slot);
	bool joined = o->class->joined;
	int64_t n = (joined ? 1 : 2) * o->width, at = slot * n;
	const int32_t *k = e->tables[g].cells + at, *in_v = joined ? k : k + o->width;

	if (s->ended && memcmp(k, e->at_end[g] + at, (size_t)n * sizeof *k) != 0)
		COMPLAIN(w, "session %u, group %u, host row %d has changed since the session ended", session, g, slot);
	for (int32_t c = 0; c < o->width; c++) {
		int32_t id = row ? row[c] : -1;
		int32_t v = id < 0 ? -1 : joined ? id : id + o->class->num_pages;

		if (!s->ended && (k[c] != id || in_v[c] != v))
			COMPLAIN(
				w,
				"session %u, group %u, host row %d, logical page %d: K %d V %d, it should be K %d V %d",
				session, g, slot, c, k[c], in_v[c], id, v);
		if (e->device[g][slot][c] != l->device[c])
			COMPLAIN(w, "session %u, group %u, device row %d, logical page %d: page %d, it should be %d",
				 session, g, slot, c, e->device[g][slot][c], l->device[c]);
	}
	same(w, "version of a row", slot, load_relaxed(&head->version), l->version);
	if (load_relaxed(&head->sequence) & 1)
		COMPLAIN(w, "row %d of group %u is left in the middle of a write", slot, g);
}

/* ---- sequences ---------------------------------------------------------------------------- */

/* The lists of spec section 4, in the order in which the engine gives them. */
static uint32_t list_bindings(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q,
			      uint32_t g, struct wire_binding *out)
{
	const struct ref_part *t = &q->parts[g];
	int64_t b[2], e[2];
	uint32_t n = 0;

	ref_new_range(s, r, q, g, &b[0], &e[0]);
	ref_retiring_range(s, r, q, g, &b[1], &e[1]);
	for (int32_t c = 0; c < s->groups[g].width; c++)
		if (t->row[c] >= 0 && !(c >= b[1] && c < e[1]))
			out[n++] = (struct wire_binding){ c, t->row[c] };
	for (int32_t i = t->n_free - 1; i >= 0; i--)
		out[n++] = (struct wire_binding){ -1, t->free[i] };
	for (int i = 0; i < 2; i++)
		for (int64_t c = b[i]; c < e[i]; c++)
			if (t->row[c] >= 0)
				out[n++] = (struct wire_binding){ (int32_t)c, t->row[c] };
	for (int32_t i = 0; i < t->n_staged; i++)
		out[n++] = (struct wire_binding){ -1, t->staged[i].page };
	return n;
}

static void compare_lengths(struct world *w, const struct ref_session *s, const struct ref_request *r,
			    const struct ref_seq *q, uint32_t g, const struct wire_sequence_state *got)
{
	const struct ref_part *t = &q->parts[g];
	int32_t n_row = ref_in_row(s, q, g), n_retiring = 0;
	int64_t b, e;

	ref_retiring_range(s, r, q, g, &b, &e);
	for (int64_t c = b; c < e; c++)
		n_retiring += t->row[c] >= 0;
	ref_new_range(s, r, q, g, &b, &e);
	same(w, "bound pages", q->slot, got->n_bound, n_row - n_retiring);
	same(w, "new pages", q->slot, got->n_new, e - b);
	same(w, "retiring pages", q->slot, got->n_retiring, n_retiring);
	same(w, "reserved pages", q->slot, got->n_reserved, t->n_free);
	same(w, "staged pages", q->slot, got->n_staged, t->n_staged);
	if (ref_held(s, q, g) < r->reservation[g] || t->n_free > r->reservation[g])
		COMPLAIN(w, "slot %d, group %u holds %d pages, %d of them reserved: its share is %d", q->slot, g,
			 ref_held(s, q, g), t->n_free, r->reservation[g]);
}

static void compare_state(struct world *w, const struct ref_session *s, const struct ref_request *r,
			  const struct ref_seq *q, uint32_t g, const struct wire_sequence_state *got)
{
	int64_t begin, end;

	same(w, "slot of a sequence", q - r->seqs, got->slot, q->slot);
	same(w, "generation of a slot", q->slot, got->generation, q->generation);
	same(w, "endpoint", q->slot, got->endpoint, q->endpoint);
	same(w, "pending endpoint", q->slot, got->pending_endpoint, q->pending_endpoint);
	same(w, "window", q->slot, got->window, s->groups[g].window);
	same(w, "page tokens", q->slot, got->page_tokens, s->groups[g].page_tokens);
	ref_shown_range(s, r, q, g, &begin, &end);
	same(w, "retained begin", q->slot, got->retained_begin, begin);
	same(w, "retained end", q->slot, got->retained_end, end);
	same(w, "input length", q->slot, got->length, q->length);
	same(w, "pending map", q->slot, got->pending_map, q->pending_map);
	compare_lengths(w, s, r, q, g, got);
}

static uint64_t fingerprint(uint64_t print, const void *data, size_t size)
{
	/* FNV-1a */
	for (size_t i = 0; i < size; i++)
		print = (print ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
	return print;
}

/* A state that differs from the last one seen must show it in `change`: who reads it in pieces relies on that. */
static void compare_change(struct world *w, struct side *e, uint32_t g, struct wire_sequence_state state,
			   const struct wire_binding *b, uint32_t n)
{
	uint64_t change = state.change, print;

	state.change = 0;
	print = fingerprint(fingerprint(0xcbf29ce484222325ull, &state, sizeof state), b, n * sizeof *b);
	if (e->seen[g][state.slot].print != print && e->seen[g][state.slot].change == change && change)
		COMPLAIN(w, "slot %d: the state differs, but `change` is still %llu", state.slot,
			 (unsigned long long)change);
	e->seen[g][state.slot].print = print;
	e->seen[g][state.slot].change = change;
}

static void swap_bindings(struct wire_binding *a, struct wire_binding *b)
{
	struct wire_binding saved = *a;

	*a = *b;
	*b = saved;
}

static void compare_sequence(struct world *w, uint32_t session, struct ref_request *r, int32_t i, uint32_t g)
{
	const struct ref_session *s = &w->sessions[session];
	const struct ref_seq *q = &r->seqs[i];
	struct wire_query_state query = { .seq = i, .group = g };
	struct wire_binding got[2 * REF_HELD], want[2 * REF_HELD];
	struct wire_sequence_state state;
	uint32_t n = 0, n_want;
	struct fault f;

	if (!same(w, "a query of a live sequence", i,
		  sequence_query(w->sides[session].session, r->handle, &query, &state, got, 2 * REF_HELD, &n, &f),
		  SWAKV_OK))
		return;
	compare_state(w, s, r, q, g, &state);
	n_want = list_bindings(s, r, q, g, want);
	if (!same(w, "bindings", q->slot, n, n_want))
		return;
	compare_change(w, &w->sides[session], g, state, got, n);
	/* staged pages may come in any order */
	for (uint32_t j = n - (uint32_t)q->parts[g].n_staged; j < n; j++)
		for (uint32_t k = j + 1; k < n; k++)
			if (got[k].page == want[j].page)
				swap_bindings(&got[j], &got[k]);
	for (uint32_t j = 0; j < n; j++)
		if (got[j].logical != want[j].logical || got[j].page != want[j].page)
			COMPLAIN(w,
				 "slot %d, group %u, binding %u: logical page %d is page %d, it should be %d, page %d",
				 q->slot, g, j, got[j].logical, got[j].page, want[j].logical, want[j].page);
}

void compare_request(struct world *w, uint32_t session, struct ref_request *r)
{
	struct wire_request_state state;
	struct fault f;

	if (!same(w, "a query of a live request", session,
		  request_query(w->sides[session].session, r->handle, &state, &f), SWAKV_OK))
		return;
	same(w, "phase", r->seqs[0].slot, state.phase, r->phase);
	same(w, "transition", r->seqs[0].slot, state.transition, r->transition);
	same(w, "stream", r->seqs[0].slot, state.stream, r->stream);
	same(w, "sequences", r->seqs[0].slot, state.n_seqs, r->n_seqs);
	same(w, "open points", r->seqs[0].slot, state.open_points, r->n_points);
	same(w, "pending batch", r->seqs[0].slot, state.pending_batch, r->pending_batch);
	same(w, "stream of a handle", r->seqs[0].slot, request_stream(w->sides[session].session, r->handle), r->stream);
	for (int32_t i = 0; i < r->n_seqs; i++)
		for (uint32_t g = 0; g < w->sessions[session].n_groups && !w->pool.error[0]; g++)
			compare_sequence(w, session, r, i, g);
}

/* ---- sessions and counts ---------------------------------------------------------------------- */

/* Pages of the session and their bytes in both halves; counted again when a page or extent has changed. */
static const struct page_counts *count_pages(struct world *w, uint32_t session)
{
	const struct ref_pool *p = &w->pool;
	struct page_counts *out = &w->counted[session];

	if (out->change == p->change)
		return out;
	*out = (struct page_counts){ .change = p->change };
	for (const struct ref_class *c = p->classes; c < p->classes + p->n_classes; c++) {
		for (int32_t id = 0; id < c->num_pages; id++) {
			if (c->page[id] == REF_FREE || c->user[id] != &w->sessions[session])
				continue;
			out->leased += c->page[id] == REF_LEASED;
			if (c->page[id] == REF_LEASED && c->taken[id])
				out->taken[c->taken[id] - 1]++;
			out->quarantined += c->page[id] == REF_QUARANTINED;
			out->bytes += (int64_t)ref_whole(c);
		}
	}
	return out;
}

static void compare_session_counts(struct world *w, uint32_t session)
{
	const struct ref_session *s = &w->sessions[session];
	const struct page_counts *pages = count_pages(w, session);
	struct session_counts got;
	int64_t behind = s->n_tails;
	int32_t sequences = 0, points = 0;

	for (int i = 0; i < REF_REQUESTS; i++) {
		if (!s->requests[i].live)
			continue;
		sequences += s->requests[i].n_seqs;
		points += s->requests[i].n_points;
		for (int32_t j = 0; j < s->requests[i].n_seqs; j++)
			for (uint32_t g = 0; g < s->n_groups; g++)
				behind += s->requests[i].seqs[j].parts[g].n_staged;
	}
	session_count(w->sides[session].session, &got);
	same(w, "a session's leased pages", session, got.leased, pages->leased);
	same(w, "a session's quarantined pages", session, got.quarantined, pages->quarantined);
	same(w, "a session's bytes", session, (int64_t)got.bytes, pages->bytes);
	same(w, "a session's pages behind open points", session, got.behind_points, behind);
	same(w, "a session's requests", session, got.requests, ref_live(s));
	same(w, "a session's sequences", session, got.sequences, sequences);
	same(w, "session poisoned", session, got.poisoned, s->poisoned);
	same(w, "session ended", session, got.ended, s->ended);
	/* points of ended requests may be joined, but one is there as long as pages wait */
	if (got.open_points < (uint32_t)points || (got.open_points == 0) != (points + s->n_tails == 0))
		COMPLAIN(w, "session %u has %u open points, its requests have %d, and %d pages of ended ones wait",
			 session, got.open_points, points, s->n_tails);
	same(w, "session has open points", session, session_has_open(w->sides[session].session, -1),
	     got.open_points > 0);
}

/* What it has done since it attached. */
static void compare_totals(struct world *w, uint32_t session)
{
	const struct ref_session *s = &w->sessions[session];
	const struct page_counts *pages = count_pages(w, session);
	struct session_totals got;

	session_total(w->sides[session].session, &got);
	same(w, "tokens that prefills have brought", session, (int64_t)got.prefilled, (int64_t)s->prefilled);
	same(w, "tokens that steps have brought", session, (int64_t)got.stepped, (int64_t)s->stepped);
	same(w, "pages taken", session, (int64_t)got.pages_taken, (int64_t)s->leased);
	same(w, "pages returned", session, (int64_t)got.pages_returned,
	     (int64_t)s->leased - pages->leased - pages->quarantined);
	same(w, "pages scrubbed", session, (int64_t)got.pages_scrubbed, (int64_t)w->sides[session].scrubbed);
}

/* Pages that it has taken itself, and could take; what is kept for others makes the latter a guess. */
static void compare_managed(struct world *w, uint32_t session)
{
	const struct ref_session *s = &w->sessions[session];
	bool exact = !s->quota->ceiling && !s->ended;

	for (int i = 0; i < REF_QUOTAS; i++)
		exact &= !w->pool.quotas[i].floor && !w->pool.quotas[i].claim.session;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		same(w, "pages that a session manages", session, session_managed_pages(w->sides[session].session, g),
		     count_pages(w, session)->taken[g]);
		if (exact)
			same(w, "pages that a session could take", session,
			     session_takeable_pages(w->sides[session].session, g),
			     ref_available(&w->pool, s->groups[g].class_index));
	}
}

/* A walk over the requests meets each live one once. */
static void compare_walk(struct world *w, uint32_t session)
{
	struct ref_session *s = &w->sessions[session];
	uint64_t handle = 0;
	int32_t n = 0;

	while (session_next_request(w->sides[session].session, &handle) && n <= s->max_batch) {
		n++;
		if (!ref_find(s, handle))
			COMPLAIN(w, "the walk over requests meets %llx, which is not alive",
				 (unsigned long long)handle);
	}
	same(w, "requests met by a walk", session, n, ref_live(s));
}

void compare_session(struct world *w, uint32_t session)
{
	const struct ref_session *s = &w->sessions[session];

	compare_session_counts(w, session);
	compare_totals(w, session);
	compare_walk(w, session);
	compare_managed(w, session);
	for (uint32_t g = 0; g < s->n_groups; g++) {
		for (int32_t i = 0; i < s->max_batch && !w->pool.error[0]; i++)
			compare_row(w, session, g, i);
		same(w, "pages that a session could get", session, session_free_pages(w->sides[session].session, g),
		     ref_available(&w->pool, s->groups[g].class_index));
	}
}

static void compare_class(struct world *w, uint32_t index)
{
	const struct ref_class *c = ref_tally(&w->pool, index);
	struct class_counts got = { 0 };
	uint32_t extents = 0;

	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		extents += w->pool.holder[x] == (int32_t)index;
	same(w, "class exists", index, engine_class_count(w->engine, index, &got), true);
	same(w, "bytes of a page", index, (int64_t)got.page_bytes, (int64_t)c->page_bytes);
	same(w, "form of a page", index, got.joined, c->joined);
	same(w, "free pages", index, got.free, c->n[REF_FREE]);
	same(w, "leased pages", index, got.leased, c->n[REF_LEASED]);
	same(w, "quarantined pages", index, got.quarantined, c->n[REF_QUARANTINED]);
	same(w, "pages", index, got.pages, c->n[REF_FREE] + c->n[REF_LEASED] + c->n[REF_QUARANTINED]);
	same(w, "available pages", index, got.available, ref_available(&w->pool, index));
	same(w, "page ids", index, got.num_pages, c->num_pages);
	same(w, "extents", index, got.extents, extents);
	same(w, "sessions", index, got.sessions, c->sessions);
}

static void compare_quota(struct world *w, uint32_t index, const char *name)
{
	struct ref_quota *q = &w->pool.quotas[index];
	struct quota_counts got = { 0 };
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < w->pool.n_waits; i++)
		waiting += w->pool.waits[i].session->quota == q;
	bool known = engine_quota_of(w->engine, name, &got);

	same(w, "a model's limits are kept", index, known, q->sessions || q->floor || q->ceiling);
	if (!known)
		return;
	same(w, "floor", index, (int64_t)got.floor, (int64_t)q->floor);
	same(w, "ceiling", index, (int64_t)got.ceiling, (int64_t)q->ceiling);
	same(w, "bytes that a model uses", index, (int64_t)got.used, (int64_t)ref_used(&w->pool, q));
	same(w, "sessions of a model", index, got.sessions, q->sessions);
	same(w, "begins that wait", index, got.waiting, waiting);
	if (waiting)
		same(w, "since when the first waits", index, (int64_t)got.oldest,
		     (int64_t)ref_head(&w->pool, q)->since);
}

void compare_counts(struct world *w)
{
	const struct ref_pool *p = &w->pool;
	struct engine_counts got;
	uint64_t lent = 0, held = 0;

	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->holder[x] >= 0)
			lent += 2 * (x + 1 < p->n_extents ? p->extent : p->half - x * p->extent);
	engine_count(w->engine, &got);
	same(w, "bytes of the pool", 0, (int64_t)got.total, (int64_t)(2 * p->half));
	for (uint32_t i = 0; i < p->n_classes; i++) {
		const struct ref_class *c = ref_tally(&w->pool, i);

		held += (uint64_t)(c->n[REF_FREE] + c->n[REF_LEASED] + c->n[REF_QUARANTINED]) * c->page_bytes *
			(c->joined ? 1 : 2);
	}
	same(w, "bytes of pages", 0, (int64_t)got.held, (int64_t)held);
	same(w, "bytes of unassigned extents", 0, (int64_t)got.free, (int64_t)(2 * p->half - lent));
	same(w, "bytes of extents and of no page", 0, (int64_t)got.unusable, (int64_t)(lent - held));
	same(w, "bytes of an extent", 0, (int64_t)got.extent_bytes, (int64_t)p->extent);
	same(w, "page classes", 0, got.n_classes, p->n_classes);
	for (uint32_t i = 0; i < p->n_classes && !p->error[0]; i++)
		compare_class(w, i);
	same(w, "begins that wait in the engine", 0, engine_waiting(w->engine), p->n_waits);
	for (uint32_t i = 0; i < REF_QUOTAS && !p->error[0]; i++)
		compare_quota(w, i, quota_name(i));
}

void compare_extents(struct world *w, const struct ref_session *taker, int64_t trim)
{
	int32_t holder[REF_EXTENTS];

	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		holder[x] = engine_extent_class(w->engine, x);
	ref_extents_learn(&w->pool, holder, taker, trim);
}
