/* SPDX-License-Identifier: Apache-2.0 */
/* value.h - reads the value of one key */
#ifndef SWAKV_REPLAY_VALUE_H
#define SWAKV_REPLAY_VALUE_H

#include "forms.h"

#define NAME_MAX_BYTES 31
#define NAME_RULE      "a name: 1 to 31 of A-Z a-z 0-9 . _ -, not beginning with . or -"
#define MODEL_RULE     "a name: 1 to 127 of A-Z a-z 0-9 . _ - / :, not beginning with . or -"

/* Where it stands, for the error. */
struct value_place {
	struct script_error *error;
	int line;
	const char *name; /* of the key */
};

/* Of a worker, request or label. */
bool name_valid(const char *text);
bool model_valid(const char *text);
/* A size such as 64K. False: it is none, or does not fit. */
bool bytes_read(const char *text, int64_t *out);
/* Fills *@v (its list is malloc'd, also on failure); @text must outlive it. 0 or -EINVAL with the error set. */
int value_read(const struct value_place *p, const struct key_form *form, const char *text, struct value *v);

#endif
