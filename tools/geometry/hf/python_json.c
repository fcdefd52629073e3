/* SPDX-License-Identifier: Apache-2.0 */
#include "python_json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_OF_64_BITS 18 /* any number with so many fits */

struct rewriter {
	const char *at, *end;
	char *out; /* room for twice the text: nothing grows by more than 2 bytes in 3 */
};

static void copy(struct rewriter *w, size_t n)
{
	memcpy(w->out, w->at, n);
	w->at += n;
	w->out += n;
}

static bool word(const struct rewriter *w, const char *text)
{
	size_t n = strlen(text);

	return (size_t)(w->end - w->at) >= n && memcmp(w->at, text, n) == 0;
}

static void quote(struct rewriter *w, const char *text)
{
	*w->out++ = '"';
	copy(w, strlen(text));
	*w->out++ = '"';
}

static void copy_string(struct rewriter *w)
{
	const char *p = w->at + 1;

	while (p < w->end && *p != '"')
		p += *p == '\\' && p + 1 < w->end ? 2 : 1;
	copy(w, (size_t)(p - w->at) + (p < w->end));
}

/* Digits, a point and an exponent; a long whole number gets an exponent to be a real one. */
static void copy_number(struct rewriter *w)
{
	const char *p = w->at;
	bool whole = true;

	for (; p < w->end && *p && strchr("0123456789.eE+-", *p); p++)
		whole = whole && *p >= '0' && *p <= '9';
	whole = whole && p - w->at > DIGITS_OF_64_BITS;
	copy(w, (size_t)(p - w->at));
	if (whole) {
		memcpy(w->out, "e0", 2);
		w->out += 2;
	}
}

static void rewrite(struct rewriter *w)
{
	static const char *const words[] = { "NaN", "-Infinity", "Infinity" };

	while (w->at < w->end) {
		const char *found = NULL;

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !found; i++)
			if (word(w, words[i]))
				found = words[i];
		if (found)
			quote(w, found);
		else if (*w->at == '"')
			copy_string(w);
		else if (*w->at >= '0' && *w->at <= '9')
			copy_number(w);
		else
			copy(w, 1);
	}
}

json_t *python_json_load(const char *text, size_t len, json_error_t *e)
{
	char *copied = malloc(2 * len + 1);
	struct rewriter w = { text, text + len, copied };
	json_t *loaded;

	if (!copied)
		return json_loadb(text, len, JSON_REJECT_DUPLICATES, e);
	rewrite(&w);
	loaded = json_loadb(copied, (size_t)(w.out - copied), JSON_REJECT_DUPLICATES, e);
	free(copied);
	return loaded;
}
