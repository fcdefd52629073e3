/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdlib.h>

#include "json_put.h"

int64_t command_integer(const json_t *command, const char *name)
{
	return json_integer_value(json_object_get(command, name));
}

int32_t *command_list(const json_t *command, const char *name, uint32_t *n)
{
	const json_t *array = json_object_get(command, name);
	int32_t *out;

	*n = (uint32_t)json_array_size(array);
	out = calloc((size_t)*n + 1, sizeof(*out));
	for (uint32_t i = 0; out && i < *n; i++)
		out[i] = (int32_t)json_integer_value(json_array_get(array, i));
	return out;
}

int command_count(json_t *answer, int code)
{
	if (code == 0)
		json_put(answer, "calls", json_integer_value(json_object_get(answer, "calls")) + 1);
	return code;
}
