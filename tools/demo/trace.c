/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "number.h"

#define TRACE_HEADER     "TIMESTAMP,ContextTokens,GeneratedTokens"
#define TRACE_MAX_TOKENS INT32_MAX

/* Where the reader is, for its error sentences. */
struct place {
	const char *path;
	unsigned long line;
	char *why;
	size_t why_size;
};

static int refuse(const struct place *at, const char *what, const char *value, const char *expected)
{
	snprintf(at->why, at->why_size, "%s:%lu: %s is '%.60s', expected %s", at->path, at->line, what, value,
		 expected);
	return -1;
}

/* A whole number without sign or blanks. False: it is none, or above TRACE_MAX_TOKENS. */
static bool parse_tokens(const char *text, int64_t least, int64_t *out)
{
	uint64_t n;

	if (!number_read(text, (uint64_t)least, TRACE_MAX_TOKENS, &n))
		return false;
	*out = (int64_t)n;
	return true;
}

static int parse_row(const struct place *at, char *line, struct trace_row *out)
{
	char *context = strchr(line, ',');
	char *generated = context ? strchr(context + 1, ',') : NULL;

	if (!generated || strchr(generated + 1, ','))
		return refuse(at, "the row", line, "three fields, " TRACE_HEADER);
	*context++ = '\0';
	*generated++ = '\0';
	if (!line[0])
		return refuse(at, "TIMESTAMP", line, "a time");
	if (!parse_tokens(context, 1, &out->context))
		return refuse(at, "ContextTokens", context, "a whole number from 1 to 2147483647");
	if (!parse_tokens(generated, 0, &out->generated))
		return refuse(at, "GeneratedTokens", generated, "a whole number from 0 to 2147483647");
	return 0;
}

static int append(struct trace *t, size_t *cap, struct trace_row row, const struct place *at)
{
	if (t->n_rows == *cap) {
		size_t more = *cap ? *cap * 2 : 256;
		struct trace_row *rows = reallocarray(t->rows, more, sizeof(*rows));

		if (!rows) {
			snprintf(at->why, at->why_size, "%s:%lu: out of memory", at->path, at->line);
			return -1;
		}
		t->rows = rows;
		*cap = more;
	}
	t->rows[t->n_rows++] = row;
	return 0;
}

/* Cuts the line end off; false: the line holds a NUL and is no text. */
static bool chop(char *line, ssize_t *len)
{
	if (strlen(line) != (size_t)*len)
		return false;
	while (*len > 0 && (line[*len - 1] == '\n' || line[*len - 1] == '\r'))
		line[--*len] = '\0';
	return true;
}

static int read_rows(struct trace *t, FILE *f, struct place *at, size_t skip, size_t limit)
{
	AUTO_FREE char *line = NULL;
	size_t line_cap = 0, cap = 0, seen = 0;
	bool header = false;
	ssize_t len;

	while ((!limit || t->n_rows < limit) && (len = getline(&line, &line_cap, f)) >= 0) {
		struct trace_row row;

		at->line++;
		if (!chop(line, &len))
			return refuse(at, "the line", line, "text without NUL bytes");
		if (len == 0 || line[0] == '#')
			continue;
		if (!header) {
			if (strcmp(line, TRACE_HEADER) != 0)
				return refuse(at, "the header", line, TRACE_HEADER);
			header = true;
			continue;
		}
		if (parse_row(at, line, &row) < 0)
			return -1;
		if (seen++ >= skip && append(t, &cap, row, at) < 0)
			return -1;
	}
	if (ferror(f)) {
		snprintf(at->why, at->why_size, "%s:%lu: %s", at->path, at->line, strerror(errno));
		return -1;
	}
	if (!t->n_rows) {
		snprintf(at->why, at->why_size, "%s: no rows left: it has %zu, %zu are to be skipped", at->path, seen,
			 skip);
		return -1;
	}
	return 0;
}

int trace_read(struct trace *t, const char *path, size_t skip, size_t limit, char *why, size_t why_size)
{
	struct place at = { path, 0, why, why_size };
	AUTO_FCLOSE FILE *f = fopen(path, "re");

	*t = (struct trace){ 0 };
	if (!f) {
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return -1;
	}
	if (read_rows(t, f, &at, skip, limit) < 0) {
		trace_deinit(t);
		return -1;
	}
	return 0;
}

void trace_deinit(struct trace *t)
{
	free(t->rows);
	*t = (struct trace){ 0 };
}
