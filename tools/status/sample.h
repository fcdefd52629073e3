/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - one look at a broker's status page, and what it says about the broker's health */
#ifndef SWAKV_STATUS_SAMPLE_H
#define SWAKV_STATUS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "status_page.h"

/* The values are the tool's exit codes. */
enum verdict {
	VERDICT_RUNNING = 0,
	VERDICT_UNREADABLE = 1, /* no permission, or a system call failed: nothing is known */
	VERDICT_BAD_NAME = 2,
	VERDICT_NOT_RUNNING = 3,
	VERDICT_STALE = 4,
	VERDICT_STUCK = 5,
	VERDICT_COUNT
};
#define VERDICT_NAMES "running", "unreadable", "bad-name", "not-running", "stale", "stuck"

#define SAMPLE_STUCK_MS 1500 /* a thread's silence that counts as stuck */
#define SAMPLE_STALE_MS 2000 /* a snapshot's age that counts as stale */

struct sample_thread {
	const char *name;
	int64_t heartbeat_age_ms;
	bool stuck;
};

/* Made by sample_take(); every number of `snapshot` is of one moment. */
struct sample {
	enum verdict verdict;
	char reason[256]; /* why it is not running; empty when it is */
	char hint[256];   /* what to do about it; empty when it is running */
	char instance[WIRE_NAME];
	bool has_head;      /* `head`, `threads` and `uptime_ms` are valid */
	bool has_snapshot;  /* `snapshot` and `age_ms` are valid */
	char process_state; /* of /proc/PID/stat, asked only when a thread is stuck; 0: unknown */
	uint64_t now_ns;    /* CLOCK_MONOTONIC, taken before anything was read */
	int64_t uptime_ms;
	int64_t age_ms;
	struct sample_thread threads[STATUS_N_THREADS];
	struct status_head head; /* private copy, texts terminated; not its atomic words */
	struct status_snapshot snapshot;
};

/*
 * Fills *@s with what the page of @instance says now or, with @socket, that of the broker behind that workers' socket.
 * The struct is over 1 MB: keep it on the heap.
 */
void sample_take(struct sample *s, const char *instance, const char *socket);

/* "running", "not-running", "stale", "stuck", "unreadable", "bad-name". Static. */
const char *verdict_name(enum verdict v);

/* Milliseconds from @then (CLOCK_MONOTONIC ns) to the sample; not below 0. */
int64_t sample_age_ms(const struct sample *s, uint64_t then_ns);

#endif
