/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - see ring.h
 *
 * Publication is a release store of the position, paired with the peer's
 * acquire load. Sleeping uses the classic two-flag pattern: the sleeper stores
 * its flag, fences, and looks at the position again; the waker stores the
 * position, fences, and looks at the flag. One of the two sees the other.
 */
#include "ring.h"

#include <errno.h>
#include <string.h>

void ring_producer_init_spsc(struct ring_producer_spsc *p, struct ring_control *control, void *slots, uint32_t n_slots)
{
	*p = (struct ring_producer_spsc){ .control = control, .slots = slots, .n_slots = n_slots };
}

void ring_consumer_init_spsc(struct ring_consumer_spsc *c, struct ring_control *control, const void *slots,
			     uint32_t n_slots)
{
	*c = (struct ring_consumer_spsc){ .control = control, .slots = slots, .n_slots = n_slots };
}

int ring_producer_space_spsc(struct ring_producer_spsc *p, uint32_t n)
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

void ring_producer_write_spsc(struct ring_producer_spsc *p, size_t offset, const void *src, size_t len)
{
	size_t size = (size_t)p->n_slots * RING_SLOT;
	size_t at = ((size_t)(p->mine & (p->n_slots - 1)) * RING_SLOT + offset) & (size - 1);
	size_t first = len < size - at ? len : size - at;

	if (len == 0)
		return;
	memcpy(p->slots + at, src, first);
	memcpy(p->slots, (const unsigned char *)src + first, len - first);
}

void ring_producer_publish_spsc(struct ring_producer_spsc *p, uint32_t n)
{
	p->mine += n;
	store_release(&p->control->tail, p->mine);
}

bool ring_producer_must_wake_spsc(struct ring_producer_spsc *p)
{
	fence_store_load(); /* pairs with ring_consumer_sleep_spsc() */
	return load_relaxed(&p->control->need_wakeup) != 0;
}

int ring_producer_want_space_spsc(struct ring_producer_spsc *p, uint32_t n)
{
	store_relaxed(&p->control->need_space, 1);
	fence_store_load(); /* pairs with ring_consumer_must_wake_spsc() */
	return ring_producer_space_spsc(p, n);
}

void ring_producer_clear_want_spsc(struct ring_producer_spsc *p)
{
	store_relaxed(&p->control->need_space, 0);
}

int64_t ring_consumer_fill_spsc(struct ring_consumer_spsc *c)
{
	uint32_t tail;

	if (c->mine != c->peer)
		return (int64_t)(uint32_t)(c->peer - c->mine);
	tail = load_acquire(&c->control->tail);
	if ((uint32_t)(tail - c->mine) > c->n_slots)
		return -EPROTO;
	c->peer = tail;
	return (int64_t)(uint32_t)(c->peer - c->mine);
}

void ring_consumer_read_spsc(struct ring_consumer_spsc *c, size_t offset, void *dst, size_t len)
{
	size_t size = (size_t)c->n_slots * RING_SLOT;
	size_t at = ((size_t)(c->mine & (c->n_slots - 1)) * RING_SLOT + offset) & (size - 1);
	size_t first = len < size - at ? len : size - at;

	if (len == 0)
		return;
	memcpy(dst, c->slots + at, first);
	memcpy((unsigned char *)dst + first, c->slots, len - first);
}

void ring_consumer_release_spsc(struct ring_consumer_spsc *c, uint32_t n)
{
	c->mine += n;
	store_release(&c->control->head, c->mine);
}

bool ring_consumer_must_wake_spsc(struct ring_consumer_spsc *c)
{
	fence_store_load(); /* pairs with ring_producer_want_space_spsc() */
	/*
	 * Each flag has one writer. If this side cleared it, the store could reach
	 * memory after the producer had set it for its next sleep (tests/spin).
	 */
	return load_relaxed(&c->control->need_space) != 0;
}

int ring_consumer_sleep_spsc(struct ring_consumer_spsc *c)
{
	int64_t fill;

	store_relaxed(&c->control->need_wakeup, 1);
	fence_store_load(); /* pairs with ring_producer_must_wake_spsc() */
	fill = ring_consumer_fill_spsc(c);
	return fill < 0 ? (int)fill : fill > 0;
}

void ring_consumer_awake_spsc(struct ring_consumer_spsc *c)
{
	store_relaxed(&c->control->need_wakeup, 0);
}
