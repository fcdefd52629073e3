/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - a sentence for the caller, in a buffer that the caller may not have given */
#ifndef SWAKV_CLIENT_TEXT_H
#define SWAKV_CLIENT_TEXT_H

#include <stddef.h>

struct text {
	char *p; /* NULL: not wanted */
	size_t size;
};

/* Writes the sentence (cut to the buffer); returns @code. */
int text_set(struct text *t, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
