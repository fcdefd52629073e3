/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_queue.c - see log_queue.h
 *
 * Position p is in slot p % LINES, in that slot's round p / LINES. The slot's
 * `turn` is 2 * round while it is free for p, one more while it holds p's line.
 * Who puts takes a position by moving the tail, but only while the slot is free
 * for it: so it has the slot to itself, and a thread that is put aside with its
 * line half written holds up the taker, never those who put.
 */
#include "log_queue.h"

#include <string.h>

static uint64_t free_for(uint64_t position)
{
	return position / LOG_QUEUE_LINES * 2;
}

bool log_queue_put(struct log_queue *q, const char *text, size_t length)
{
	uint64_t at = load_relaxed(&q->tail);
	struct log_slot *s;

	for (;;) {
		s = &q->slots[at % LOG_QUEUE_LINES];
		uint64_t turn = load_acquire(&s->turn); /* pairs with log_queue_pop() */

		if (turn < free_for(at))
			return false;
		if (turn > free_for(at))
			at = load_relaxed(&q->tail);
		else if (replace_relaxed(&q->tail, &at, at + 1))
			break;
	}
	s->length = (uint32_t)length;
	memcpy(s->text, text, length);
	store_release(&s->turn, free_for(at) + 1); /* pairs with log_queue_first() */
	return true;
}

const struct log_slot *log_queue_first(const struct log_queue *q)
{
	uint64_t at = load_relaxed(&q->head);
	const struct log_slot *s = &q->slots[at % LOG_QUEUE_LINES];

	return load_acquire(&s->turn) == free_for(at) + 1 ? s : NULL; /* pairs with log_queue_put() */
}

void log_queue_pop(struct log_queue *q)
{
	uint64_t at = load_relaxed(&q->head);

	store_release(&q->slots[at % LOG_QUEUE_LINES].turn, free_for(at) + 2); /* pairs with log_queue_put() */
	store_relaxed(&q->head, at + 1);
}

bool log_queue_is_empty(const struct log_queue *q)
{
	return load_relaxed(&q->head) == load_relaxed(&q->tail);
}
