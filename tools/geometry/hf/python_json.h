/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_json.h - JSON as Python's json module writes it
 *
 * That is JSON, but for NaN, Infinity and -Infinity, and whole numbers of any
 * length. The first three become strings of that name, so that a field which
 * holds one is refused with it; a number beyond 64 bits becomes a real one.
 */
#ifndef TOOLS_PYTHON_JSON_H
#define TOOLS_PYTHON_JSON_H

#include <jansson.h>
#include <stddef.h>

/* A new reference, or NULL with the reason in *@e. Keys that are given twice are an error. */
json_t *python_json_load(const char *text, size_t len, json_error_t *e);

#endif
