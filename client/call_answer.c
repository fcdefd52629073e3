/* SPDX-License-Identifier: Apache-2.0 */
/* call_answer.c - see call_answer.h */
#include "call_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "request.h"
#include "session.h"
#include "turn.h"
#include "wait.h"

/* The answer is complete: whoever waits may collect it. */
static void call_answered(struct swakv_session *s, struct call *c, int result)
{
	c->result = result;
	c->state = CALL_ANSWERED;
	s->calls.n_sent--;
	events_answered(s, c);
	if (c->orphan)
		call_free(s, c);
}

static void call_entry_fail(struct call_entry *e, int code)
{
	e->result = (int16_t)code;
	if (e->what)
		turn_entry_fail(e, code);
}

void calls_fail(struct swakv_session *s, const char *why)
{
	for (uint32_t i = 0; i < s->calls.n; i++) {
		struct call *c = s->calls.calls[i];

		if (c->state != CALL_SENT)
			continue;
		snprintf(c->why, sizeof(c->why), "%s", why);
		for (uint32_t k = 0; k < c->n_entries; k++)
			call_entry_fail(&c->entries[k], SWAKV_EGONE);
		call_answered(s, c, SWAKV_EGONE);
	}
}

/* A refusal: its fault becomes the call's sentence. */
static int call_refused(struct swakv_session *s, struct call *c, int code, const unsigned char *payload, size_t len)
{
	struct fault f;

	if (code > 0 || code < SWAKV_EUNSUPPORTED || len < sizeof(f))
		return session_break(s, "the broker refused operation %u with the impossible code %d", c->op, code);
	memcpy(&f, payload, sizeof(f));
	fault_format(&f, c->why, sizeof(c->why));
	for (uint32_t i = 0; i < c->n_entries; i++) {
		struct swakv_request *r = c->entries[i].request;

		call_entry_fail(&c->entries[i], code);
		if (r && (f.reason == FAULT_COMPLETION_FAILED || f.reason == FAULT_STALE_HANDLE))
			request_lost(r);
	}
	return code;
}

static void call_answer(struct swakv_session *s, const struct wire_reply *reply, const unsigned char *payload,
			size_t len)
{
	struct call *c = call_find(s, reply->user_data);
	int r;

	if (!c || c->state != CALL_SENT || c->op != reply->op) {
		session_break(s, "the broker answered operation %u of call %" PRIx64 ", which is not in flight",
			      reply->op, reply->user_data);
		return;
	}
	s->counters.replies++;
	c->result = 0;
	if (reply->code != 0)
		c->result = call_refused(s, c, reply->code, payload, len);
	if (c->state != CALL_SENT)
		return; /* broken meanwhile: everybody has been told */
	r = c->effect ? c->effect(s, c, reply, payload, len) : c->result;
	if (c->state == CALL_SENT)
		call_answered(s, c, r);
}

bool calls_take(struct swakv_session *s)
{
	const struct wire_reply *reply = (const struct wire_reply *)s->reply;
	int64_t fill = ring_consumer_fill_spsc(&s->replies);

	if (fill == 0 || s->gone)
		return false;
	do {
		uint32_t n_slots;

		/* Each byte is copied once, and only the copy is looked at. */
		if (fill > 0)
			ring_consumer_first_spsc(&s->replies, fill, s->reply);
		n_slots = reply->n_slots;
		if (fill < 0 || n_slots == 0 || n_slots > fill || n_slots > s->welcome.max_message_slots) {
			session_break(s, "the reply ring holds data that no broker writes");
			break;
		}
		if (n_slots > 1)
			ring_consumer_read_spsc(&s->replies, RING_SLOT, s->reply + RING_SLOT,
						(size_t)(n_slots - 1) * RING_SLOT);
		ring_consumer_release_spsc(&s->replies, n_slots);
		call_answer(s, reply, s->reply + sizeof(*reply), (size_t)n_slots * RING_SLOT - sizeof(*reply));
		fill = ring_consumer_seen_spsc(&s->replies);
	} while (fill > 0 && !s->gone);
	return !s->gone;
}

void calls_wake(struct swakv_session *s)
{
	if (s->calls.n_sent > 0 && ring_consumer_must_wake_spsc(&s->replies))
		session_wake_broker(s);
}

void calls_drain(struct swakv_session *s)
{
	bool taken = false;

	while (calls_take(s))
		taken = true;
	if (taken)
		calls_wake(s);
}

int call_effect_answer(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		       const unsigned char *payload, size_t len)
{
	if (c->result != 0)
		return c->result;
	if (!c->answer)
		return 0;
	*c->answer_count = reply->n;
	memcpy(c->answer, payload, len < c->answer_size ? len : c->answer_size);
	return 0;
}
