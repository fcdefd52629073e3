/* SPDX-License-Identifier: Apache-2.0 */
#include "hf_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "hf_config.h"

const char *hf_json_text(const json_t *value, char *buf, size_t size)
{
	AUTO_FREE char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

	if (strlcpy(buf, text ? text : "?", size) >= size && size > 4)
		strlcpy(buf + size - 4, "...", 4);
	return buf;
}

int hf_json_refuse(const struct hf_json *j, const char *field, const json_t *value, const char *expected)
{
	char text[64];

	snprintf(j->why, j->why_size, "%s: %s%s is %s, expected %s", j->name, j->path, field,
		 hf_json_text(value, text, sizeof(text)), expected);
	return HF_BAD;
}

int hf_json_say(const struct hf_json *j, int code, const char *format, ...)
{
	int n = snprintf(j->why, j->why_size, "%s: ", j->name);
	va_list list;

	va_start(list, format);
	if (n >= 0 && (size_t)n < j->why_size)
		vsnprintf(j->why + n, j->why_size - (size_t)n, format, list);
	va_end(list);
	return code;
}

const json_t *hf_json_field(const struct hf_json *j, const char *field)
{
	const json_t *v = json_object_get(j->object, field);

	return json_is_null(v) ? NULL : v;
}

bool hf_json_says(const struct hf_json *j, const char *field)
{
	const json_t *v = hf_json_field(j, field);

	if (json_is_number(v))
		return json_number_value(v) != 0;
	if (json_is_array(v) || json_is_object(v))
		return json_array_size(v) + json_object_size(v) > 0;
	return v && !json_is_false(v);
}

int hf_json_count(const struct hf_json *j, const char *field, int64_t most, int64_t *out)
{
	const json_t *v = hf_json_field(j, field);
	char expected[64];

	if (!v)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > most) {
		snprintf(expected, sizeof(expected), "a whole number from 1 to %" PRId64, most);
		return hf_json_refuse(j, field, v, expected);
	}
	*out = json_integer_value(v);
	return 0;
}

int hf_json_bool(const struct hf_json *j, const char *field, bool *out)
{
	const json_t *v = hf_json_field(j, field);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return hf_json_refuse(j, field, v, "true or false");
	*out = json_is_true(v);
	return 0;
}

int hf_json_string(const struct hf_json *j, const char *field, char *out, size_t size)
{
	const json_t *v = hf_json_field(j, field);

	if (!v)
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) >= size)
		return hf_json_refuse(j, field, v, "a short text");
	strlcpy(out, json_string_value(v), size);
	return 0;
}

const char *hf_json_name(const struct hf_json *j, const char *const names[])
{
	for (; *names; names++)
		if (hf_json_field(j, *names))
			return *names;
	return NULL;
}

int hf_json_one_name(const struct hf_json *j, const char *const names[], const char **name)
{
	char first[64], other[64];

	*name = hf_json_name(j, names);
	for (; *name && *names; names++) {
		const json_t *a = hf_json_field(j, *name), *b = hf_json_field(j, *names);

		if (b && !json_equal(a, b))
			return hf_json_say(j, HF_BAD, "%s%s is %s, but %s, which means the same, is %s", j->path, *name,
					   hf_json_text(a, first, sizeof(first)), *names,
					   hf_json_text(b, other, sizeof(other)));
	}
	return 0;
}

int hf_json_count_by_name(const struct hf_json *j, const char *const names[], int64_t most, int64_t *out)
{
	const char *name;
	int r = hf_json_one_name(j, names, &name);

	return r || !name ? r : hf_json_count(j, name, most, out);
}

bool hf_json_is_there(const struct hf_json *j, const char *const names[])
{
	for (; *names; names++)
		if (json_object_get(j->object, *names))
			return true;
	return false;
}

bool hf_json_inner(struct hf_json *out, const struct hf_json *j, const char *field)
{
	const json_t *inner = hf_json_field(j, field);

	if (!json_is_object(inner))
		return false;
	*out = *j;
	out->object = inner;
	strlcat(out->path, field, sizeof(out->path));
	strlcat(out->path, ".", sizeof(out->path));
	return true;
}
