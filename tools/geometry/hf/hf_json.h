/* SPDX-License-Identifier: Apache-2.0 */
/* hf_json.h - takes checked fields out of a config.json; a sentence with field and value for what is wrong */
#ifndef TOOLS_HF_JSON_H
#define TOOLS_HF_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One object of the file. */
struct hf_json {
	const json_t *object; /* borrowed */
	const char *name;     /* of the file, for sentences */
	char path[80];        /* of the object in it: "" or "text_config." */
	char *why;
	size_t why_size;
};

/* Writes the sentence "NAME: PATH FIELD is VALUE, EXPECTED". Returns HF_BAD. */
int hf_json_refuse(const struct hf_json *j, const char *field, const json_t *value, const char *expected);
/* Any other sentence about the file. Returns @code. */
__attribute__((format(printf, 3, 4))) int hf_json_say(const struct hf_json *j, int code, const char *format, ...);
/* The value as it would stand in a file, cut to fit; no byte of it can harm a terminal. Returns @buf. */
const char *hf_json_text(const json_t *value, char *buf, size_t size);

/* The field, NULL when it is not there or null. */
const json_t *hf_json_field(const struct hf_json *j, const char *field);
/* True when the field says more than null, false, 0 or nothing. */
bool hf_json_says(const struct hf_json *j, const char *field);

/*
 * 0, or HF_BAD with the sentence. A field that is not there, or null, leaves
 * *@out as it is.
 */
int hf_json_count(const struct hf_json *j, const char *field, int64_t most, int64_t *out); /* 1 to @most */
int hf_json_bool(const struct hf_json *j, const char *field, bool *out);
int hf_json_string(const struct hf_json *j, const char *field, char *out, size_t size);

/*
 * A thing that models call by several names: @names ends with NULL. Returns the
 * first that is there, NULL when none is.
 */
const char *hf_json_name(const struct hf_json *j, const char *const names[]);
/* The same; HF_BAD with the sentence when two of them are there and differ. *@name may become NULL. */
int hf_json_one_name(const struct hf_json *j, const char *const names[], const char **name);
/* As hf_json_count(), by any of its names. */
int hf_json_count_by_name(const struct hf_json *j, const char *const names[], int64_t most, int64_t *out);
/* True when the field is there, as null perhaps: its type's default is not meant then. */
bool hf_json_is_there(const struct hf_json *j, const char *const names[]);

/* Part @field of the object, whose fields are named with it in sentences. False when it is no object. */
bool hf_json_inner(struct hf_json *out, const struct hf_json *j, const char *field);

#endif
