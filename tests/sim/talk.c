/* SPDX-License-Identifier: Apache-2.0 */
/* talk.c - commands into the ring, answers out of it */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "worker.h"

void message_begin(struct message *m, uint16_t op, uint64_t request)
{
	struct wire_command head = { .op = op, .request = request };

	m->n = sizeof(head);
	memcpy(m->bytes, &head, sizeof(head));
}

void message_add(struct message *m, const void *bytes, size_t n)
{
	if (m->n + n > sizeof(m->bytes))
		abort();
	if (n)
		memcpy(m->bytes + m->n, bytes, n);
	m->n += n;
}

static struct call *free_call(struct worker *v)
{
	for (uint32_t i = 0; i < WORKER_CALLS; i++)
		if (!v->calls[i].used)
			return &v->calls[i];
	return NULL;
}

/*
 * In some worlds workers ask for looks, and do not ring when one is promised. Nothing
 * is drawn for it, so that all other worlds stay as they are.
 */
static bool is_quiet(struct worker *v)
{
	struct wire_wait *wait = (struct wire_wait *)(v->shared->session + v->shared->layout.wait);
	uint64_t now = v->world->now, look;

	if (v->world->options.seed % 8 != 5)
		return false;
	look = load_relaxed(&wait->look);
	store_relaxed(&wait->ask, now + (1 + v->tickets % 11) * 200 * NS_PER_US);
	if (look <= now || v->tickets % 4 == 0)
		return false;
	v->world->unrung++;
	return true;
}

struct call *message_send(struct worker *v, struct message *m, uint32_t n)
{
	struct wire_command *head = (struct wire_command *)m->bytes;
	uint32_t slots = message_slots(m->n - sizeof(*head));
	struct call *c = free_call(v);

	if (!c || ring_producer_space_spsc(&v->commands, slots) <= 0)
		return NULL;
	*c = (struct call){ .op = head->op, .used = true, .sent = v->world->now, .order = ++v->ordered };
	head->n_slots = (uint16_t)slots;
	head->n = n;
	head->user_data = c->ticket = ++v->tickets << 8 | (uint64_t)(c - v->calls);
	memset(m->bytes + m->n, 0, slots * RING_SLOT - m->n);
	if (slots == 1 && rng_one_in(&v->world->rng, 2)) {
		ring_producer_send_spsc(&v->commands, (const uint64_t *)m->bytes);
	} else {
		ring_producer_write_spsc(&v->commands, 0, m->bytes, (size_t)slots * RING_SLOT);
		ring_producer_publish_spsc(&v->commands, slots);
	}
	v->n_calls++;
	v->world->commands++;
	worker_ring(v, ring_producer_must_wake_spsc(&v->commands) && !is_quiet(v));
	return c;
}

void call_may_wait(struct worker *v, struct call *c)
{
	c->waits = true;
	c->order = 0;
	v->ordered--;
}

void message_flood(struct worker *v, uint32_t n)
{
	uint64_t slot[RING_EXPRESS + 1] = { wire_head_word(WIRE_OP_NOP, 1, 0) };
	bool any = false;

	while (n-- > 0 && ring_producer_space_spsc(&v->commands, 1) > 0) {
		slot[1] = ++v->ordered;
		ring_producer_queue_spsc(&v->commands, slot);
		v->n_nops++;
		v->world->commands++;
		any = true;
	}
	if (any)
		worker_ring(v, ring_producer_must_wake_spsc(&v->commands));
}

int message_receive(struct worker *v, struct message *m)
{
	int64_t fill = ring_consumer_fill_spsc(&v->replies);
	const struct wire_reply *head = (const struct wire_reply *)m->bytes;

	if (fill <= 0)
		return (int)fill;
	ring_consumer_first_spsc(&v->replies, fill, m->bytes);
	if (head->n_slots == 0 || head->n_slots > fill || head->n_slots * RING_SLOT > sizeof(m->bytes))
		return -EPROTO;
	if (head->n_slots > 1)
		ring_consumer_read_spsc(&v->replies, 0, m->bytes, (size_t)head->n_slots * RING_SLOT);
	m->n = (size_t)head->n_slots * RING_SLOT;
	ring_consumer_release_spsc(&v->replies, head->n_slots);
	worker_ring(v, ring_consumer_must_wake_spsc(&v->replies));
	return 1;
}
