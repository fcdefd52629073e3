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
	return code;
}
