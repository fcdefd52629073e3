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
 * A message in a slot of its own costs a reader two cache lines that the writer
 * has just written, one after the other: the position, then the slot. So a
 * message of one slot whose last 8 bytes are 0 also lies beside the position
 * ("express"). A reader that finds one message there takes it with the line that
 * it has already; the next message overwrites it, so a reader that comes later
 * (it sees another express_tail) finds it in its slot. Either way a message is
 * copied once, and only the copy counts.
 *
 * Publication is a release store of the position, paired with the peer's
 * acquire load. Sleeping uses the classic two-flag pattern: the sleeper stores
 * its flag, fences, and looks at the position again; the waker stores the
 * position, fences, and looks at the flag. One of the two sees the other.
 *
 * Errors: -EPROTO, the peer's position is impossible: end the session.
 */
#ifndef SWAKV_RING_H
#define SWAKV_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "atomics.h"

#define RING_SLOT    64u
#define RING_EXPRESS 7 /* words of 8 bytes: a slot less its last one */

/* In shared memory, zero when fresh. Positions run freely and wrap at 2^32. */
struct ring_control {
	union {
		shm_u64 mark; /* both of the next, which only their producer's peer tells apart */
		struct {
			shm_u32 tail;         /* producer: slots published */
			shm_u32 express_tail; /* the tail that `express` belongs to */
		};
	};
	shm_u64 express[RING_EXPRESS];           /* first bytes of the last message */
	_Alignas(CACHELINE) shm_u32 head;        /* consumer: slots given back */
	_Alignas(CACHELINE) shm_u32 need_wakeup; /* consumer sleeps: producer must wake it after publishing */
	_Alignas(CACHELINE) shm_u32 need_space;  /* producer starves: consumer must wake it after giving slots back */
};
_Static_assert(sizeof(struct ring_control) == 4 * CACHELINE, "ring_control is part of the protocol");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the tail is the low half of the mark");

static inline uint64_t ring_mark(uint32_t tail, uint32_t express_tail)
{
	return tail | (uint64_t)express_tail << 32;
}

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
	uint32_t mine;    /* next slot to read */
	uint32_t peer;    /* last checked tail */
	uint32_t express; /* the express_tail that came with it */
};

/* @n_slots is a power of two; @slots has n_slots * 64 bytes. Both are borrowed. The ring starts at position 0. */
void ring_producer_init_spsc(struct ring_producer_spsc *p, struct ring_control *control, void *slots, uint32_t n_slots);
void ring_consumer_init_spsc(struct ring_consumer_spsc *c, struct ring_control *control, const void *slots,
			     uint32_t n_slots);

/* 1: @n slots can be written now; 0: not now; -EPROTO. Reads the peer's head only when the private copy says full. */
static inline int ring_producer_space_spsc(struct ring_producer_spsc *p, uint32_t n)
{
	uint32_t head;

	if (p->n_slots - (p->mine - p->peer) >= n)
		return 1;
	head = load_acquire(&p->control->head);
	if ((uint32_t)(p->mine - head) > p->n_slots || (uint32_t)(head - p->peer) > p->n_slots)
		return -EPROTO;
	p->peer = head;
	return p->n_slots - (p->mine - p->peer) >= n;
}

/* Byte @offset of the message being built or read that begins at slot @first, as an offset into the slots. */
static inline size_t ring_at(uint32_t n_slots, uint32_t first, size_t offset)
{
	return ((size_t)(first & (n_slots - 1)) * RING_SLOT + offset) & ((size_t)n_slots * RING_SLOT - 1);
}

/* Copies @len bytes to byte @offset of the message being built. The caller has checked for space. */
static inline void ring_producer_write_spsc(struct ring_producer_spsc *p, size_t offset, const void *src, size_t len)
{
	size_t at = ring_at(p->n_slots, p->mine, offset), room = (size_t)p->n_slots * RING_SLOT - at;

	if (len <= room) {
		if (len > 0) /* @src may be NULL then */
			memcpy(p->slots + at, src, len);
		return;
	}
	memcpy(p->slots + at, src, room);
	memcpy(p->slots, (const unsigned char *)src + room, len - room);
}

/*
 * Where byte @offset of the message being built lies, for who writes there
 * itself: up to the end of that slot. The caller has checked for space.
 */
