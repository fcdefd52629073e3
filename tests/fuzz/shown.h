/* SPDX-License-Identifier: Apache-2.0 */
/* shown.h - what a tool has shown is text, whatever it was given */
#ifndef SWAKV_FUZZ_SHOWN_H
#define SWAKV_FUZZ_SHOWN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "input.h"

/* The @size bytes of @text are printable; with @json they parse. */
static inline void shown_check(const char *text, size_t size, bool json)
{
	for (size_t i = 0; i < size; i++)
		FUZZ_CHECK(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
	if (json) {
		json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

		FUZZ_CHECK(root);
		json_decref(root);
	}
}

#endif
