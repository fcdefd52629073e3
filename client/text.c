/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>

int text_set(struct text *t, int code, const char *format, ...)
{
	va_list args;

	if (!t->p || t->size == 0)
		return code;
	va_start(args, format);
	vsnprintf(t->p, t->size, format, args);
	va_end(args);
	/* A name or path that was given may hold anything, and the sentence goes to a log or a terminal. */
	for (char *c = t->p; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return code;
}
