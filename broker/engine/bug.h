/* SPDX-License-Identifier: Apache-2.0 */
/* bug.h - a broken invariant ends the process with its sentence, in every build */
#ifndef SWAKV_BUG_H
#define SWAKV_BUG_H

_Noreturn void engine_bug(const char *file, int line, const char *what);
/* What a broken invariant calls first, from any thread; @told should not return. */
void engine_on_bug(void (*told)(const char *file, int line, const char *what));

#define MUST(expr)                                                                                                     \
	do {                                                                                                           \
		if (__builtin_expect(!(expr), 0))                                                                      \
			engine_bug(__FILE__, __LINE__, #expr);                                                         \
	} while (0)

#endif
