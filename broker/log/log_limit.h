/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_limit.h - how many lines of the log one user can cause
 *
 * Each source, a uid, has a bucket of LOG_LIMIT_BURST lines that fills again by
 * LOG_LIMIT_A_SECOND. There are LOG_LIMIT_SOURCES of them: users beyond that share
 * those of others, so one who has many uids cannot fill the log either. What does
 * not pass is counted, and the count is told once there is room. Zeroed memory
 * knows no source yet.
 */
#ifndef SWAKV_BROKER_LOG_LIMIT_H
#define SWAKV_BROKER_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_LIMIT_SOURCES = 64, LOG_LIMIT_BURST = 200, LOG_LIMIT_A_SECOND = 20 };

struct log_source {
	uint32_t uid;
	bool used;
	uint64_t spent;  /* ns: what passed lately, a line counting 1 s / LOG_LIMIT_A_SECOND, as of `last` */
	uint64_t last;   /* ns */
	uint32_t silent; /* lines that did not pass, and were not told of yet */
};

struct log_limit {
	struct log_source sources[LOG_LIMIT_SOURCES];
	uint32_t displaced; /* lines not told of, by sources that others have taken the place of */
	uint64_t told;      /* ns: when such were told of last */
};

/* A line by @uid at @now (CLOCK_MONOTONIC ns). True: it may be logged. */
bool log_limit_pass(struct log_limit *l, uint32_t uid, uint64_t now);
/*
 * True when lines by *@uid were left out, *@n of them, and there is room to tell
 * so (@at_once: whether or not); then they count as told. LOG_NOBODY: by
 * whom is not known any more. To be repeated.
 */
bool log_limit_due(struct log_limit *l, uint64_t now, bool at_once, uint32_t *uid, uint32_t *n);
/* The line that should have told of @n lines by @uid was lost: they are told of later. */
void log_limit_untold(struct log_limit *l, uint32_t uid, uint32_t n);

#endif
