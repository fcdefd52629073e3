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
	} else if (got) {
		compare_fault(w, call, got, f);
		w->reasons[f->reason % FAULT_REASON_COUNT]++;
	}
}

/* ---- deliveries -------------------------------------------------------------------- */

static void take_row(struct world *w, uint32_t session, const struct wire_row *row)
{
	struct side *e = &w->sides[session];
	const struct ref_session *s = &w->sessions[session];

	if (row->row >= (uint32_t)s->max_batch) {
		COMPLAIN(w, "delivery names row %u of %d", row->row, s->max_batch);
		return;
	}
	if (!w->expected.row[row->row])
		COMPLAIN(w, "delivery names row %u, where nothing changed or which must wait", row->row);
	same(w, "version of a delivered row", row->row, row->version, ++e->version[row->row]);
	w->expected.row[row->row] = false;
}

static void take_update(struct world *w, uint32_t session, uint32_t row, uint32_t column, int32_t page)
{
	struct side *e = &w->sides[session];
	int32_t *want = &w->expected.page[row][column];

	if (*want != page)
		COMPLAIN(w, "delivery sets row %u column %u to page %d%s", row, column, page,
			 *want == REF_SAME ? ", which the device has, has got already or must not get now" : "");
	*want = REF_SAME;
	e->device[row][column] = page;
}

static void take_reference(struct world *w, uint32_t session, uint32_t row)
{
	struct side *e = &w->sides[session];
	const struct ref_session *s = &w->sessions[session];

	for (int32_t c = 0; c < s->width; c++) {
		e->device[row][c] = e->tables.cells[(int64_t)row * 2 * s->width + c];
		w->expected.page[row][c] = REF_SAME;
	}
}

static void compare_scrubs(struct world *w, const struct ref_session *s, const struct delivery *d)
{
	for (uint32_t i = 0; i < d->n_scrubs && !w->pool.error[0]; i++) {
		const struct wire_scrub *c = &d->scrubs[i];

		if (c->row >= (uint32_t)s->max_batch || c->reserved) {
			COMPLAIN(w, "delivery scrubs row %u of %d", c->row, s->max_batch);
			return;
		}
		same(w, "first column to be scrubbed", c->row, c->first, w->expected.scrub_first[c->row]);
		same(w, "columns to be scrubbed", c->row, c->n, w->expected.scrub_n[c->row]);
		w->expected.scrub_n[c->row] = 0;
		w->n_scrubs++;
	}
	for (int32_t i = 0; i < s->max_batch; i++)
		if (w->expected.scrub_n[i])
			COMPLAIN(w, "delivery does not scrub row %d", i);
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
		if (d->updates[i].cell < (uint32_t)(s->max_batch * s->width))
			take_update(w, session, d->updates[i].cell / (uint32_t)s->width,
				    d->updates[i].cell % (uint32_t)s->width, d->updates[i].page);
		else
			COMPLAIN(w, "delivery names cell %u", d->updates[i].cell);
	for (uint32_t i = 0; i < d->n_rows && !w->pool.error[0]; i++) {
		take_row(w, session, &d->rows[i]);
		if (by_reference)
			take_reference(w, session, d->rows[i].row);
	}
	for (int32_t i = 0; i < s->max_batch; i++)
		if (w->expected.row[i])
			COMPLAIN(w, "delivery does not name row %d", i);
	compare_scrubs(w, s, d);
}

/* ---- rows ------------------------------------------------------------------------------ */

static void compare_row(struct world *w, uint32_t session, int32_t slot)
{
	struct side *e = &w->sides[session];
	const struct ref_session *s = &w->sessions[session];
	const int32_t *row = ref_row(s, slot);
	int64_t at = (int64_t)slot * 2 * s->width;
	const int32_t *k = e->tables.cells + at;

	if (s->ended && memcmp(k, e->at_end + at, 2 * (size_t)s->width * sizeof *k) != 0)
		COMPLAIN(w, "session %u, host row %d has changed since the session ended", session, slot);
	for (int32_t c = 0; c < s->width; c++) {
		int32_t id = row ? row[c] : -1;
		int32_t v = id < 0 ? -1 : id + s->class->num_pages;

		if (!s->ended && (k[c] != id || k[s->width + c] != v))
			COMPLAIN(w, "session %u, host row %d, logical page %d: K %d V %d, it should be K %d V %d",
				 session, slot, c, k[c], k[s->width + c], id, v);
		if (e->device[slot][c] != s->slots[slot].device[c])
			COMPLAIN(w, "session %u, device row %d, logical page %d: page %d, it should be %d", session,
				 slot, c, e->device[slot][c], s->slots[slot].device[c]);
	}
	same(w, "version of a row", slot, load_relaxed(&e->tables.rows[slot].version), s->slots[slot].version);
	if (load_relaxed(&e->tables.rows[slot].sequence) & 1)
		COMPLAIN(w, "row %d is left in the middle of a write", slot);
}

