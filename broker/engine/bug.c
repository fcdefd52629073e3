/* SPDX-License-Identifier: Apache-2.0 */
#include "bug.h"

#include <stdio.h>
#include <stdlib.h>

static void (*on_bug)(const char *file, int line, const char *what);

void engine_on_bug(void (*told)(const char *file, int line, const char *what))
{
	on_bug = told;
}

void engine_bug(const char *file, int line, const char *what)
{
	if (on_bug)
		on_bug(file, line, what);
	fprintf(stderr, "<2>swakv: broken invariant at %s:%d: %s\n", file, line, what);
	abort();
}
