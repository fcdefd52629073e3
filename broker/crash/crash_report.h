/* SPDX-License-Identifier: Apache-2.0 */
/* crash_report.h - what a crash says of the broker's state, read without a lock and without following pointers in it */
#ifndef SWAKV_BROKER_CRASH_REPORT_H
#define SWAKV_BROKER_CRASH_REPORT_H

#include <signal.h>
#include <stdint.h>

#include "dump.h"
#include "ring_trace.h"
#include "status_page.h"

/* Where to look; each may be NULL yet. */
struct crash_subject {
	struct status_snapshot *picture; /* the last picture that was published, or the next, half made */
	const struct ring_trace *trace;
};

/* What has happened, in one of two ways. */
struct crash_event {
	const siginfo_t *info; /* a signal */
	uint64_t pc, sp;       /* 0: not known */
	const char *what;      /* or a broken invariant, at @file:@line */
	const char *file;
	int line;
	const char *thread;
	int tid;
};

/* Before any crash: reads what cannot be read safely then. */
void crash_report_init(void);
/* Writes it all. Async-signal-safe. */
void crash_report(struct dump *d, const struct crash_event *e, const struct crash_subject *s);

#endif