static inline void *ring_producer_place_spsc(struct ring_producer_spsc *p, size_t offset)
{
	return p->slots + ring_at(p->n_slots, p->mine, offset);
}

/*
 * A message will be published in a moment: the line that the reader polls is
 * fetched while the message is made, and not only once it is there.
 */
static inline void ring_producer_soon_spsc(const struct ring_producer_spsc *p)
{
	prefetch_to_write(&p->control->mark);
}

/* Publishes the message of @n slots that was written: one release store, which pairs with the consumer's acquire. */
static inline void ring_producer_publish_spsc(struct ring_producer_spsc *p, uint32_t n)
{
	p->mine += n;
	store_release(&p->control->mark, ring_mark(p->mine, ~p->mine));
}

/* Writes @slot, words of 8 bytes in private memory, where the message being built begins. */
static inline void ring_producer_fill_spsc(struct ring_producer_spsc *p, const uint64_t slot[RING_EXPRESS + 1])
{
	shm_u64 *place = ring_producer_place_spsc(p, 0);

	store_relaxed(&place[0], slot[0]);
	store_relaxed(&place[1], slot[1]);
	store_relaxed(&place[2], slot[2]);
	store_relaxed(&place[3], slot[3]);
	store_relaxed(&place[4], slot[4]);
	store_relaxed(&place[5], slot[5]);
	store_relaxed(&place[6], slot[6]);
	store_relaxed(&place[7], slot[7]);
}

/*
 * Writes and publishes a message of one slot to a reader that has others before
 * it. The caller has checked for space.
 */
static inline void ring_producer_queue_spsc(struct ring_producer_spsc *p, const uint64_t slot[RING_EXPRESS + 1])
{
	ring_producer_fill_spsc(p, slot);
	ring_producer_publish_spsc(p, 1);
}

/*
 * The same to a reader that probably waits for it: beside the position, if it can.
 * @slot was written in words of 8 bytes: a load that gathers several younger
 * stores waits until they have left the CPU's store buffer, and before them
 * stands a store to a line that the peer holds.
 */
static inline void ring_producer_send_spsc(struct ring_producer_spsc *p, const uint64_t slot[RING_EXPRESS + 1])
{
	struct ring_control *control = p->control;

	if (slot[RING_EXPRESS] != 0) {
		ring_producer_queue_spsc(p, slot);
		return;
	}
	/* Release: who sees this looks for the last message in its slot. */
	store_release(&control->mark, ring_mark(p->mine, ~p->mine));
	fence_release(); /* pairs with ring_consumer_first_spsc(): who reads a newer word below sees this, too */
	store_relaxed(&control->express[0], slot[0]);
	store_relaxed(&control->express[1], slot[1]);
	store_relaxed(&control->express[2], slot[2]);
	store_relaxed(&control->express[3], slot[3]);
	store_relaxed(&control->express[4], slot[4]);
	store_relaxed(&control->express[5], slot[5]);
	store_relaxed(&control->express[6], slot[6]);
	store_release(&control->mark, ring_mark(p->mine + 1, p->mine + 1));
	ring_producer_fill_spsc(p, slot);
	p->mine++;
}

/*
 * After publishing: the next slot's line is taken from the reader's cache while
 * the position's is on its way, by a store (a prefetch leaves a line that is
 * shared as it is). Nothing, when that slot may not have been read yet.
 */
static inline void ring_producer_own_next_spsc(struct ring_producer_spsc *p)
{
	if (p->mine - p->peer < p->n_slots)
		store_relaxed((shm_u64 *)ring_producer_place_spsc(p, 0), 0);
}

/* After publishing and a fence_store_load(): true when the consumer may sleep and must be woken. */
static inline bool ring_producer_sees_sleeper_spsc(const struct ring_producer_spsc *p)
{
	return load_relaxed(&p->control->need_wakeup) != 0;
}

/* Both: the fence, then the look. The fence pairs with ring_consumer_sleep_spsc(). */
static inline bool ring_producer_must_wake_spsc(struct ring_producer_spsc *p)
{
	fence_store_load();
	return ring_producer_sees_sleeper_spsc(p);
}

