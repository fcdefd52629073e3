/* SPDX-License-Identifier: Apache-2.0 */
/*
 * begin.c - a request begins, or stops waiting for that (swakv_request.3)
 *
 * A slot may have clears under way on its former stream, carried there by an
 * answer after its request had ended; the broker does not know how far they
 * are. Another stream gets the slot when they are through: until then a begin
 * that the broker has granted is given back, or, where it may wait, is held.
 */
#include "begin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_collect.h"
#include "call_send.h"
#include "clock.h"
#include "finish.h"
#include "request.h"
#include "session.h"
#include "sized.h"
#include "stream/session_stream.h"

static bool begin_is_early(struct swakv_session *s, const struct swakv_request *r, char *why, size_t why_size)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct slot *slot = &s->slots[r->slots[i]];
		struct fault f;

		if (slot->until == 0 || slot->applied == r->stream ||
		    load_acquire(&s->streams[slot->applied].line->word) >= slot->until)
			continue;
		fault_set(&f, FAULT_SLOT_PENDING, (int32_t)i, r->slots[i], (int64_t)slot->until);
		fault_format(&f, why, why_size);
		return true;
	}
	return false;
}

static void begin_take_slots(struct swakv_session *s, const struct swakv_request *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		s->slots[r->slots[i]].stream = (uint8_t)r->stream;
}

static int begin_give_back(struct swakv_request *r)
{
	r->dropped = true;
	request_abandon_quietly(r);
	return SWAKV_EPENDING;
}

bool begin_settled(struct swakv_session *s, struct call *c)
{
	struct swakv_request *r = c->entries[0].request;
	bool early = begin_is_early(s, r, c->why, sizeof(c->why));

	if (s->gone) {
		snprintf(c->why, sizeof(c->why), "%.*s", (int)sizeof(c->why) - 1, s->gone_why);
		c->result = SWAKV_EGONE;
	} else if (!early) {
		begin_take_slots(s, r);
	} else if (clock_ns() < c->wait_until) {
		return false;
	} else {
		c->result = begin_give_back(r);
	}
	c->held = false;
	return true;
}

static struct swakv_request *request_create(struct swakv_session *s, const struct swakv_begin_options *o)
{
	size_t bytes = sizeof(struct swakv_request) + o->n_slots * sizeof(int32_t);
	struct swakv_request *r = aligned_alloc(CACHELINE, (bytes + CACHELINE - 1) / CACHELINE * CACHELINE);

	if (!r) {
		session_error(s, SWAKV_ENOMEM, "out of memory");
		return NULL;
	}
	*r = (struct swakv_request){ .session = s, .refs = 1, .stream = o->stream, .n = o->n_slots };
	memcpy(r->slots, o->slots, o->n_slots * sizeof(r->slots[0]));
	LIST_INSERT_HEAD(&s->requests, r, link);
	return r;
}

/* A stream that cannot move pages has requests whose pages stay. */
static uint32_t begin_flags(const struct stream *st)
{
	return (st->unordered ? WIRE_BEGIN_UNORDERED : 0) | (stream_can_move(st) ? 0 : WIRE_BEGIN_PINNED);
}

struct swakv_request *begin_make(struct swakv_session *s, const struct swakv_begin_options *options,
				 struct wire_begin *body, int *code)
{
	struct swakv_begin_options own, *o = &own;
	struct swakv_request *r;

	*code = SWAKV_EINVALID;
	if (!sized_take(&SIZED(swakv_begin_options, max_tokens), o, options, s->error, sizeof(s->error)))
		return NULL;
	*code = session_list(s, "slots", o->slots, o->n_slots, sizeof(o->slots[0]), sizeof(*body));
	if (*code < 0 || !session_stream(s, o->stream, code))
		return NULL;
	r = request_create(s, o);
	*code = r ? 0 : SWAKV_ENOMEM;
	*body = (struct wire_begin){ .stream = o->stream,
				     .flags = begin_flags(&s->streams[o->stream]),
				     .max_tokens = o->max_tokens,
				     .wait_ms = o->wait_ms };
	return r;
}

int begin_granted(struct swakv_session *s, struct swakv_request *r, bool wanted, char *why, size_t why_size)
{
	r->valid = true;
	if (begin_is_early(s, r, why, why_size))
		return begin_give_back(r);
	begin_take_slots(s, r);
	if (!wanted)
		(void)begin_give_back(r);
	return 0;
}

static int begin_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			const unsigned char *payload, size_t len)
{
	struct swakv_request *r = c->entries[0].request;

	if (c->result != 0)
		return c->result;
	r->handle = reply->value;
	c->held = c->wait_ms && !c->orphan && begin_is_early(s, r, c->why, sizeof(c->why));
	r->valid = true;
	return c->held ? 0 : begin_granted(s, r, !c->orphan, c->why, sizeof(c->why));
}

int swakv_request_begin(swakv_session *s, const struct swakv_begin_options *options, swakv_request **out,
			swakv_ticket *ticket)
{
	struct wire_begin body;
	struct part parts[2];
	struct swakv_request *request;
	struct call *c;
	int r;

	if (out)
		*out = NULL;
	r = session_enter(s);
	if (r < 0)
		return r;
	if (!options || !out)
		return session_error(s, SWAKV_EINVALID, "%s NULL",
				     options ? "the pointer for the request is" : "the options are");
	request = begin_make(s, options, &body, &r);
	if (!request)
		return r;
	c = request_call(request, WIRE_OP_BEGIN, begin_effect);
	request_unref(request); /* the call has it */
	if (!c)
		return SWAKV_ENOMEM;
	c->out = out;
	c->wait_ms = body.wait_ms;
	c->wait_until = body.wait_ms ? clock_ns() + body.wait_ms * (uint64_t)1000000 : 0;
	parts[0] = (struct part){ &body, sizeof(body) };
	parts[1] = (struct part){ request->slots, request->n * sizeof(request->slots[0]) };
	r = call_send(s, c, 0, request->n, parts, 2);
	return r < 0 ? r : call_return(s, c, ticket);
}

int swakv_request_withdraw(swakv_session *s, swakv_ticket begin, swakv_ticket *ticket)
{
	struct call *waiting, *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	waiting = call_find(s, begin);
	if (!waiting || (waiting->op != WIRE_OP_BEGIN && waiting->op != WIRE_OP_TAKE))
		return session_error(s, SWAKV_EINVALID, "ticket %" PRIx64 " is not that of a begin or take in flight",
				     begin);
	waiting->wait_until = 0; /* also when it waits here, for its slots */
	c = call_new(s, WIRE_OP_WITHDRAW, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	r = call_send(s, c, begin, 0, NULL, 0);
	return r < 0 ? r : call_return(s, c, ticket);
}
