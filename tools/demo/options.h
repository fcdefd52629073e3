/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - command line of swakv-demo-worker */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "presets.h"

#define GROUP_MAX 4 /* sequences a request holds at most */

struct options {
	const char *broker; /* NULL: the library's default */
	const char *socket;
	const char *pool;
	const char *trace;
	const char *name;
	const char *report;   /* NULL: none */
	struct preset preset; /* scaled, with dtype and page size as asked for */
	uint32_t scale;
	size_t rows; /* 0: all */
	size_t skip;
	uint32_t batch; /* sequences at a time */
	int64_t max_seq;
	int64_t max_decode;     /* tokens a sequence decodes at most, 0: as the trace says */
	uint64_t time_limit_ns; /* 0: none */
	uint64_t seed;
	uint32_t lag_ms; /* how much later than computed each step ends on its stream */
	bool poison, loop, quiet, json;
};

/*
 * Fills *@o; strings are borrowed from @argv. Returns -1 to go on, else the
 * status to exit with (help, version, or a mistake that has been printed).
 */
int options_parse(struct options *o, int argc, char **argv);

#endif
