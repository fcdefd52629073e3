/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.c - one call a step: the end of the last step and the beginning of the next (swakv_step.3)
 *
 * The message is put together where it will be copied from (call_place()): a
 * fence, a word for each entry, then details of those that need them, and what
 * they list. A step that is the same for all requests is words alone. The answer
 * says what was refused; all else has been done, completes before prepares.
 */
#include "turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "begin.h"
#include "call_collect.h"
#include "call_send.h"
#include "counts.h"
#include "delivery.h"
#include "fence.h"
#include "finish.h"
#include "session.h"
#include "sized.h"
#include "step_list.h"
#include "wire_turn.h"

_Static_assert((uint32_t)SWAKV_TURN_COMPLETE == WIRE_TURN_COMPLETE &&
		       (uint32_t)SWAKV_TURN_PREPARE == WIRE_TURN_PREPARE &&
		       (uint32_t)SWAKV_TURN_FINISH == WIRE_TURN_FINISH && (uint32_t)SWAKV_TURN_BEGIN == WIRE_TURN_BEGIN,
	       "what is asked for travels as it is");

/* What most entries ask for. */
#define STEP_ON (SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE)

/* ---- the answer ---------------------------------------------------------------------- */

void turn_entry_fail(struct call_entry *e, int code)
{
	e->completed = (int16_t)(e->what & SWAKV_TURN_COMPLETE ? code : 0);
	e->result = (int16_t)(e->what == SWAKV_TURN_COMPLETE ? 0 : code);
	if (e->what & SWAKV_TURN_FINISH)
		e->request->ending = false;
}

bool turn_entry_refused(struct call_entry *e, const struct wire_entry_fault *f)
{
	if (f->skipped == 0 && e->what != SWAKV_TURN_COMPLETE)
		return true; /* what comes after the complete, or is all of it */
	if (!(e->what & SWAKV_TURN_COMPLETE) || f->skipped > 0 || f->skipped < SWAKV_EUNSUPPORTED ||
	    (f->skipped != 0) != (e->what != SWAKV_TURN_COMPLETE))
		return false;
	e->completed = (int16_t)f->fault.code;
	e->result = (int16_t)f->skipped;
	return true;
}

/* The entry's complete, then what else it asked for; @delivered: whether the updates are on their streams. */
static void turn_take(struct call *c, uint32_t i, int delivered)
{
	struct call_entry *e = &c->entries[i];
	struct swakv_request *r = e->request;

	if (e->what & SWAKV_TURN_COMPLETE && e->completed == 0)
		request_set_pending(r, 0);
	if (e->what & SWAKV_TURN_FINISH) {
		e->result = (int16_t)request_ended(r, true, e->result);
	} else if (e->what & SWAKV_TURN_PREPARE && e->result == 0) {
		request_set_pending(r, WIRE_OP_STEP_COMPLETE);
		e->result = (int16_t)delivered; /* prepared, but its updates may not be on the device */
	} else if (e->what == SWAKV_TURN_BEGIN && e->result == 0) {
		bool first = i < c->told;

		e->result = (int16_t)begin_granted(r->session, r, !c->orphan, first ? c->why : NULL,
						   first ? sizeof(c->why) : 0);
		if (e->result && first) {
			c->told = i;
			c->result = e->result;
		}
	}
}

/* Streams whose work the caller says has ended: their words catch up, unless another step is under way. */
static void streams_done(struct swakv_session *s, const struct call *c)
{
	for (uint32_t i = 0; i < c->n_entries; i++) {
		const struct call_entry *e = &c->entries[i];

		if (e->done && e->completed == 0)
			stream_catch_up(&s->streams[e->request->stream]);
	}
}

/*
 * All of it was done, and each entry has ended a step and begun the next: what is
 * pending is so from another mark on. False: some have not, and none is settled.
 */
static bool entries_step_on(struct swakv_session *s, const struct call *c)
{
	const struct call_entry *e = c->entries, *end = e + c->n_entries;
	const struct stream *streams = s->streams;

	for (; e < end; e++) {
		struct swakv_request *r = e->request;

		if (e->what != STEP_ON || r->pending != WIRE_OP_STEP_COMPLETE)
			return false;
		r->before = streams[r->stream].marked; /* as it will be, however this ends */
	}
	return true;
}

