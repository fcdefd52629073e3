/* SPDX-License-Identifier: Apache-2.0 */
/* call_send.c - see call_send.h */
#include "call_send.h"

#include <string.h>

#include "call_answer.h"
#include "clock.h"
#include "scrub.h"
#include "session.h"
#include "wait.h"

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
			return session_late(s, "taken no command", s->timeout_ns);
		session_wait(s, n, deadline);
	}
}

static bool call_binds(const struct call *c)
{
	return c->op == WIRE_OP_BEGIN || c->op == WIRE_OP_PREFILL_PREPARE || c->op == WIRE_OP_STEP_PREPARE ||
	       c->op == WIRE_OP_RESERVE || c->op == WIRE_OP_TAKE || c->op == WIRE_OP_STEP_TURN;
}

static inline int call_space(struct swakv_session *s, const struct call *c, uint32_t n)
{
	if (__builtin_expect(s->unscrubbed || s->joined, 0)) {
		if (s->joined)
			return session_error(
				s, SWAKV_EINVALID,
				"this process has joined the session: only its first process gives commands");
		if (call_binds(c))
			return scrub_refuse(s);
	}
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
	if (ring_producer_must_wake_spsc(&s->commands) && !rhythm_is_quiet(s))
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
