/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - lines into statements, by the table of forms
 *
 * A line is cut in place, so every word is a string inside the script's own
 * copy of the line. Nothing is guessed: what the table does not know is an
 * error with its line.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

#include "forms.h"
#include "script.h"
#include "value.h"

#define BLANKS    " \t\r\v\f"
#define MAX_WORDS 64

struct line {
	struct script *script;
	struct script_error *error;
	int number;
	size_t n_words;
	char *words[MAX_WORDS];
	size_t next; /* word to look at */
};

int script_fail(struct script_error *e, int line, const char *format, ...)
{
	va_list args;

	e->line = line;
	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	/* The sentence quotes the file: what no terminal should get is shown as a dot. */
	for (char *c = e->text; *c; c++)
		if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f)
			*c = '.';
	return -EINVAL;
}

#define FAIL(l, ...) script_fail((l)->error, (l)->number, __VA_ARGS__)

static int out_of_memory(struct line *l)
{
	return FAIL(l, "out of memory");
}

/* ---- words -------------------------------------------------------------- */

static int split(struct line *l, char *text)
{
	char *save = NULL;

	for (char *word = strtok_r(text, BLANKS, &save); word; word = strtok_r(NULL, BLANKS, &save)) {
		if (l->n_words == MAX_WORDS)
			return FAIL(l, "more than %d words", MAX_WORDS);
		l->words[l->n_words++] = word;
	}
	return 0;
}

/* Takes `-> error=NAME` off the end. */
static int take_refusal(struct line *l, const struct form *form, struct statement *st)
{
	const char *value;
	size_t arrow = 0;

	while (arrow < l->n_words && strcmp(l->words[arrow], "->"))
		arrow++;
	if (arrow == l->n_words)
		return 0;
	if (arrow + 2 != l->n_words || strncmp(l->words[arrow + 1], "error=", 6))
		return FAIL(l, "after -> only error=NAME is allowed");
	if (!form->refusable)
		return FAIL(l, "%s cannot be refused: -> is not allowed here", form->words);
	value = l->words[arrow + 1] + 6;
	st->error = error_find(value);
	if (!st->error)
		return FAIL(l,
			    "error=%s: allowed is denied, gone, poisoned, phase, invalid, busy, pending, never, "
			    "nopages, limit",
			    value);
	l->n_words = arrow;
	return 0;
}

/* ---- arguments and keys ---------------------------------------------------- */

static int take_arguments(struct line *l, const struct form *form, struct statement *st)
{
	for (const char *a = form->arguments; *a; a++) {
		const char *what = *a == 'W'   ? "worker"
				   : *a == 'R' ? "request"
				   : *a == 'M' ? "model"
				   : *a == 'P' ? "set of pages"
					       : "label";
		const char *word = l->next < l->n_words ? l->words[l->next++] : NULL;

		if (!word || strchr(word, '='))
			return FAIL(l, "%s needs the name of a %s here", form->words, what);
		if (*a == 'M' ? !model_valid(word) : !name_valid(word))
			return FAIL(l, "\"%s\" is no name of a %s: allowed is %s", word, what,
				    *a == 'M' ? MODEL_RULE : NAME_RULE);
		if (*a == 'W')
			st->worker = word;
		else if (*a == 'R')
			st->request = word;
		else if (*a == 'M')
			st->model = word;
		else
			st->label = word;
	}
	return 0;
}

static bool form_has(const struct form *form, enum key key)
{
	for (size_t i = 0; i < FORM_MAX_KEYS && form->keys[i].key != KEY_NONE; i++)
		if (form->keys[i].key == key)
			return true;
	return false;
}

static int add_value(struct line *l, const struct form *form, struct statement *st, enum key key, const char *text)
{
	struct value_place place = { l->error, l->number, key_name(key) };
	struct value *values;

	if (statement_value(st, key))
		return FAIL(l, "the key %s is given twice", key_name(key));
	values = reallocarray(st->values, st->n_values + 1, sizeof(*values));
	if (!values)
		return out_of_memory(l);
	st->values = values;
	values[st->n_values] = (struct value){ .key = key };
	return value_read(&place, key_form_of(form, key), text, &values[st->n_values++]);
}

/* Further keys of the broker are its own configuration: it knows which there are. */
static int add_extra(struct line *l, struct statement *st, const char *word, size_t len)
{
	const char **extra;

	if (len == 0 || strspn(word, "abcdefghijklmnopqrstuvwxyz_") != len)
		return FAIL(l, "\"%s\": the name of a configuration key has a-z and _ only", word);
	if (word[len + 1] == '\0')
		return FAIL(l, "\"%s\": the value is missing", word);
	for (size_t i = 0; i < st->n_extra; i++)
		if (!strncmp(st->extra[i], word, len + 1))
			return FAIL(l, "the key %.*s is given twice", (int)len, word);
	extra = reallocarray(st->extra, st->n_extra + 1, sizeof(*extra));
	if (!extra)
		return out_of_memory(l);
	st->extra = extra;
	extra[st->n_extra++] = word;
	return 0;
}

static int take_key(struct line *l, const struct form *form, struct statement *st, const char *word)
{
	size_t len = strcspn(word, "=");
	enum key key;

	if (word[len] == '\0')
		return FAIL(l, "\"%s\": a key=value was expected after %s", word, form->words);
	key = key_find(word, len);
	if (key != KEY_NONE && form_has(form, key))
		return add_value(l, form, st, key, word + len + 1);
	if (form->kind == ST_BROKER)
		return add_extra(l, st, word, len);
	return FAIL(l, "%s has no key \"%.*s\"", form->words, (int)len, word);
}

