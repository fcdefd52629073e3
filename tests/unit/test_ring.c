/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ring.h"

struct pair {
	struct ring_control control;
	unsigned char slots[8 * RING_SLOT];
};

static struct pair shared;
static struct ring_producer_spsc p;
static struct ring_consumer_spsc c;

static void setup(void)
{
	memset(&shared, 0, sizeof(shared));
	ring_producer_init_spsc(&p, &shared.control, shared.slots, 8);
	ring_consumer_init_spsc(&c, &shared.control, shared.slots, 8);
}

TestSuite(ring, .init = setup);

Test(ring, empty_and_full_are_told)
{
	cr_assert_eq(ring_consumer_fill_spsc(&c), 0);
	cr_assert_eq(ring_producer_space_spsc(&p, 8), 1);
	ring_producer_publish_spsc(&p, 8);
	cr_assert_eq(ring_producer_space_spsc(&p, 1), 0);
	cr_assert_eq(ring_consumer_fill_spsc(&c), 8);
	ring_consumer_release_spsc(&c, 8);
	cr_assert_eq(ring_producer_space_spsc(&p, 8), 1);
}

Test(ring, message_that_wraps_arrives_whole)
{
	unsigned char in[3 * RING_SLOT], out[3 * RING_SLOT];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	for (int round = 0; round < 50; round++) {
		memset(out, 0, sizeof(out));
		cr_assert_eq(ring_producer_space_spsc(&p, 3), 1);
		ring_producer_write_spsc(&p, 0, in, 32);
		ring_producer_write_spsc(&p, 32, in + 32, sizeof(in) - 32);
		ring_producer_publish_spsc(&p, 3);
		cr_assert_eq(ring_consumer_fill_spsc(&c), 3);
		ring_consumer_read_spsc(&c, 0, out, 100);
		ring_consumer_read_spsc(&c, 100, out + 100, sizeof(out) - 100);
		ring_consumer_release_spsc(&c, 3);
		cr_assert_arr_eq(in, out, sizeof(in));
	}
}

Test(ring, positions_wrap_at_32_bits)
{
	p.mine = p.peer = c.mine = c.peer = UINT32_MAX - 3;
	store_relaxed(&shared.control.tail, UINT32_MAX - 3);
	store_relaxed(&shared.control.head, UINT32_MAX - 3);
	for (int round = 0; round < 10; round++) {
		cr_assert_eq(ring_producer_space_spsc(&p, 2), 1);
		ring_producer_publish_spsc(&p, 2);
		cr_assert_eq(ring_consumer_fill_spsc(&c), 2);
		ring_consumer_release_spsc(&c, 2);
	}
}

Test(ring, hostile_tail_is_an_error)
{
	store_relaxed(&shared.control.tail, 9);
	cr_assert_eq(ring_consumer_fill_spsc(&c), -EPROTO);
	store_relaxed(&shared.control.tail, UINT32_MAX);
	cr_assert_eq(ring_consumer_fill_spsc(&c), -EPROTO);
}

Test(ring, hostile_head_is_an_error)
{
	ring_producer_publish_spsc(&p, 8);
	store_relaxed(&shared.control.head, 9);
	cr_assert_eq(ring_producer_space_spsc(&p, 1), -EPROTO);
	store_relaxed(&shared.control.head, UINT32_MAX - 8);
	cr_assert_eq(ring_producer_space_spsc(&p, 1), -EPROTO);
}

Test(ring, head_that_moves_back_is_an_error)
{
	ring_producer_publish_spsc(&p, 4);
	cr_assert_eq(ring_consumer_fill_spsc(&c), 4);
	ring_consumer_release_spsc(&c, 4);
	cr_assert_eq(ring_producer_space_spsc(&p, 8), 1);
	ring_producer_publish_spsc(&p, 8);
	store_relaxed(&shared.control.head, 3);
	cr_assert_eq(ring_producer_space_spsc(&p, 1), -EPROTO);
}

Test(ring, sleeper_sees_what_came_before_its_flag)
{
	ring_producer_publish_spsc(&p, 1);
	cr_assert_eq(ring_consumer_sleep_spsc(&c), 1);
	ring_consumer_awake_spsc(&c);
	ring_consumer_release_spsc(&c, 1);
	cr_assert_eq(ring_consumer_sleep_spsc(&c), 0);
	ring_producer_publish_spsc(&p, 1);
	cr_assert(ring_producer_must_wake_spsc(&p));
	ring_consumer_awake_spsc(&c);
	cr_assert_not(ring_producer_must_wake_spsc(&p));
}

