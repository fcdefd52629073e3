/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_stream.c - a threaded host stream, and the broker's eyes on its line
 *
 * One thread gives steps to the stream: table entries, work, a mark. The other
 * does what the broker does: it reads the word, then the armed value, and takes
 * what lies behind the word as finished. It must find the word never above the
 * armed value, never going back, and everything of a finished step in place. A
 * plain program, so that it also runs under the thread sanitizer.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream/stream.h"

enum { STEPS = 100000, WIDTH = 8, PAGES = 1 << 20 };

static struct wire_line line;
static int32_t table[2 * WIDTH];
static uint64_t finished[STEPS + 1]; /* written by the work of each step */
static shm_u32 stop;

static _Noreturn void fail(const char *what, uint64_t value)
{
	fprintf(stderr, "race_stream: %s (%llu)\n", what, (unsigned long long)value);
	exit(1);
}

static void work(void *arg)
{
	uint64_t *step = arg;

	/* the step's own entry is in the table: it was enqueued before */
	if (table[(step - finished) % WIDTH] != step - finished)
		fail("work ran before its updates", (uint64_t)(step - finished));
	*step = (uint64_t)(step - finished);
}

static void *watch(void *arg)
{
	uint64_t last = 0;

	while (!load_acquire(&stop)) {
		uint64_t word = load_acquire(&line.word);
		uint64_t armed = load_acquire(&line.armed);

		if (word > armed)
			fail("the word is above the armed value", word);
		if (word < last)
			fail("the word went back", word);
		for (uint64_t n = last + 1; n <= word; n++)
			if (finished[n] != n)
				fail("the word came before the work", n);
		last = word;
	}
	return NULL;
}

int main(void)
{
	const struct stream_target target = { .table = (uint64_t)(uintptr_t)table, .width = WIDTH, .num_pages = PAGES };
	struct stream st;
	pthread_t watcher;

	memset(table, 0xff, sizeof(table));
	stream_init(&st, 0, &line, &target, 1);
	if (stream_bind_host(&st, true) < 0 || pthread_create(&watcher, NULL, watch, NULL) != 0)
		fail("no thread", 0);
	for (uint64_t n = 1; n <= STEPS; n++) {
		const struct swakv_update u = { .column = (int32_t)(n % WIDTH), .page = (int32_t)n };

		stream_arm(&st);
		if (stream_apply(&st, 0, &u, 1) < 0 || st.backend->launch_host(&st, work, &finished[n]) < 0 ||
		    stream_mark(&st) < 0)
			fail(st.why, n);
		if (n % 1000 == 0 && stream_synchronize(&st) < 0)
			fail(st.why, n);
	}
	if (stream_synchronize(&st) < 0 || load_acquire(&line.word) != STEPS)
		fail("not all marks were reached", load_acquire(&line.word));
	store_release(&stop, 1);
	pthread_join(watcher, NULL);
	stream_deinit(&st);
	return 0;
}