/*
 * Announces that the producer waits for @n slots, then looks again: 1 when they
 * are there after all (do not sleep), 0 when the consumer will wake it, -EPROTO.
 * Undo with ring_producer_clear_want_spsc() once it has woken: until then the
 * consumer wakes it at every turn.
 */
int ring_producer_want_space_spsc(struct ring_producer_spsc *p, uint32_t n);
void ring_producer_clear_want_spsc(struct ring_producer_spsc *p);

/* Slots published and not yet read, 0 when none, -EPROTO. */
static inline int64_t ring_consumer_fill_spsc(struct ring_consumer_spsc *c)
{
	uint64_t mark;
	uint32_t tail;

	if (c->mine != c->peer)
		return (int64_t)(uint32_t)(c->peer - c->mine);
	mark = load_acquire(&c->control->mark);
	tail = (uint32_t)mark;
	if ((uint32_t)(tail - c->mine) > c->n_slots)
		return -EPROTO;
	c->peer = tail;
	c->express = (uint32_t)(mark >> 32);
	return (int64_t)(uint32_t)(c->peer - c->mine);
}

/* Slots that the last look found and that are not yet read: no look at the peer's position. */
static inline uint32_t ring_consumer_seen_spsc(const struct ring_consumer_spsc *c)
{
	return c->peer - c->mine;
}

/* Copies @len bytes at byte @offset of the next message to private memory. The caller has checked the fill. */
static inline void ring_consumer_read_spsc(struct ring_consumer_spsc *c, size_t offset, void *dst, size_t len)
{
	size_t at = ring_at(c->n_slots, c->mine, offset), room = (size_t)c->n_slots * RING_SLOT - at;

	if (len <= room) {
		if (len > 0)
			memcpy(dst, c->slots + at, len);
		return;
	}
	memcpy(dst, c->slots + at, room);
	memcpy((unsigned char *)dst + room, c->slots, len - room);
}

/*
 * Copies the first slot of the next message to private memory, 64 aligned bytes.
 * @fill is what ring_consumer_fill_spsc() said.
 */
static inline void ring_consumer_first_spsc(struct ring_consumer_spsc *c, int64_t fill, void *dst)
{
	struct ring_control *control = c->control;
	uint64_t *slot = dst;

	/* Not even looked at in vain: the producer may be about to write to that line. */
	if (fill == 1 && c->express == c->peer) {
		slot[0] = load_relaxed(&control->express[0]);
		slot[1] = load_relaxed(&control->express[1]);
		slot[2] = load_relaxed(&control->express[2]);
		slot[3] = load_relaxed(&control->express[3]);
		slot[4] = load_relaxed(&control->express[4]);
		slot[5] = load_relaxed(&control->express[5]);
		slot[6] = load_relaxed(&control->express[6]);
		slot[RING_EXPRESS] = 0;
		fence_acquire(); /* pairs with ring_producer_send_spsc() */
		if (load_acquire(&control->mark) == ring_mark(c->peer, c->peer))
			return;
	}
	ring_consumer_read_spsc(c, 0, dst, RING_SLOT);
}

/* Gives @n slots back to the producer: one release store. */
static inline void ring_consumer_release_spsc(struct ring_consumer_spsc *c, uint32_t n)
{
	c->mine += n;
	store_release(&c->control->head, c->mine);
}

/* After giving slots back and a fence_store_load(): true when the producer starves and must be woken. */
static inline bool ring_consumer_sees_starved_spsc(const struct ring_consumer_spsc *c)
{
	/*
	 * Each flag has one writer. If this side cleared it, the store could reach
	 * memory after the producer had set it for its next sleep (tests/spin).
	 */
	return load_relaxed(&c->control->need_space) != 0;
}

/* Both: the fence, then the look. The fence pairs with ring_producer_want_space_spsc(). */
static inline bool ring_consumer_must_wake_spsc(struct ring_consumer_spsc *c)
{
	fence_store_load();
	return ring_consumer_sees_starved_spsc(c);
}

/*
 * Announces sleep, then looks again: 1 when something was published after all
 * (do not sleep), 0 when the producer will wake it, -EPROTO. Undo with
 * ring_consumer_awake_spsc() before reading on.
 */
int ring_consumer_sleep_spsc(struct ring_consumer_spsc *c);
void ring_consumer_awake_spsc(struct ring_consumer_spsc *c);

#endif
