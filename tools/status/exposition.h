/* SPDX-License-Identifier: Apache-2.0 */
/* exposition.h - families and samples of the metrics' text, one after the other (prometheus.c) */
#ifndef SWAKV_STATUS_EXPOSITION_H
#define SWAKV_STATUS_EXPOSITION_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct exposition {
	FILE *out;
	const char *broker;
	const char *family;
	bool openmetrics;
};

/* Characters of a family's name without the ending of a counter's samples. */
static inline int bare_length(const char *name)
{
	const char *end = strstr(name, "_total");

	return (int)(end ? end - name : (ptrdiff_t)strlen(name));
}

static inline void family(struct exposition *e, const char *name, const char *type, const char *help)
{
	int n = e->openmetrics ? bare_length(name) : (int)strlen(name);

	e->family = name;
	fprintf(e->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", n, name, help, n, name, type);
}

static inline void label(struct exposition *e, const char *name, const char *value)
{
	fprintf(e->out, ",%s=\"", name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', e->out);
		if (*value == '\n')
			fputs("\\n", e->out);
		else
			fputc(*value, e->out);
	}
	fputc('"', e->out);
}

static inline void label_number(struct exposition *e, const char *name, int64_t value)
{
	fprintf(e->out, ",%s=\"%" PRId64 "\"", name, value);
}

/* A sample: sample_begin(), any labels, then a value. @suffix: to the family's name. */
static inline void sample_begin_of(struct exposition *e, const char *suffix)
{
	fprintf(e->out, "%s%s{broker=\"%s\"", e->family, suffix, e->broker); /* a broker's name needs no escapes */
}

static inline void sample_begin(struct exposition *e)
{
	sample_begin_of(e, "");
}

static inline void value(struct exposition *e, int64_t v)
{
	fprintf(e->out, "} %" PRId64 "\n", v);
}

static inline void value_seconds(struct exposition *e, int64_t ms)
{
	fprintf(e->out, "} %" PRId64 ".%03" PRId64 "\n", ms / 1000, ms % 1000);
}

/* A family of one sample. */
static inline void single(struct exposition *e, const char *name, const char *type, const char *help, uint64_t v)
{
	family(e, name, type, help);
	sample_begin(e);
	value(e, (int64_t)v);
}

#endif
