/* SPDX-License-Identifier: Apache-2.0 */
/* forms.h - the grammar as a table: which words, arguments and keys a statement has */
#ifndef SWAKV_REPLAY_FORMS_H
#define SWAKV_REPLAY_FORMS_H

#include "script.h"

enum key_type {
	TYPE_INT,          /* a number in [min, max], or a word that stands for VALUE_NONE */
	TYPE_LIST,         /* numbers and ranges; words among them stand for VALUE_NONE */
	TYPE_LIST_OR_NONE, /* numbers and ranges, or the word alone for the empty list */
	TYPE_WORD,         /* one of `words`: its index */
	TYPE_WORDS,        /* a list of them */
	TYPE_NAME,
	TYPE_NAMES,   /* a list of them */
	TYPE_RESULTS, /* the same, with an error each: NAME:ERROR */
	TYPE_MODEL,   /* the name of one */
	TYPE_BYTES,   /* a size with an optional suffix K, M, G, T */
};

struct key_form {
	const char *name;
	enum key_type type;
	int64_t min, max;
	const char *const *words; /* NULL-terminated */
};

/* What follows the word, one character each: W a worker, R a request, M a model, L a label, P pages. */
#define FORM_MAX_KEYS 26

struct form {
	const char *words; /* "expect row": the second word is part of the form */
	enum statement_kind kind;
	const char *arguments;
	bool refusable; /* `-> error=NAME` may follow */
	struct {
		enum key key;
		bool required;
	} keys[FORM_MAX_KEYS]; /* up to KEY_NONE */
};

/* How the value of @key is written in a statement of @form. */
const struct key_form *key_form_of(const struct form *form, enum key key);
/* The key named by the first @len characters of @name, KEY_NONE: there is none. */
enum key key_find(const char *name, size_t len);
const char *key_name(enum key key);
/* The word (or two) of a statement. */
const char *form_word(enum statement_kind kind);
/* The form of @word (and, behind `expect`, @second), NULL: unknown. @second may be NULL. */
const struct form *form_find(const char *word, const char *second);

#endif
