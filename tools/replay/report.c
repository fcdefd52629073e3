/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>

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
	static const char *const results[] = { "ok", "difference", "unreadable", "broken" };
	json_t *j = json_object();

	json_object_set_new(j, "file", json_string(path));
	json_object_set_new(j, "result", json_string(results[o->result]));
	json_object_set_new(j, "statements", json_integer((json_int_t)o->n_statements));
	json_object_set_new(j, "line", o->line ? json_integer(o->line) : json_null());
	json_object_set_new(j, "expected", o->expected ? json_string(o->expected) : json_null());
	json_object_set_new(j, "got", o->got ? json_string(o->got) : json_null());
	json_object_set_new(j, "message", o->message ? json_string(o->message) : json_null());
	json_dumpf(j, out, JSON_COMPACT | JSON_PRESERVE_ORDER);
	fputc('\n', out);
	json_decref(j);
}