static int turn_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		       const unsigned char *payload, size_t len)
{
	int r;

	if (c->result != 0)
		return c->result;
	r = delivery_take(s, c, payload, len, true);
	if (r == SWAKV_EGONE)
		return r;
	if (r == 0 && c->told == UINT32_MAX && entries_step_on(s, c))
		return 0;
	for (uint32_t i = 0; i < c->n_entries; i++) {
		const struct call_entry *e = &c->entries[i];

		if (e->what == SWAKV_TURN_BEGIN && e->result == 0 && !e->request->handle)
			return session_break(s, "the broker did not say what became of the begin in entry %" PRIu32, i);
	}
	for (uint32_t i = 0; i < c->n_entries; i++)
		turn_take(c, i, r);
	streams_done(s, c);
	return r < 0 ? r : c->result;
}

void turns_collect(struct call *c)
{
	struct swakv_turn *t = c->turns;

	for (struct call_entry *e = c->entries, *end = e + c->n_entries; e < end;
	     e++, t = turn_at(t, c->step_size, 1)) {
		t->completed = e->completed;
		t->result = e->result;
		if (e->what == SWAKV_TURN_BEGIN && e->result == 0) {
			t->request = e->request;
			e->request = NULL; /* the reference is the caller's now */
		}
	}
}

/* ---- the message ----------------------------------------------------------------------- */

/* What has been written of it. */
struct message {
	struct call *call; /* which knows the entries as soon as they are written */
	struct swakv_turn *turns;
	uint32_t size; /* distance between them */
	uint32_t n;
	bool ends;   /* an entry finishes its request */
	bool fenced; /* a complete has said the fence of all: */
	struct swakv_fence fence;
	uint32_t n_details;
	size_t n_counts;
};

static size_t details_at(const struct message *m)
{
	return sizeof(struct wire_fence) + m->n * sizeof(uint64_t);
}

static size_t counts_offset(const struct message *m)
{
	return details_at(m) + m->n_details * sizeof(union wire_turn_detail);
}

/* Room for one more detail; NULL: there is none, and call_open() will refuse. */
static union wire_turn_detail *detail_add(struct swakv_session *s, struct message *m)
{
	size_t at = counts_offset(m);

	m->n_details++;
	return counts_offset(m) <= call_max_payload(s) ? call_place(s, at) : NULL;
}

static inline bool fence_is(const struct message *m, struct swakv_fence f)
{
	if (f.kind != m->fence.kind)
		return false;
	return f.kind == SWAKV_FENCE_DONE ||
	       (f.kind == SWAKV_FENCE_LINE && f.line == m->fence.line && f.value == m->fence.value);
}

/* That of all, and one that can be of this step: not from before its prepare (fence.h). */
static inline bool fence_is_plain(const struct message *m, const struct swakv_turn *t, const struct swakv_request *r)
{
	return m->fenced && fence_is(m, t->fence) &&
	       (t->fence.kind == SWAKV_FENCE_DONE ||
		(r->pending == WIRE_OP_STEP_COMPLETE && t->fence.line == r->stream && t->fence.value > r->before));
}

static struct counts counts_accepted(const struct swakv_turn *t)
{
	return (struct counts){ t->what & SWAKV_TURN_COMPLETE ? t->accepted : NULL, t->request->n };
}

static struct counts counts_tokens(const struct swakv_turn *t)
{
	return (struct counts){ t->what & SWAKV_TURN_PREPARE ? t->tokens : NULL, t->request->n };
}

static inline void entry_note(struct message *m, uint32_t i, const struct swakv_turn *t)
{
	request_entry(m->call, i, t->request, t->what,
		      t->what & SWAKV_TURN_COMPLETE && t->fence.kind == SWAKV_FENCE_DONE);
}

static int begin_fill(struct swakv_session *s, struct message *m, uint32_t i, struct swakv_turn *t)
{
	union wire_turn_detail *d, none;
	struct swakv_request *r;
	int code;

	if (!t->begin)
		return session_error(s, SWAKV_EINVALID, "entry %" PRIu32 " begins a request, and `begin` is NULL", i);
	d = detail_add(s, m);
	t->request = NULL;
	r = begin_make(s, t->begin, d ? &d->begin : &none.begin, &code);
	if (!r)
		return code;
	m->call->entries[i] = (struct call_entry){ .request = r, .what = SWAKV_TURN_BEGIN };
	m->n_counts += r->n;
	rhythm_hurry(&s->rhythm);
	*(uint64_t *)call_place(s, sizeof(struct wire_fence) + i * sizeof(uint64_t)) =
		wire_turn_entry(r->n, WIRE_TURN_BEGIN);
	return 0;
}