/* ---- sequences ---------------------------------------------------------------------------- */

/* The lists of spec section 4, in the order in which the engine gives them. */
static uint32_t list_bindings(const struct ref_session *s, const struct ref_request *r, const struct ref_seq *q,
			      struct wire_binding *out)
{
	int64_t b[2], e[2];
	uint32_t n = 0;

	ref_new_range(s, r, q, &b[0], &e[0]);
	ref_retiring_range(s, r, q, &b[1], &e[1]);
	for (int32_t c = 0; c < s->width; c++)
		if (q->row[c] >= 0 && !(c >= b[1] && c < e[1]))
			out[n++] = (struct wire_binding){ c, q->row[c] };
	for (int32_t i = q->n_free - 1; i >= 0; i--)
		out[n++] = (struct wire_binding){ -1, q->free[i] };
	for (int i = 0; i < 2; i++)
		for (int64_t c = b[i]; c < e[i]; c++)
			if (q->row[c] >= 0)
				out[n++] = (struct wire_binding){ (int32_t)c, q->row[c] };
	for (int32_t i = 0; i < q->n_staged; i++)
		out[n++] = (struct wire_binding){ -1, q->staged[i].page };
	return n;
}

static void compare_lengths(struct world *w, const struct ref_session *s, const struct ref_request *r,
			    const struct ref_seq *q, const struct wire_sequence_state *got)
{
	int64_t b, e;
	int32_t n_new = 0, n_retiring = 0, n_row = 0;

	ref_new_range(s, r, q, &b, &e);
	n_new = (int32_t)(e - b);
	ref_retiring_range(s, r, q, &b, &e);
	for (int32_t c = 0; c < s->width; c++) {
		n_row += q->row[c] >= 0;
		n_retiring += q->row[c] >= 0 && c >= b && c < e;
	}
	same(w, "bound pages", q->slot, got->n_bound, n_row - n_retiring);
	same(w, "new pages", q->slot, got->n_new, n_new);
	same(w, "retiring pages", q->slot, got->n_retiring, n_retiring);
	same(w, "reserved pages", q->slot, got->n_reserved, q->n_free);
	same(w, "staged pages", q->slot, got->n_staged, q->n_staged);
	same(w, "a sequence's pages", q->slot, n_row + q->n_free + q->n_staged, r->reservation);
}

static void compare_state(struct world *w, const struct ref_session *s, const struct ref_request *r,
			  const struct ref_seq *q, const struct wire_sequence_state *got)
{
	same(w, "slot of a sequence", q - r->seqs, got->slot, q->slot);
	same(w, "generation of a slot", q->slot, got->generation, q->generation);
	same(w, "endpoint", q->slot, got->endpoint, q->endpoint);
	same(w, "pending endpoint", q->slot, got->pending_endpoint, q->pending_endpoint);
	same(w, "window", q->slot, got->window, s->window);
	same(w, "page tokens", q->slot, got->page_tokens, s->page_tokens);
	same(w, "retained begin", q->slot, got->retained_begin,
	     ref_retained_begin(q->endpoint, s->window, s->page_tokens));
	same(w, "retained end", q->slot, got->retained_end, ref_retained_end(q->endpoint, s->page_tokens));
	same(w, "input length", q->slot, got->length, q->length);
	same(w, "pending map", q->slot, got->pending_map, q->pending_map);
	compare_lengths(w, s, r, q, got);
}

