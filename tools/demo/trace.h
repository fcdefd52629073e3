/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - rows of a serving trace: how long each context was and how much was generated */
#ifndef DEMO_TRACE_H
#define DEMO_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct trace_row {
	int64_t context;   /* tokens, at least 1 */
	int64_t generated; /* tokens, at least 0 */
};

struct trace {
	struct trace_row *rows;
	size_t n_rows;
};

/*
 * Reads the CSV file @path (TIMESTAMP,ContextTokens,GeneratedTokens; lines that
 * begin with # are comments), leaves out its first @skip rows and takes at most
 * @limit of the rest (0: all). What lies behind the last row taken is not
 * looked at. 0; -1: @why (@why_size bytes) says which file, line and value.
 */
int trace_read(struct trace *t, const char *path, size_t skip, size_t limit, char *why, size_t why_size);
void trace_deinit(struct trace *t);

#endif