/* A consumer that cleared the flag could undo the producer's next announcement: tests/spin finds the lost wake-up. */
Test(ring, starving_producer_is_woken_until_it_clears_its_own_flag)
{
	ring_producer_publish_spsc(&p, 8);
	cr_assert_eq(ring_producer_want_space_spsc(&p, 1), 0);
	cr_assert_eq(ring_consumer_fill_spsc(&c), 8);
	ring_consumer_release_spsc(&c, 8);
	cr_assert(ring_consumer_must_wake_spsc(&c));
	cr_assert(ring_consumer_must_wake_spsc(&c));
	cr_assert_eq(ring_producer_want_space_spsc(&p, 8), 1);
	ring_producer_clear_want_spsc(&p);
	cr_assert_not(ring_consumer_must_wake_spsc(&c));
}

/* Waits a turn; with fewer CPUs than threads the other side needs this one's. */
static void wait_turn(uint32_t *turns)
{
	cpu_relax();
	if (++*turns % 256 == 0)
		sched_yield();
}

/* Two threads, messages of 1 to 5 slots, every byte checked. */
static void *produce(void *arg)
{
	uint64_t n = *(uint64_t *)arg;
	uint32_t turns = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t slots = 1 + (uint32_t)(i % 5);
		uint64_t words[5 * 8];

		for (uint32_t k = 0; k < slots * 8; k++)
			words[k] = i * 40 + k;
		while (ring_producer_space_spsc(&p, slots) == 0)
			wait_turn(&turns);
		ring_producer_write_spsc(&p, 0, words, slots * RING_SLOT);
		ring_producer_publish_spsc(&p, slots);
	}
	return NULL;
}

Test(ring, two_threads_lose_and_tear_nothing)
{
	uint64_t n = 200000;
	uint32_t turns = 0;
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, produce, &n), 0);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t slots = 1 + (uint32_t)(i % 5);
		uint64_t words[5 * 8];

		while (ring_consumer_fill_spsc(&c) < slots)
			wait_turn(&turns);
		ring_consumer_read_spsc(&c, 0, words, slots * RING_SLOT);
		ring_consumer_release_spsc(&c, slots);
		for (uint32_t k = 0; k < slots * 8; k++)
			cr_assert_eq(words[k], i * 40 + k);
	}
	pthread_join(t, NULL);
}

/* A message of one slot whose words count up from @first; the last word is @last. */
static void send_one(uint64_t first, uint64_t last)
{
	uint64_t slot[8];

	for (uint64_t i = 0; i < 7; i++)
		slot[i] = first + i;
	slot[7] = last;
	cr_assert_eq(ring_producer_space_spsc(&p, 1), 1);
	ring_producer_send_spsc(&p, slot);
}

static void take_one(uint64_t first, uint64_t last)
{
	int64_t fill = ring_consumer_fill_spsc(&c);
	uint64_t slot[8];

	cr_assert_geq(fill, 1);
	ring_consumer_first_spsc(&c, fill, slot);
	for (uint64_t i = 0; i < 7; i++)
		cr_assert_eq(slot[i], first + i);
	cr_assert_eq(slot[7], last);
	ring_consumer_release_spsc(&c, 1);
}

Test(ring, lone_message_is_taken_beside_the_position)
{
	send_one(100, 0);
	memset(shared.slots, 0xee, sizeof(shared.slots)); /* so it cannot come from there */
	take_one(100, 0);
}

Test(ring, message_with_a_last_word_travels_in_its_slot)
{
	send_one(100, 0);
	take_one(100, 0);
	send_one(200, 9);
	take_one(200, 9);
}

Test(ring, messages_that_queue_are_read_in_order)
{
	for (int round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 5; i++)
			send_one(10 * i, 0);
		for (uint64_t i = 0; i < 5; i++)
			take_one(10 * i, 0);
	}
}

Test(ring, message_that_was_overtaken_is_found_in_its_slot)
{
	send_one(100, 0);
	cr_assert_eq(ring_consumer_fill_spsc(&c), 1);
	send_one(200, 0); /* behind the consumer's look: what lies beside the position is no longer the first one */
	take_one(100, 0);
	take_one(200, 0);
}

Test(ring, longer_message_leaves_nothing_to_be_taken_for_it)
{
	uint64_t slot[8];

	send_one(100, 0);
	take_one(100, 0);
	memset(shared.slots, 0x11, sizeof(shared.slots));
	ring_producer_publish_spsc(&p, 1);
	ring_consumer_first_spsc(&c, ring_consumer_fill_spsc(&c), slot);
	cr_assert_eq(slot[0], 0x1111111111111111u);
}