static uint64_t fingerprint(uint64_t print, const void *data, size_t size)
{
	/* FNV-1a */
	for (size_t i = 0; i < size; i++)
		print = (print ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
	return print;
}

/* A state that differs from the last one seen must show it in `change`: who reads it in pieces relies on that. */
static void compare_change(struct world *w, struct side *e, struct wire_sequence_state state,
			   const struct wire_binding *b, uint32_t n)
{
	uint64_t change = state.change, print;

	state.change = 0;
	print = fingerprint(fingerprint(0xcbf29ce484222325ull, &state, sizeof state), b, n * sizeof *b);
	if (e->seen[state.slot].print != print && e->seen[state.slot].change == change && change)
		COMPLAIN(w, "slot %d: the state differs, but `change` is still %llu", state.slot,
			 (unsigned long long)change);
	e->seen[state.slot].print = print;
	e->seen[state.slot].change = change;
}

static void swap_bindings(struct wire_binding *a, struct wire_binding *b)
{
	struct wire_binding saved = *a;

	*a = *b;
	*b = saved;
}

static void compare_sequence(struct world *w, uint32_t session, struct ref_request *r, int32_t i)
{
	const struct ref_session *s = &w->sessions[session];
	const struct ref_seq *q = &r->seqs[i];
	struct wire_query_state query = { .seq = i };
	struct wire_binding got[4 * REF_WIDTH], want[4 * REF_WIDTH];
	struct wire_sequence_state state;
	uint32_t n = 0, n_want;
	struct fault f;

	if (!same(w, "a query of a live sequence", i,
		  sequence_query(w->sides[session].session, r->handle, &query, &state, got, 4 * REF_WIDTH, &n, &f),
		  SWAKV_OK))
		return;
	compare_state(w, s, r, q, &state);
	n_want = list_bindings(s, r, q, want);
	if (!same(w, "bindings", q->slot, n, n_want))
		return;
	compare_change(w, &w->sides[session], state, got, n);
	/* staged pages may come in any order */
	for (uint32_t j = n - (uint32_t)q->n_staged; j < n; j++)
		for (uint32_t k = j + 1; k < n; k++)
			if (got[k].page == want[j].page)
				swap_bindings(&got[j], &got[k]);
	for (uint32_t j = 0; j < n; j++)
		if (got[j].logical != want[j].logical || got[j].page != want[j].page)
			COMPLAIN(w, "slot %d, binding %u: logical page %d is page %d, it should be %d, page %d",
				 q->slot, j, got[j].logical, got[j].page, want[j].logical, want[j].page);
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
	for (int32_t i = 0; i < r->n_seqs && !w->pool.error[0]; i++)
		compare_sequence(w, session, r, i);
}

/* ---- sessions and counts ---------------------------------------------------------------------- */

static void compare_session_counts(struct world *w, uint32_t session)
{
	const struct ref_session *s = &w->sessions[session];
	struct session_counts got;
	int64_t n[3] = { 0, 0, 0 }, behind = s->n_tails;
	int32_t sequences = 0, points = 0;

	for (int32_t id = 0; id < s->class->num_pages; id++)
		if (s->class->user[id] == s)
			n[s->class->page[id]]++;
	for (int i = 0; i < REF_REQUESTS; i++) {
		if (!s->requests[i].live)
			continue;
		sequences += s->requests[i].n_seqs;
		points += s->requests[i].n_points;
		for (int32_t j = 0; j < s->requests[i].n_seqs; j++)
			behind += s->requests[i].seqs[j].n_staged;
	}
	session_count(w->sides[session].session, &got);
	same(w, "a session's leased pages", session, got.leased, n[REF_LEASED]);
	same(w, "a session's quarantined pages", session, got.quarantined, n[REF_QUARANTINED]);
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
	compare_walk(w, session);
	for (int32_t i = 0; i < s->max_batch && !w->pool.error[0]; i++)
		compare_row(w, session, i);
	same(w, "pages that a session could get", session, session_free_pages(w->sides[session].session, 0),
	     ref_available(s->class));
}

static void compare_class(struct world *w, uint32_t index)
{
	const struct ref_class *c = &w->pool.classes[index];
	struct class_counts got = { 0 };
	int64_t n[3];
	uint32_t extents = 0;

	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		extents += w->pool.holder[x] == (int32_t)index;
	for (int i = 0; i < 3; i++)
		n[i] = ref_count(c, (enum ref_page)i);
	same(w, "class exists", index, engine_class_count(w->engine, index, &got), true);
	same(w, "bytes of a page", index, (int64_t)got.page_bytes, (int64_t)c->page_bytes);
	same(w, "free pages", index, got.free, n[REF_FREE]);
	same(w, "leased pages", index, got.leased, n[REF_LEASED]);
	same(w, "quarantined pages", index, got.quarantined, n[REF_QUARANTINED]);
	same(w, "pages", index, got.pages, n[REF_FREE] + n[REF_LEASED] + n[REF_QUARANTINED]);
	same(w, "available pages", index, got.available, ref_available(c));
	same(w, "page ids", index, got.num_pages, c->num_pages);
	same(w, "extents", index, got.extents, extents);
	same(w, "sessions", index, got.sessions, c->sessions);
}

void compare_counts(struct world *w)
{
	const struct ref_pool *p = &w->pool;
	struct engine_counts got;
	uint64_t held = 0;

	for (uint32_t x = 0; x < p->n_extents; x++)
		if (p->holder[x] >= 0)
			held += 2 * (x + 1 < p->n_extents ? p->extent : p->half - x * p->extent);
	engine_count(w->engine, &got);
	same(w, "bytes of the pool", 0, (int64_t)got.total, (int64_t)(2 * p->half));
	same(w, "bytes of held extents", 0, (int64_t)got.held, (int64_t)held);
	same(w, "bytes of unassigned extents", 0, (int64_t)got.free, (int64_t)(2 * p->half - held));
	same(w, "unusable bytes", 0, (int64_t)got.unusable, 0);
	same(w, "bytes of an extent", 0, (int64_t)got.extent_bytes, (int64_t)p->extent);
	same(w, "page classes", 0, got.n_classes, p->n_classes);
	for (uint32_t i = 0; i < p->n_classes && !p->error[0]; i++)
		compare_class(w, i);
}

void compare_extents(struct world *w, int32_t taker, int64_t need)
{
	int32_t holder[REF_EXTENTS];

	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		holder[x] = engine_extent_class(w->engine, x);
	ref_extents_learn(&w->pool, holder, taker, need);
}
