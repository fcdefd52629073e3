/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h: the parts that only a side makes that is about to sleep */
#include "ring.h"

void ring_producer_init_spsc(struct ring_producer_spsc *p, struct ring_control *control, void *slots, uint32_t n_slots)
{
	*p = (struct ring_producer_spsc){ .control = control, .slots = slots, .n_slots = n_slots };
}

void ring_consumer_init_spsc(struct ring_consumer_spsc *c, struct ring_control *control, const void *slots,
			     uint32_t n_slots)
{
	*c = (struct ring_consumer_spsc){ .control = control, .slots = slots, .n_slots = n_slots };
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