/* The detail of an entry that is not like the others, if it needs one. */
static int detail_fill(struct swakv_session *s, struct message *m, const struct swakv_turn *t, uint32_t i,
		       uint32_t *what)
{
	struct counts accepted = counts_accepted(t), tokens = counts_tokens(t);
	union wire_turn_detail *d;
	struct wire_fence fence = { 0 };
	int r = 0;

	if (t->what & SWAKV_TURN_COMPLETE)
		r = fence_to_wire(t->request, i, WIRE_OP_STEP_COMPLETE, t->fence, &fence);
	if (r < 0 || (!accepted.list && !tokens.list &&
		      (!(t->what & SWAKV_TURN_COMPLETE) || (fence_is(m, t->fence) && !request_has_lost(t->request)))))
		return r;
	*what |= WIRE_TURN_DETAIL;
	m->n_counts += counts_listed(t->request, &accepted) + counts_listed(t->request, &tokens);
	d = detail_add(s, m);
	if (d)
		*d = (union wire_turn_detail){ .step = { .fence = fence,
							 .tokens = counts_in_entry(t->request, &tokens, 1),
							 .accepted = counts_in_entry(t->request, &accepted, 0) } };
	return 0;
}

#define POSSIBLE                                                                                                       \
	(1u << SWAKV_TURN_COMPLETE | 1u << SWAKV_TURN_PREPARE | 1u << (SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE) |     \
	 1u << SWAKV_TURN_FINISH | 1u << (SWAKV_TURN_COMPLETE | SWAKV_TURN_FINISH) | 1u << SWAKV_TURN_BEGIN)

static __attribute__((noinline)) int entry_fill(struct swakv_session *s, struct message *m, uint32_t i)
{
	struct swakv_turn *t = turn_at(m->turns, m->size, i);
	uint32_t what = t->what;
	int r;

	if (what > SWAKV_TURN_BEGIN || !(POSSIBLE >> what & 1))
		return session_error(s, SWAKV_EINVALID,
				     "entry %" PRIu32 " asks for what cannot be done at once (0x%" PRIx32
				     "): complete and prepare, complete and finish, one of these, or a begin",
				     i, what);
	if (what == SWAKV_TURN_BEGIN)
		return begin_fill(s, m, i, t);
	if ((r = step_request_check(s, i, t->request)) < 0)
		return r;
	if (what & SWAKV_TURN_COMPLETE && !m->fenced && t->fence.kind != SWAKV_FENCE_FAILED) {
		m->fenced = true;
		m->fence = t->fence;
	}
	r = detail_fill(s, m, t, i, &what);
	entry_note(m, i, t);
	if (what & SWAKV_TURN_FINISH) {
		m->ends = true;
		rhythm_hurry(&s->rhythm);
	}
	*(uint64_t *)call_place(s, sizeof(struct wire_fence) + i * sizeof(uint64_t)) =
		wire_turn_entry(t->request->handle, what);
	return r;
}

/* What the entries list, behind all details. */
static void counts_fill(struct swakv_session *s, const struct message *m)
{
	int32_t *out = call_place(s, counts_offset(m));

	for (uint32_t i = 0; i < m->n; i++) {
		const struct swakv_turn *t = turn_at(m->turns, m->size, i);
		struct counts k[2];

		if (t->what == SWAKV_TURN_BEGIN) {
			const struct swakv_request *r = m->call->entries[i].request;

			memcpy(out, r->slots, r->n * sizeof(*out));
			out += r->n;
			continue;
		}
		k[0] = counts_accepted(t);
		k[1] = counts_tokens(t);
		for (int j = 0; j < 2; j++) {
			uint32_t n = counts_listed(t->request, &k[j]);

			if (n) /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): what is listed has a list */
				memcpy(out, k[j].list, n * sizeof(*out));
			out += n;
		}
	}
}

