/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - one direction of a trust-split, single-producer single-consumer ring
 *
 * Two processes that do not trust each other share a ring_control and an array
 * of 64-byte slots. Geometry and each side's own position are private; a
 * position is published, never read back, and the peer's is read once and
 * range-checked. A message is one or more consecutive slots (they may wrap) and
 * exists from the moment its tail is published.
 *
 * Errors: -EPROTO, the peer's position is impossible: end the session.
 */
#ifndef SWAKV_RING_H
#define SWAKV_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomics.h"

#define RING_SLOT 64u

/* In shared memory, zero when fresh. Positions run freely and wrap at 2^32. */
struct ring_control {
	_Alignas(CACHELINE) shm_u32 tail;        /* producer: slots published */
	_Alignas(CACHELINE) shm_u32 head;        /* consumer: slots given back */
	_Alignas(CACHELINE) shm_u32 need_wakeup; /* consumer sleeps: producer must wake it after publishing */
	_Alignas(CACHELINE) shm_u32 need_space;  /* producer starves: consumer must wake it after giving slots back */
};
_Static_assert(sizeof(struct ring_control) == 4 * CACHELINE, "ring_control is part of the protocol");

struct ring_producer_spsc {
	struct ring_control *control;
	unsigned char *slots;
	uint32_t n_slots; /* power of two */
	uint32_t mine;    /* next slot to write; published up to here */
	uint32_t peer;    /* last checked head */
};

struct ring_consumer_spsc {
	struct ring_control *control;
	const unsigned char *slots;
	uint32_t n_slots;
	uint32_t mine; /* next slot to read */
	uint32_t peer; /* last checked tail */
};

/* @n_slots is a power of two; @slots has n_slots * 64 bytes. Both are borrowed. The ring starts at position 0. */
void ring_producer_init_spsc(struct ring_producer_spsc *p, struct ring_control *control, void *slots, uint32_t n_slots);
void ring_consumer_init_spsc(struct ring_consumer_spsc *c, struct ring_control *control, const void *slots,
			     uint32_t n_slots);

/* 1: @n slots can be written now; 0: not now; -EPROTO. Reads the peer's head only when the private copy says full. */
int ring_producer_space_spsc(struct ring_producer_spsc *p, uint32_t n);

/* Copies @len bytes to byte @offset of the message being built. The caller has checked for space. */
void ring_producer_write_spsc(struct ring_producer_spsc *p, size_t offset, const void *src, size_t len);

/* Publishes the message of @n slots that was written: one release store, which pairs with the consumer's acquire. */
void ring_producer_publish_spsc(struct ring_producer_spsc *p, uint32_t n);

/* After publishing: true when the consumer may sleep and must be woken. Pairs with ring_consumer_sleep_spsc(). */
bool ring_producer_must_wake_spsc(struct ring_producer_spsc *p);

/*
 * Announces that the producer waits for @n slots, then looks again: 1 when they
 * are there after all (do not sleep), 0 when the consumer will wake it, -EPROTO.
 * Undo with ring_producer_clear_want_spsc() once it has woken: until then the
 * consumer wakes it at every turn.
 */
int ring_producer_want_space_spsc(struct ring_producer_spsc *p, uint32_t n);
void ring_producer_clear_want_spsc(struct ring_producer_spsc *p);

/* Slots published and not yet read, 0 when none, -EPROTO. */
int64_t ring_consumer_fill_spsc(struct ring_consumer_spsc *c);

/* Copies @len bytes at byte @offset of the next message to private memory. The caller has checked the fill. */
void ring_consumer_read_spsc(struct ring_consumer_spsc *c, size_t offset, void *dst, size_t len);

/* Gives @n slots back to the producer: one release store. */
void ring_consumer_release_spsc(struct ring_consumer_spsc *c, uint32_t n);

/* After giving slots back: true when the producer starves and must be woken; it clears the flag itself. */
bool ring_consumer_must_wake_spsc(struct ring_consumer_spsc *c);

/*
 * Announces sleep, then looks again: 1 when something was published after all
 * (do not sleep), 0 when the producer will wake it, -EPROTO. Undo with
 * ring_consumer_awake_spsc() before reading on.
 */
int ring_consumer_sleep_spsc(struct ring_consumer_spsc *c);
void ring_consumer_awake_spsc(struct ring_consumer_spsc *c);

#endif
