/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_status_page.c - a reader copies snapshots while the writer flips them
 *
 * The reader has the kernel copy, which the thread sanitizer does not see: what
 * it watches here is the writer, and what is checked is that no torn copy is
 * believed.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "status_page.h"

enum { COPIES = 400000 };

static struct status_writer writer;
static shm_u32 stop;
static pthread_t flipper;
static bool flipping;

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "race_status_page: %s\n", what);
	store_relaxed(&stop, 1);
	if (flipping)
		pthread_join(flipper, NULL);
	status_writer_close(&writer);
	exit(1);
}

/* Large and small in turn, so that the writer often comes back to a snapshot that is still being copied. */
static uint32_t n_bindings(uint64_t k)
{
	return (uint32_t)(k & 1 ? 3000 + k % 7 : k % 7);
}

/* Every number in a snapshot follows from its count k. */
static void *flip(void *arg)
{
	(void)arg;
	for (uint64_t k = 1; !load_relaxed(&stop); k++) {
		struct status_snapshot *s = status_writer_begin(&writer);

		s->commands = k;
		s->n_classes = 1;
		s->n_sessions = (uint32_t)(k % 100);
		s->n_bindings = n_bindings(k);
		for (uint32_t i = 0; i < s->n_sessions; i++)
			s->sessions[i] = (struct status_session){ .commands = k, .n_groups = 1 };
		for (uint32_t i = 0; i < s->n_bindings; i++)
			s->bindings[i] = (struct wire_binding){ .logical = (int32_t)k, .page = (int32_t)i };
		status_writer_commit(&writer);
	}
	return NULL;
}

static void check(const struct status_snapshot *s)
{
	uint64_t k = s->commands;

	if (s->n_sessions != k % 100 || s->n_bindings != n_bindings(k))
		fail("counts of different snapshots");
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		if (s->sessions[i].commands != k)
			fail("a session of another snapshot");
	}
	for (uint32_t i = 0; i < s->n_bindings; i++) {
		if (s->bindings[i].logical != (int32_t)k || s->bindings[i].page != (int32_t)i)
			fail("a binding of another snapshot");
	}
}

int main(void)
{
	struct status_snapshot *copy = malloc(sizeof(*copy));
	struct status_reader reader;
	char name[32];

	snprintf(name, sizeof(name), "race-%d", (int)getpid());
	if (!copy || status_writer_open(&writer, name))
		fail("set-up");
	status_writer_ready(&writer);
	reader = (struct status_reader){ .fd = writer.fd };
	if (pthread_create(&flipper, NULL, flip, NULL))
		fail("set-up");
	flipping = true;
	for (int n = 0; n < COPIES;) {
		int e = status_reader_copy(&reader, copy);

		if (e == -EAGAIN)
			continue;
		if (e)
			fail("an impossible snapshot");
		check(copy);
		n++;
	}
	store_relaxed(&stop, 1);
	pthread_join(flipper, NULL);
	status_writer_close(&writer);
	free(copy);
	return 0;
}