/* Checks the entries and writes the message. Its bytes, or a code. */
static int64_t message_fill(struct swakv_session *s, struct message *m)
{
	struct wire_fence *fence = call_place(s, 0);
	uint64_t *entries = (uint64_t *)(fence + 1);
	const struct swakv_session *unhurt = s->lost_pages ? NULL : s; /* else each is looked at */

	for (uint32_t i = 0; i < m->n; i++) {
		const struct swakv_turn *t = turn_at(m->turns, m->size, i);
		const struct swakv_request *r = t->request;
		int code;

		/* As most are: there is nothing to list. */
		if (r && r->session == unhurt && t->what - 1 < STEP_ON && !t->tokens && !t->accepted &&
		    (!(t->what & SWAKV_TURN_COMPLETE) || fence_is_plain(m, t, r))) {
			entries[i] = wire_turn_entry(r->handle, t->what);
			entry_note(m, i, t);
			continue;
		}
		code = entry_fill(s, m, i);
		if (code < 0)
			return code;
	}
	(void)fence_map(m->fence, fence); /* of a kind that is known, or it would be of no entry */
	if (m->n_counts && counts_offset(m) + m->n_counts * sizeof(int32_t) <= call_max_payload(s))
		counts_fill(s, m);
	return (int64_t)(counts_offset(m) + m->n_counts * sizeof(int32_t));
}

/* The message is on its way: nothing is answered before somebody looks. */
static void turn_sent(struct message *m)
{
	struct call *c = m->call;

	c->turns = m->turns;
	c->step_size = m->size;
	for (uint32_t i = 0; m->ends && i < m->n; i++)
		if (c->entries[i].what & SWAKV_TURN_FINISH)
			c->entries[i].request->ending = true;
}

/* 0 with m->call on its way, or a code. */
static int turn_send(struct swakv_session *s, struct message *m)
{
	size_t most = (call_max_payload(s) - sizeof(struct wire_fence)) / sizeof(uint64_t);
	uint64_t listed;
	int64_t bytes;
	struct call *c;
	int r;

	if (m->n < 1 || m->n > most)
		return session_error(s, SWAKV_EINVALID, "a step has 1 to %zu entries, %" PRIu32 " were given", most,
				     m->n);
	c = m->call = call_new(s, WIRE_OP_STEP_TURN, m->n, turn_effect);
	if (!c)
		return SWAKV_ENOMEM;
	bytes = message_fill(s, m);
	if (bytes < 0) {
		call_free(s, c);
		return (int)bytes;
	}
	listed = m->n_details | (uint64_t)m->n_counts << 32;
	if ((size_t)bytes <= RING_SLOT - sizeof(struct wire_command)) {
		const struct part part = { call_place(s, 0), (size_t)bytes };

		r = call_send(s, c, listed, m->n, &part, 1);
	} else if ((r = call_open(s, c, (size_t)bytes)) == 0) { /* what is sent meanwhile is short: the entries stay */
		call_publish(s, c, listed, m->n, (size_t)bytes);
		call_sent(s, c);
	}
	if (r == 0)
		turn_sent(m);
	return r;
}

/* Nothing was carried out, or nobody knows: each entry says so. */
static int turns_failed(const struct message *m, int code)
{
	for (uint32_t i = 0; i < m->n; i++) {
		struct swakv_turn *t = turn_at(m->turns, m->size, i);

		t->completed = t->what & SWAKV_TURN_COMPLETE ? code : 0;
		t->result = t->what == SWAKV_TURN_COMPLETE ? 0 : code;
		if (t->what == SWAKV_TURN_BEGIN)
			t->request = NULL;
	}
	return code;
}

int swakv_step_turn(swakv_session *s, struct swakv_turn *turns, uint32_t n, swakv_ticket *ticket)
{
	const struct sized kind = SIZED(swakv_turn, result);
	struct message m = { .turns = turns, .n = n };
	int r = session_enter(s);

	if (!step_list_check(s, &kind, "turns", turns, n, &r))
		return r;
	m.size = n ? turns->size : 0;
	if (r < 0)
		return turns_failed(&m, r);
	rhythm_begin(s, ticket != NULL);
	r = turn_send(s, &m);
	rhythm_sent(s, r < 0 ? NULL : m.call);
	if (r < 0)
		return turns_failed(&m, r);
	r = call_return(s, m.call, ticket);
	return r == SWAKV_ETIMEDOUT ? turns_failed(&m, r) : r;
}
