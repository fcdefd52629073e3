/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - see call.h
 *
 * A reply is copied out of the ring once, its slots are given back, and only
 * the copy is looked at. A reply that names no call in flight, or another
 * operation than that call's, means that the two sides no longer agree about
 * anything: the session is over.
 *
 * A call whose waiter gave up becomes an orphan: its answer still takes effect,
 * because the broker's tables have changed, and then it is freed.
 */
#include "call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define CALLS_MAX    65536u
#define QUICK_POLLS  64        /* a few microseconds */
#define HELD_LOOK_NS 100000ull /* between two looks at the words that a begin waits for */

/* ---- the table of calls ------------------------------------------------------ */

/* Of a call that is free: while one is made the ring waits, so it is found empty. */
static void call_reset(struct call *c)
{
	c->orphan = false;
	c->result = 0;
	c->n_entries = 0;
	c->entries = &c->one;
	c->one = (struct call_entry){ 0 };
	c->steps = NULL;
	c->out = NULL;
	c->map = NULL;
	c->answer = NULL;
	c->wait_ms = 0;
	c->held = false;
}

/* A call that has never been used; NULL: no memory, or as many as tickets can tell apart. */
static struct call *call_make(struct call_table *t)
{
	struct call *c;

	if (t->n == CALLS_MAX)
		return NULL;
	if ((t->n & (t->n - 1)) == 0) {
		struct call **more = realloc(t->calls, (t->n ? 2 * (size_t)t->n : 1) * sizeof(*more));

		if (!more)
			return NULL;
		t->calls = more;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	call_reset(c);
	c->ticket = t->n;
	t->calls[t->n++] = c;
	return c;
}

static inline struct call *call_alloc(struct call_table *t)
{
	struct call *c = t->free;

	if (c)
		t->free = c->next_free;
	else
		c = call_make(t);
	if (c)
		c->ticket = ++t->count << 16 | (c->ticket & 0xffff);
	return c;
}

/* Room for @n entries; those of a free call are empty. False: no memory. */
static bool call_entries(struct call *c, uint32_t n)
{
	if (n > c->n_more) {
		struct call_entry *more = reallocarray(c->more, n, sizeof(*more));

		if (!more)
			return false;
		memset(more + c->n_more, 0, (n - c->n_more) * sizeof(*more));
		c->more = more;
		c->n_more = n;
	}
	c->entries = c->more;
	return true;
}

struct call *call_new(struct swakv_session *s, uint16_t op, uint32_t n, call_effect *effect)
{
	struct call *c;

	if (s->calls.n_sent == 0)
		ring_producer_soon_spsc(&s->commands);
	c = call_alloc(&s->calls);
	if (!c) {
		if (s->calls.n == CALLS_MAX)
			session_error(s, SWAKV_ENOMEM,
				      "%u tickets are out, and no more can be: collect some with swakv_poll() or "
				      "swakv_wait()",
				      CALLS_MAX);
		else
			session_error(s, SWAKV_ENOMEM, "no memory for call %" PRIu32 " in flight", s->calls.n + 1);
		return NULL;
	}
	c->state = CALL_MADE;
	c->op = op;
	c->effect = effect;
	c->n_entries = n;
	if (n > 1 && !call_entries(c, n)) {
		c->n_entries = 0;
		call_free(s, c);
		session_error(s, SWAKV_ENOMEM, "no memory for a step of %" PRIu32 " requests", n);
		return NULL;
	}
	return c;
}

static void call_clear(struct call *c)
{
	for (uint32_t i = 0; i < c->n_entries; i++) {
		if (c->entries[i].request)
			request_unref(c->entries[i].request);
		c->entries[i].request = NULL;
	}
	if (c->map)
		free(c->map);
	c->state = CALL_FREE;
	call_reset(c);
}

void call_free(struct swakv_session *s, struct call *c)
{
	call_clear(c);
	c->next_free = s->calls.free;
	s->calls.free = c;
}

void calls_deinit(struct swakv_session *s)
{
	for (uint32_t i = 0; i < s->calls.n; i++) {
		if (s->calls.calls[i]->state != CALL_FREE)
			call_clear(s->calls.calls[i]);
		free(s->calls.calls[i]->more);
		free(s->calls.calls[i]);
	}
	free(s->calls.calls);
	s->calls = (struct call_table){ 0 };
}

struct call *call_find(struct swakv_session *s, swakv_ticket ticket)
{
	uint32_t i = (uint32_t)(ticket & 0xffff);
	struct call *c = i < s->calls.n ? s->calls.calls[i] : NULL;

