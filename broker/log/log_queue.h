/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_queue.h - a bounded queue of lines: many threads put, one takes, nobody waits
 *
 * Zeroed memory is an empty queue.
 */
#ifndef SWAKV_BROKER_LOG_QUEUE_H
#define SWAKV_BROKER_LOG_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomics.h"

#define LOG_QUEUE_LINES 256
#define LOG_LINE        1024 /* bytes of a line, its end included */

struct log_slot {
	shm_u64 turn; /* whose it is: see log_queue.c */
	uint32_t length;
	char text[LOG_LINE];
};

struct log_queue {
	_Alignas(CACHELINE) shm_u64 tail; /* where the next line is put */
	_Alignas(CACHELINE) shm_u64 head; /* the next to be taken */
	struct log_slot slots[LOG_QUEUE_LINES];
};

/* Copies a line of @length bytes, LOG_LINE at most, to the end. False: there is no room now. Any thread. */
bool log_queue_put(struct log_queue *q, const char *text, size_t length);
/* The oldest line, NULL: there is none. It stays until log_queue_pop(). One thread. */
const struct log_slot *log_queue_first(const struct log_queue *q);
void log_queue_pop(struct log_queue *q);
/* True when all that was put has been taken. Any thread. */
bool log_queue_is_empty(const struct log_queue *q);

#endif