/* expect private_pages WORKER=N */
static int take_worker_pages(struct line *l, const struct form *form, struct statement *st)
{
	char *word = l->next < l->n_words ? l->words[l->next++] : NULL;
	char *equals = word ? strchr(word, '=') : NULL;

	if (!equals)
		return FAIL(l, "%s needs WORKER=N", form->words);
	*equals = '\0';
	if (!name_valid(word))
		return FAIL(l, "\"%s\" is no name of a worker: allowed is %s", word, NAME_RULE);
	st->worker = word;
	return add_value(l, form, st, KEY_PAGES, equals + 1);
}

static int take_keys(struct line *l, const struct form *form, struct statement *st)
{
	int r;

	if (form->kind == ST_EXPECT_PRIVATE_PAGES && (r = take_worker_pages(l, form, st)))
		return r;
	while (l->next < l->n_words)
		if ((r = take_key(l, form, st, l->words[l->next++])))
			return r;
	for (size_t i = 0; i < FORM_MAX_KEYS && form->keys[i].key != KEY_NONE; i++)
		if (form->keys[i].required && !statement_value(st, form->keys[i].key))
			return FAIL(l, "%s needs %s=", form->words, key_name(form->keys[i].key));
	return 0;
}

/* ---- lines ------------------------------------------------------------------- */

static int find_form(struct line *l, const struct form **form)
{
	const char *second = l->n_words > 1 ? l->words[1] : NULL;

	*form = form_find(l->words[0], second);
	if (!*form)
		return FAIL(l, "unknown statement \"%s\"", l->words[0]);
	l->next = strchr((*form)->words, ' ') ? 2 : 1;
	if ((*form)->kind == ST_EXPECT_COUNTS && second && !strchr(second, '='))
		return FAIL(l, "unknown word \"%s\" after expect", second);
	return 0;
}

static int parse_statement(struct line *l, char *text, const char *source)
{
	struct script *s = l->script;
	const struct form *form;
	struct statement *st;
	int r = split(l, text);

	if (r || l->n_words == 0)
		return r;
	if ((r = find_form(l, &form)))
		return r;
	st = reallocarray(s->statements, s->n_statements + 1, sizeof(*st));
	if (!st)
		return out_of_memory(l);
	s->statements = st;
	st += s->n_statements++;
	*st = (struct statement){ .kind = form->kind, .line = l->number, .source = source };
	if ((r = take_refusal(l, form, st)) || (r = take_arguments(l, form, st)))
		return r;
	return take_keys(l, form, st);
}

/* Comment and outer blanks removed, in place. */
static char *trim(char *text)
{
	size_t len;

	text[strcspn(text, "#\n")] = '\0';
	text += strspn(text, BLANKS);
	for (len = strlen(text); len > 0 && strchr(BLANKS, text[len - 1]); len--)
		text[len - 1] = '\0';
	return text;
}

static char *keep(struct script *s, const char *text)
{
	char **lines = reallocarray(s->lines, s->n_lines + 1, sizeof(*lines));

	if (!lines)
		return NULL;
	s->lines = lines;
	lines[s->n_lines] = strdup(text);
	return lines[s->n_lines] ? lines[s->n_lines++] : NULL;
}

static int parse_line(struct script *s, struct script_error *e, int number, char *text, size_t len)
{
	struct line l = { .script = s, .error = e, .number = number };
	char *source, *words;

	if (strlen(text) != len)
		return FAIL(&l, "a NUL byte: this is not text");
	text = trim(text);
	if (!*text)
		return 0;
	source = keep(s, text);
	words = source ? keep(s, text) : NULL;
	if (!words)
		return out_of_memory(&l);
	return parse_statement(&l, words, source);
}

int script_parse(struct script *s, FILE *file, const char *path, struct script_error *e)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	int number = 0, r = 0;

	*s = (struct script){ .path = path };
	while (r == 0 && (len = getline(&text, &size, file)) >= 0)
		r = parse_line(s, e, ++number, text, (size_t)len);
	if (r == 0 && ferror(file))
		r = script_fail(e, number + 1, "reading failed: %s", strerror(errno));
	free(text);
	return r;
}

void script_free(struct script *s)
{
	for (size_t i = 0; i < s->n_statements; i++) {
		for (size_t j = 0; j < s->statements[i].n_values; j++)
			free(s->statements[i].values[j].list);
		free(s->statements[i].values);
		free(s->statements[i].extra);
	}
	for (size_t i = 0; i < s->n_lines; i++)
		free(s->lines[i]);
	free(s->statements);
	free(s->models);
	free(s->lines);
	*s = (struct script){ 0 };
}

const struct value *statement_value(const struct statement *st, enum key key)
{
	for (size_t i = 0; i < st->n_values; i++)
		if (st->values[i].key == key)
			return &st->values[i];
	return NULL;
}

int64_t statement_number(const struct statement *st, enum key key, int64_t otherwise)
{
	const struct value *v = statement_value(st, key);

	return v ? v->number : otherwise;
}

void script_use_backend(struct script *s, int backend)
{
	struct statement *st = s->n_statements ? &s->statements[0] : NULL;

	/* What is no broker statement is for script_check() to tell. */
	for (size_t i = 0; st && st->kind == ST_BROKER && i < st->n_values; i++)
		if (st->values[i].key == KEY_BACKEND)
			st->values[i].number = backend;
}
