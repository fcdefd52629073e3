/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dump.h - lines of text written by async-signal-safe means only
 *
 * To one or two descriptors, of which none is waited for: one that takes
 * nothing for a moment gets no more.
 */
#ifndef SWAKV_BROKER_DUMP_H
#define SWAKV_BROKER_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dump {
	int fds[2]; /* -1: none, or no more */
	const char *prefix[2];
	size_t n;
	char line[256]; /* longer ones are cut */
};

/* Zeroed but for descriptors and prefixes, it is ready. */
void dump_text(struct dump *d, const char *text);
void dump_signed(struct dump *d, int64_t n);
void dump_hex(struct dump *d, uint64_t n);
/* @text and @n, as in ", 3 sessions". */
void dump_count(struct dump *d, const char *before, uint64_t n, const char *behind);
/* Writes the line and begins the next. */
void dump_line(struct dump *d);

#endif
