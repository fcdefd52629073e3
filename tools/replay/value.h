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
/* An error by its name, among those that the protocol gives; 0: none. */
int error_find(const char *name);
/* What stands in a list of names, with an error where the list has results. */
struct named {
	char name[NAME_MAX_BYTES + 1];
	int error; /* 0: none is said */
};
/* Takes the first off the list at *@at. False: there is none, and if **@at is not its end, that is no name. */
bool named_next(const char **at, struct named *out);
/* A size such as 64K. False: it is none, or does not fit. */
bool bytes_read(const char *text, int64_t *out);
/* Fills *@v (its list is malloc'd, also on failure); @text must outlive it. 0 or -EINVAL with the error set. */
int value_read(const struct value_place *p, const struct key_form *form, const char *text, struct value *v);

#endif
