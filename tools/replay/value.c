/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - what stands behind the `=`: numbers, lists with ranges, words, names, sizes */
#include "value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

#include "size.h"
#include "wire.h"

/* Longest list: more than a batch can have, and few enough that `0..2000000000` is told to be a mistake. */
#define MAX_LIST 65536

/* Reads a decimal number at @text; *@end is behind it. False when there is none, or it does not fit 64 bits. */
static bool read_number(const char *text, const char **end, int64_t *out)
{
	char *stop;
	long long n;

	if (!isdigit((unsigned char)text[0]) && !(text[0] == '-' && isdigit((unsigned char)text[1])))
		return false;
	errno = 0;
	n = strtoll(text, &stop, 10);
	*end = stop;
	*out = n;
	return errno == 0;
}

static int find_word(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	return -1;
}

static void list_words(const char *const *words, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (int i = 0; words[i] && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? ", " : "", words[i]);
}

static int fail(const struct value_place *p, const char *text, const char *allowed)
{
	return script_fail(p->error, p->line, "%s=%s: allowed is %s", p->name, text, allowed);
}

static int range_fail(const struct value_place *p, const struct key_form *form, const char *text)
{
	char words[64], allowed[160];

	list_words(form->words, words, sizeof(words));
	snprintf(allowed, sizeof(allowed), "%s from %" PRId64 " to %" PRId64 "%s%s",
		 form->type != TYPE_INT ? "a list (1,2,5..7) of numbers" : "a number", form->min, form->max,
		 words[0] ? ", or " : "", words);
	return fail(p, text, allowed);
}

static bool list_add(struct value *v, size_t *capacity, int64_t n)
{
	if (v->n == *capacity) {
		size_t more = *capacity ? 2 * *capacity : 8;
		int64_t *list = reallocarray(v->list, more, sizeof(*list));

		if (!list)
			return false;
		v->list = list;
		*capacity = more;
	}
	v->list[v->n++] = n;
	return true;
}

/* One element at *@at: a word, a number or a range. False: it is none of them. */
static bool read_element(const struct key_form *form, const char **at, struct value *v, size_t *capacity)
{
	size_t len = strcspn(*at, ",");
	int64_t first, last;

	for (int i = 0; form->type == TYPE_LIST && form->words[i]; i++) {
		if (strlen(form->words[i]) == len && !memcmp(form->words[i], *at, len)) {
			*at += len;
			return list_add(v, capacity, VALUE_NONE);
		}
	}
	if (!read_number(*at, at, &first) || first < form->min || first > form->max)
		return false;
	last = first;
	if (!strncmp(*at, "..", 2) && (!read_number(*at + 2, at, &last) || last < first || last > form->max))
		return false;
	if (last - first >= MAX_LIST || v->n + (size_t)(last - first) >= MAX_LIST)
		return false;
	for (int64_t n = first; n <= last; n++)
		if (!list_add(v, capacity, n))
			return false;
	return true;
}

static int read_list(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	const char *at = text;
	size_t capacity = 0;

	if (form->type == TYPE_LIST_OR_NONE && !strcmp(text, form->words[0]))
		return 0;
	for (;;) {
		if (!read_element(form, &at, v, &capacity))
			return range_fail(p, form, text);
		if (*at == '\0')
			return 0;
		if (*at++ != ',')
			return range_fail(p, form, text);
	}
}

static int read_int(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	const char *end;

	v->number = VALUE_NONE;
	if (find_word(form->words, text) >= 0)
		return 0;
	if (!read_number(text, &end, &v->number) || *end || v->number < form->min || v->number > form->max)
		return range_fail(p, form, text);
	return 0;
}

static int read_word(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	char words[96];

	v->number = find_word(form->words, text);
	if (v->number >= 0)
		return 0;
	list_words(form->words, words, sizeof(words));
	return fail(p, text, words);
}

static int read_words(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	size_t capacity = 0, len;
	char words[96];

	for (const char *at = text;; at += len + 1) {
		int word = 0;

		len = strcspn(at, ",");
		while (form->words[word] && (strlen(form->words[word]) != len || memcmp(form->words[word], at, len)))
			word++;
		if (!form->words[word] || v->n == MAX_LIST || !list_add(v, &capacity, word))
			break;
		if (at[len] == '\0')
			return 0;
	}
	list_words(form->words, words, sizeof(words));
	return fail(p, text, words);
}

bool bytes_read(const char *text, int64_t *out)
{
	uint64_t n;

	if (!size_read(text, &n))
		return false;
	*out = (int64_t)n;
	return true;
}

#define NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

static bool consists_of(const char *text, const char *bytes, size_t most)
{
	size_t len = strspn(text, bytes);

	return len > 0 && len <= most && text[len] == '\0' && text[0] != '-' && text[0] != '.';
}

bool name_valid(const char *text)
{
	return consists_of(text, NAME_BYTES, NAME_MAX_BYTES);
}

bool model_valid(const char *text)
{
	return consists_of(text, NAME_BYTES "/:", WIRE_MODEL_NAME - 1);
}

int error_find(const char *name)
{
	for (int code = SWAKV_EDENIED; code >= SWAKV_ELIMIT; code--)
		if (!strcmp(swakv_error_name(code), name))
			return code;
	return 0;
}

bool named_next(const char **at, struct named *out)
{
	size_t len = strcspn(*at, ","), name_len = strcspn(*at, ":,");
	char error[16] = "";

	*out = (struct named){ 0 };
	if (name_len == 0 || name_len > NAME_MAX_BYTES || len - name_len > sizeof(error))
		return false;
	memcpy(out->name, *at, name_len);
	if (len > name_len) {
		memcpy(error, *at + name_len + 1, len - name_len - 1);
		out->error = error_find(error);
	}
	if (!name_valid(out->name) || (len > name_len && out->error == 0) || !strcmp(*at + len, ","))
		return false;
	*at += len + ((*at)[len] == ',');
	return true;
}

static int read_names(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	const char *at = text;
	struct named n;

	v->names = true;
	while (named_next(&at, &n) && (form->type == TYPE_RESULTS) == (n.error != 0))
		if (*at == '\0')
			return 0;
	return fail(p, text,
		    form->type == TYPE_RESULTS ? "a list (a:phase,b:limit) of names, each with an error"
					       : "a list (a,b) of names");
}

int value_read(const struct value_place *p, const struct key_form *form, const char *text, struct value *v)
{
	v->text = text;
	switch (form->type) {
	case TYPE_INT:
		return read_int(p, form, text, v);
	case TYPE_LIST:
	case TYPE_LIST_OR_NONE:
		return read_list(p, form, text, v);
	case TYPE_WORD:
		return read_word(p, form, text, v);
	case TYPE_WORDS:
		return read_words(p, form, text, v);
	case TYPE_NAMES:
	case TYPE_RESULTS:
		return read_names(p, form, text, v);
	case TYPE_BYTES:
		return bytes_read(text, &v->number) ? 0 : fail(p, text, SIZE_RULE);
	case TYPE_MODEL:
		return model_valid(text) ? 0 : fail(p, text, MODEL_RULE);
	default:
		return name_valid(text) ? 0 : fail(p, text, NAME_RULE);
	}
}
