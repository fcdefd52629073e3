/* SPDX-License-Identifier: Apache-2.0 */
/* density.h - how many sequences of a trace fit in the same bytes, by what each of them reserves */
#ifndef SWAKV_BENCH_DENSITY_H
#define SWAKV_BENCH_DENSITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct density_options {
	const char *trace;
	bool json;
	int64_t window;      /* W, tokens */
	int64_t page_tokens; /* P, a power of two */
	int64_t max_seq;     /* tokens a sequence of the model may reach */
	int64_t in_flight;   /* D */
	int64_t max_rewind;  /* R, tokens */
	int64_t pool;        /* bytes of K and V */
	int64_t token_bytes; /* K and V of one token in all layers */
};

void density_options_init(struct density_options *o);
/* Takes option @name ("window", "pool", ...) from @value. False, with a sentence on standard error: wrong usage. */
bool density_option(struct density_options *o, const char *name, const char *value);
/* Reads the trace and prints. Returns the exit code of the program. */
int density_run(const struct density_options *o);

#endif