	return c && c->ticket == ticket && c->state != CALL_FREE ? c : NULL;
}

/* ---- answers ------------------------------------------------------------------- */

/* The answer is complete: whoever waits may collect it. */
static void call_answered(struct swakv_session *s, struct call *c, int result)
{
	c->result = result;
	c->state = CALL_ANSWERED;
	s->calls.n_sent--;
	if (c->orphan)
		call_free(s, c);
}

void calls_fail(struct swakv_session *s, const char *why)
{
	for (uint32_t i = 0; i < s->calls.n; i++) {
		struct call *c = s->calls.calls[i];

		if (c->state != CALL_SENT)
			continue;
		snprintf(c->why, sizeof(c->why), "%s", why);
		for (uint32_t k = 0; k < c->n_entries; k++)
			c->entries[k].result = SWAKV_EGONE;
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

		c->entries[i].result = code;
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

/* Takes the answers that one look finds. False: there were none, or the session has ended. */
static bool calls_take(struct swakv_session *s)
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

/* After slots were given back: a broker that has a command of ours may wait for them. */
static inline void calls_wake(struct swakv_session *s)
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

/* ---- sending --------------------------------------------------------------------- */

size_t call_max_payload(const struct swakv_session *s)
{
	return (size_t)s->welcome.max_message_slots * RING_SLOT - sizeof(struct wire_command);
}

bool call_fits(const struct swakv_session *s, size_t head, uint32_t n, size_t size)
{
	return head + (uint64_t)n * size <= call_max_payload(s);
}

/* Waits until @n command slots are free. Answers are taken meanwhile: the broker may wait for reply space. */
static int call_wait_space(struct swakv_session *s, uint32_t n)
{
	uint64_t deadline = 0;
	int r;

	for (;;) {
		r = ring_producer_space_spsc(&s->commands, n);
		if (r > 0)
			return 0;
		if (r < 0)
			return session_break(s, "the command ring holds data that no broker writes");
		calls_drain(s);
		if (s->gone)
			return session_error(s, SWAKV_EGONE, "%s", s->gone_why);
		if (deadline == 0)
			deadline = clock_ns() + s->timeout_ns;
		else if (clock_ns() >= deadline)
			return session_late(s, "taken no command");
		session_wait(s, n, deadline);
	}
}

static bool call_binds(const struct call *c)
{
	return c->op == WIRE_OP_BEGIN || c->op == WIRE_OP_PREFILL_PREPARE || c->op == WIRE_OP_STEP_PREPARE ||
	       c->op == WIRE_OP_RESERVE;
}

static inline int call_space(struct swakv_session *s, const struct call *c, uint32_t n)
{
	if (__builtin_expect(s->unscrubbed, 0) && call_binds(c))
		return scrub_refuse(s);
	return ring_producer_space_spsc(&s->commands, n) > 0 ? 0 : call_wait_space(s, n);
}

static uint16_t slots_of(size_t bytes)
{
	return (uint16_t)((sizeof(struct wire_command) + bytes + RING_SLOT - 1) / RING_SLOT);
}

int call_open(struct swakv_session *s, struct call *c, size_t bytes)
{
	int r;

	if (bytes > call_max_payload(s))
		r = session_error(s, SWAKV_EINVALID,
				  "the command has %zu bytes, at most %zu are allowed: give fewer sequences or "
				  "requests at a time",
				  sizeof(struct wire_command) + bytes,
				  (size_t)s->welcome.max_message_slots * RING_SLOT);
	else
		r = call_space(s, c, slots_of(bytes));
	if (r < 0)
		call_free(s, c);
	return r;
}

void *call_place(struct swakv_session *s, size_t offset)
{
	return s->command + sizeof(struct wire_command) + offset;
}

void call_sent(struct swakv_session *s, struct call *c)
{
	c->state = CALL_SENT;
	s->calls.n_sent++;
	s->counters.commands++;
	if (s->calls.n_sent > 1) /* one of a burst */
		ring_producer_own_next_spsc(&s->commands);
	if (ring_producer_must_wake_spsc(&s->commands))
		session_wake_broker(s);
}

void call_publish(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, size_t bytes)
{
	uint64_t *head = (uint64_t *)s->command;
	uint16_t n_slots = slots_of(bytes);

	head[0] = wire_head_word(c->op, n_slots, n);
	head[1] = c->ticket;
	head[2] = request;
	head[3] = 0;
	/*
	 * Each slot's line comes from the broker's cache when it is first stored to,
	 * and as many are on their way as lie in the CPU's store buffer: so they are
	 * written by one copy in the widest stores, and nothing in between.
	 */
	ring_producer_write_spsc(&s->commands, 0, s->command, sizeof(struct wire_command) + bytes);
	ring_producer_publish_spsc(&s->commands, n_slots);
}

/* The same for a payload that fits the slot of the header, where it is gathered in private memory first. */
static int call_send_short(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n,
			   const struct part *parts, size_t n_parts)
{
	uint64_t slot[RING_EXPRESS + 1] = { wire_head_word(c->op, 1, n), c->ticket, request };
	size_t at = sizeof(struct wire_command);
	int r = call_space(s, c, 1);

	if (r < 0) {
		call_free(s, c);
		return r;
	}
	for (size_t i = 0; i < n_parts; i++) {
		memcpy((unsigned char *)slot + at, parts[i].p, parts[i].n);
		at += parts[i].n;
	}
	/* A broker that has work before this one will find it in its slot. */
	if (s->calls.n_sent > 0)
		ring_producer_queue_spsc(&s->commands, slot);
	else
		ring_producer_send_spsc(&s->commands, slot);
	call_sent(s, c);
	return 0;
}

int call_send(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, const struct part *parts,
	      size_t n_parts)
{
	size_t bytes = 0, at = sizeof(struct wire_command);
	int r;

	for (size_t i = 0; i < n_parts; i++)
		bytes += parts[i].n;
	if (bytes <= RING_SLOT - sizeof(struct wire_command))
		return call_send_short(s, c, request, n, parts, n_parts);
	r = call_open(s, c, bytes);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_parts; i++) {
		memcpy(s->command + at, parts[i].p, parts[i].n);
		at += parts[i].n;
	}
	call_publish(s, c, request, n, bytes);
	call_sent(s, c);
	return 0;
}

void call_send_orphan(struct swakv_session *s, struct call *c, uint64_t request, const struct part *parts,
		      size_t n_parts)
{
	if (call_send(s, c, request, 0, parts, n_parts) == 0)
		c->orphan = true;
}

/* ---- collecting -------------------------------------------------------------------- */

static int call_collect(struct swakv_session *s, struct call *c)
{
	int r = c->result;

	if (r != 0)
		session_error(s, r, "%s", c->why);
	if (c->steps)
		for (uint32_t i = 0; i < c->n_entries; i++)
			c->steps[i].result = c->entries[i].result;
	if (c->out && r == 0) {
		*c->out = c->entries[0].request;
		c->entries[0].request = NULL; /* the reference is the caller's now */
	}
	call_free(s, c);
	return r;
}

/* 0 when answered; SWAKV_ETIMEDOUT. */
static int call_wait(struct swakv_session *s, struct call *c)
{
	uint64_t deadline = 0;

	/* An awake broker has usually answered before a look at the clock would pay. */
	for (int i = 0; c->state != CALL_ANSWERED && i < QUICK_POLLS; i++) {
		if (calls_take(s))
			calls_wake(s);
		else
			cpu_relax();
	}
	while (c->state != CALL_ANSWERED) {
		calls_drain(s);
		if (c->state == CALL_ANSWERED)
			break;
		if (deadline == 0) {
			deadline = clock_ns() + s->timeout_ns + c->wait_ms * (uint64_t)1000000;
		} else if (clock_ns() >= deadline) {
			session_look(s, 0, true);
			if (c->state == CALL_ANSWERED)
				break;
			return session_late(s, "not answered");
		}
		session_wait(s, 0, deadline);
	}
	while (c->held && !begin_settled(s, c))
		session_wait(s, 0, clock_ns() + HELD_LOOK_NS);
	return 0;
}

int call_return(struct swakv_session *s, struct call *c, swakv_ticket *ticket)
{
	int r;

	if (ticket) {
		*ticket = c->ticket;
		return 0;
	}
	r = call_wait(s, c);
	if (r < 0) {
		c->orphan = true;
		c->out = NULL;
		c->steps = NULL;
		c->answer = NULL;
		return r;
	}
	return call_collect(s, c);
}

int call_return_now(struct swakv_session *s, swakv_ticket *ticket)
{
	struct call *c;

	if (!ticket)
		return 0;
	c = call_new(s, WIRE_OP_NOP, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	c->state = CALL_ANSWERED;
	*ticket = c->ticket;
	return 0;
}

/* The call of @ticket for its collector; NULL with the code in *@r. */
static struct call *call_of_ticket(struct swakv_session *s, swakv_ticket ticket, int *r)
{
	struct call *c;

	*r = session_enter(s);
	if (*r < 0 && *r != SWAKV_EGONE)
		return NULL;
	c = call_find(s, ticket);
	if (!c || c->orphan || c->state == CALL_MADE) {
		if (*r == 0)
			*r = session_error(s, SWAKV_EINVALID, "ticket 0x%" PRIx64 " names no call in flight", ticket);
		return NULL;
	}
	return c;
}

int swakv_poll(swakv_session *s, swakv_ticket ticket)
{
	int r;
	struct call *c = call_of_ticket(s, ticket, &r);

	if (!c)
		return r;
	calls_drain(s);
	if (c->state != CALL_ANSWERED)
		session_look(s, clock_ns(), false);
	if (c->state != CALL_ANSWERED || (c->held && !begin_settled(s, c)))
		return SWAKV_EAGAIN;
	return call_collect(s, c);
}

int swakv_wait(swakv_session *s, swakv_ticket ticket)
{
	int r;
	struct call *c = call_of_ticket(s, ticket, &r);

	if (!c)
		return r;
	r = call_wait(s, c);
	return r < 0 ? r : call_collect(s, c);
}
