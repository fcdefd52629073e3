/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_ring.c - two threads, one ring, sleeping and waking in both directions
 *
 * A plain program, so that it also runs under the thread sanitizer. The ring is
 * small, so both sides sleep often: the consumer for messages, the producer for
 * space. Every message is checked; a sleep that ends by time-out although the
 * other side had moved on is a lost wake-up and fails.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ring.h"

enum { SLOTS = 16, MOST = 5, MESSAGES = 200000, RESCUE_MS = 20000, FRAME = 16 /* head, and a last word of 0 */ };

struct message {
	uint32_t number;
	uint32_t n_slots;
	unsigned char filler[MOST * RING_SLOT - 8];
};

static struct {
	struct ring_control control;
	unsigned char slots[SLOTS * RING_SLOT];
} shared;

static int bell_consumer, bell_producer;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "race_ring: %s\n", what);
	exit(1);
}

static void ring_bell(int fd)
{
	if (eventfd_write(fd, 1) < 0)
		fail("eventfd_write");
}

/* Waits for the bell; nothing for a very long time means that nobody rang it. */
static void wait_bell(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	eventfd_t n;

	if (poll(&p, 1, RESCUE_MS) != 1)
		fail("a wake-up was lost");
	eventfd_read(fd, &n);
}

static uint32_t size_of(uint32_t number)
{
	return 1 + number * 2654435761u % MOST;
}

static unsigned char filler_of(uint32_t number, size_t i)
{
	return (unsigned char)(number * 31 + i);
}

/* One slot in the three ways there are, longer ones in theirs. */
static void send(struct ring_producer_spsc *p, const struct message *m, uint32_t n)
{
	uint64_t slot[RING_EXPRESS + 1];

	if (n == 1 && m->number % 3) {
		memcpy(slot, m, sizeof(slot));
		slot[RING_EXPRESS] = 0; /* the filler does not reach there */
		if (m->number % 3 == 1)
			ring_producer_send_spsc(p, slot);
		else
			ring_producer_queue_spsc(p, slot);
		return;
	}
	ring_producer_write_spsc(p, 0, m, n * RING_SLOT);
	ring_producer_publish_spsc(p, n);
}

static void *produce(void *arg)
{
	struct ring_producer_spsc p;
	struct message m;

	(void)arg;
	ring_producer_init_spsc(&p, &shared.control, shared.slots, SLOTS);
	for (uint32_t number = 0; number < MESSAGES; number++) {
		uint32_t n = size_of(number);

		while (ring_producer_space_spsc(&p, n) == 0) {
			if (ring_producer_want_space_spsc(&p, n) == 0)
				wait_bell(bell_producer);
			ring_producer_clear_want_spsc(&p);
		}
		m.number = number;
		m.n_slots = n;
		for (size_t i = 0; i < n * RING_SLOT - FRAME; i++)
			m.filler[i] = filler_of(number, i);
		send(&p, &m, n);
		if (ring_producer_must_wake_spsc(&p))
			ring_bell(bell_consumer);
	}
	return NULL;
}

/* Returns the fill. */
static int64_t wait_message(struct ring_consumer_spsc *c)
{
	int64_t fill;

	while ((fill = ring_consumer_fill_spsc(c)) == 0) {
		if (ring_consumer_sleep_spsc(c) == 0)
			wait_bell(bell_consumer);
		ring_consumer_awake_spsc(c);
	}
	if (fill < 0)
		fail("a position is impossible");
	return fill;
}

static void consume(void)
{
	struct ring_consumer_spsc c;
	struct message m;

	ring_consumer_init_spsc(&c, &shared.control, shared.slots, SLOTS);
	for (uint32_t number = 0; number < MESSAGES; number++) {
		ring_consumer_first_spsc(&c, wait_message(&c), &m);
		if (m.number != number || m.n_slots != size_of(number))
			fail("a message is missing or torn");
		if (m.n_slots > 1)
			ring_consumer_read_spsc(&c, 0, &m, m.n_slots * RING_SLOT);
		for (size_t i = 0; i < m.n_slots * RING_SLOT - FRAME; i++) {
			if (m.filler[i] != filler_of(number, i))
				fail("a message's contents are wrong");
		}
		ring_consumer_release_spsc(&c, m.n_slots);
		if (ring_consumer_must_wake_spsc(&c))
			ring_bell(bell_producer);
	}
}

int main(void)
{
	pthread_t t;

	bell_consumer = eventfd(0, EFD_CLOEXEC);
	bell_producer = eventfd(0, EFD_CLOEXEC);
	if (bell_consumer < 0 || bell_producer < 0 || pthread_create(&t, NULL, produce, NULL))
		fail("set-up");
	consume();
	pthread_join(t, NULL);
	close(bell_consumer);
	close(bell_producer);
	return 0;
}
