/* SPDX-License-Identifier: Apache-2.0 */
/* json_put.h - values of the kinds that tools write, into a JSON object */
#ifndef SWAKV_TOOLS_JSON_PUT_H
#define SWAKV_TOOLS_JSON_PUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

static inline void json_put(json_t *to, const char *key, int64_t value)
{
	json_object_set_new(to, key, json_integer(value));
}

/* null when @text is NULL. */
static inline void json_put_text(json_t *to, const char *key, const char *text)
{
	json_object_set_new(to, key, text ? json_string(text) : json_null());
}

static inline void json_put_bool(json_t *to, const char *key, bool value)
{
	json_object_set_new(to, key, json_boolean(value));
}

#endif
