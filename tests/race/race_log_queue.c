/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_log_queue.c - several threads put lines, one takes them
 *
 * Every line says whose it is, which of that thread's lines, and repeats the
 * number to its end. Those of one thread come in their order, whole, and none
 * is lost but those that were refused. The taker is slow at times, so that the
 * queue is full, too.
 */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/log_queue.h"

enum { PUTTERS = 4, LINES = 100000 };

static struct log_queue queue;
static shm_u64 n_refused;
static shm_u32 n_ended;

struct line {
	uint32_t putter;
	uint32_t n_copies;
	uint64_t numbers[LOG_LINE / 8 - 1];
};
_Static_assert(sizeof(struct line) == LOG_LINE, "a line fills its slot");

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "race_log_queue: %s\n", what);
	exit(1);
}

static size_t length_of(const struct line *l)
{
	return offsetof(struct line, numbers) + l->n_copies * sizeof(l->numbers[0]);
}

static void *put(void *arg)
{
	uint64_t refused = 0;
	struct line l = { .putter = *(const uint32_t *)arg };

	for (uint64_t n = 1; n <= LINES; n++) {
		l.n_copies = 1 + (uint32_t)(n % (LOG_LINE / 8 - 1));
		for (uint32_t i = 0; i < l.n_copies; i++)
			l.numbers[i] = n;
		if (!log_queue_put(&queue, (const char *)&l, length_of(&l))) {
			refused++;
			sched_yield();
		}
	}
	add_relaxed(&n_refused, refused);
	add_relaxed(&n_ended, 1);
	return NULL;
}

static void check(const struct log_slot *s, uint64_t last[PUTTERS])
{
	struct line l;

	memcpy(&l, s->text, s->length);
	if (l.putter >= PUTTERS || s->length != length_of(&l))
		fail("a line that nobody has put");
	for (uint32_t i = 0; i < l.n_copies; i++)
		if (l.numbers[i] != l.numbers[0])
			fail("a torn line");
	if (l.numbers[0] <= last[l.putter])
		fail("lines of one thread out of order, or twice");
	last[l.putter] = l.numbers[0];
}

int main(void)
{
	uint64_t last[PUTTERS] = { 0 }, n_taken = 0;
	uint32_t names[PUTTERS];
	pthread_t threads[PUTTERS];
	const struct log_slot *s;

	for (uint32_t i = 0; i < PUTTERS; i++) {
		names[i] = i;
		if (pthread_create(&threads[i], NULL, put, &names[i]))
			fail("no thread");
	}
	for (bool ended = false; !ended;) {
		ended = load_relaxed(&n_ended) == PUTTERS;
		if (ended)
			for (int i = 0; i < PUTTERS; i++)
				pthread_join(threads[i], NULL);
		while ((s = log_queue_first(&queue))) {
			check(s, last);
			log_queue_pop(&queue);
			if (++n_taken % 4096 == 0)
				sched_yield();
		}
	}
	if (!log_queue_is_empty(&queue) || n_taken + load_relaxed(&n_refused) != (uint64_t)PUTTERS * LINES)
		fail("lines are missing");
	return 0;
}
