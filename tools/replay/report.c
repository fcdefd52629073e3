/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>

#include "json_put.h"
#include "names.h"

static const char *text_of(const char *text)
{
	return text ? text : "?";
}

void report_text(const char *path, const struct outcome *o, FILE *out)
{
	if (o->result == RUN_OK) {
		fprintf(out, "%s: ok (%zu statements)\n", path, o->n_statements);
		return;
	}
	fprintf(out, "%s:", path);
	if (o->line)
		fprintf(out, "%d:", o->line);
	if (o->result == RUN_DIFFERENCE)
		fprintf(out, " expected %s, got %s\n", text_of(o->expected), text_of(o->got));
	else
		fprintf(out, " %s\n", text_of(o->message));
}

void report_json(const char *path, const struct outcome *o, FILE *out)
{
	NAMES(results, RUN_RESULT_COUNT, RUN_RESULT_NAMES);
	json_t *j = json_object();

	json_put_text(j, "file", path);
	json_put_text(j, "result", results[o->result]);
	json_put(j, "statements", o->n_statements);
	json_object_set_new(j, "line", o->line ? json_integer(o->line) : json_null());
	json_put_text(j, "expected", o->expected);
	json_put_text(j, "got", o->got);
	json_put_text(j, "message", o->message);
	json_dumpf(j, out, JSON_COMPACT | JSON_PRESERVE_ORDER);
	fputc('\n', out);
	json_decref(j);
}
