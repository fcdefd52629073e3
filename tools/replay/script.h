/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.h - a scenario file as typed statements
 *
 * script_parse() knows words, keys and values; script_check() knows what names
 * mean and in which order statements may stand. After both nothing about the
 * file can be wrong any more, so nothing of it runs before.
 */
#ifndef SWAKV_REPLAY_SCRIPT_H
#define SWAKV_REPLAY_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "page_key.h"

enum statement_kind {
	ST_BROKER,
	ST_MODEL,
	ST_ATTACH,
	ST_DETACH,
	ST_KILL,
	ST_STOP,
	ST_CONT,
	ST_BEGIN,
	ST_QUEUE,
	ST_ADMITTED,
	ST_WITHDRAW,
	ST_PREFILL,
	ST_PREFILL_PREPARE,
	ST_PREFILL_COMPLETE,
	ST_DECODE,
	ST_DECODE_PREPARE,
	ST_DECODE_COMPLETE,
	ST_EXTEND,
	ST_EXTEND_PREPARE,
	ST_EXTEND_COMPLETE,
	ST_REWIND,
	ST_RESERVE,
	ST_COMPACT,
	ST_COMPACT_BEGIN,
	ST_COMPACT_COMPLETE,
	ST_TURN,
	ST_SIGNAL,
	ST_FINISH,
	ST_ABANDON,
	ST_TAKE,
	ST_QUEUE_TAKE,
	ST_TAKEN,
	ST_GIVE,
	ST_OFFER,
	ST_SHUTDOWN,
	ST_REMEMBER,
	ST_EXPECT_COUNTS,
	ST_EXPECT_ROW,
	ST_EXPECT_STATE,
	ST_EXPECT_REQUEST,
	ST_EXPECT_PRIVATE_PAGES,
	ST_EXPECT_WAITING,
	ST_EXPECT_LAST_UPDATES,
	ST_EXPECT_TAKEN,
	ST_EXPECT_WANTED,
	ST_EXPECT_TAKEABLE,
	ST_EXPECT_SAME_PAGES,
	ST_EXPECT_DISJOINT,
};

enum key {
	KEY_NONE, /* ends a list of keys */
	KEY_ACCEPTED,
	KEY_ALIGN,
	KEY_AS,
	KEY_BACKEND,
	KEY_BEGIN,
	KEY_BOUND,
	KEY_BYTES,
	KEY_CEILING,
	KEY_CHUNK,
	KEY_COMPLETE,
	KEY_DTYPE,
	KEY_END,
	KEY_ENDPOINT,
	KEY_ENTRIES,
	KEY_EXTRA_BYTES,
	KEY_FENCE,
	KEY_FINISH,
	KEY_FLOOR,
	KEY_FORM,
	KEY_FREE,
	KEY_GROUP,
	KEY_GROUPS,
	KEY_HEAD_DIM,
	KEY_IN_FLIGHT,
	KEY_KV_HEADS,
	KEY_K_BYTES,
	KEY_LAYERS,
	KEY_LEASED,
	KEY_LENS,
	KEY_MAP,
	KEY_MAPPED,
	KEY_MAX_ADVANCE,
	KEY_MAX_BATCH,
	KEY_MAX_REWIND,
	KEY_MAX_SEQ,
	KEY_MAX_TOKENS,
	KEY_MIN,
	KEY_MODEL,
	KEY_NEW,
	KEY_OPEN,
	KEY_ORDER,
	KEY_OVERWRITES,
	KEY_PAGES,
	KEY_PAGE_TOKENS,
	KEY_PENDING,
	KEY_PHASE,
	KEY_PREPARE,
	KEY_QUARANTINED,
	KEY_REFUSED,
	KEY_REQUESTS,
	KEY_RESERVED,
	KEY_ROWS,
	KEY_SEQ,
	KEY_SLOT,
	KEY_SLOTS,
	KEY_STAGED,
	KEY_STEPS,
	KEY_TOKENS,
	KEY_VALID,
	KEY_V_BYTES,
	KEY_WAIT,
	KEY_WINDOW,
	KEY_COUNT
};

/* Values of the keys that take a word. */
enum backend_word { BACKEND_HOST, BACKEND_CUDA, BACKEND_AUTO, BACKEND_WORD_COUNT };
#define BACKEND_WORDS "host", "cuda", "auto"
enum fence_word { FENCE_DONE, FENCE_PENDING, FENCE_FAIL, FENCE_WORD_COUNT };
#define FENCE_WORDS "done", "pending", "fail"
enum rows_word { ROWS_KEEP, ROWS_MOVE, ROWS_WORD_COUNT };
#define ROWS_WORDS "keep", "move"

/* Number that stands for the word `none` (pending=none), `any` and `full`. */
#define VALUE_NONE (-1)

struct value {
	enum key key;
	int64_t number;   /* or the index of the word */
	const char *text; /* as written; of names it is read by named_next() (value.h) */
	bool names;
	size_t n; /* of a list */
	int64_t *list;
};

/* Strings point into the script's own text. */
struct statement {
	enum statement_kind kind;
	int line;
	const char *source;                           /* the statement as written, comment and outer blanks removed */
	const char *worker, *request, *label, *model; /* label: also of pages */
	size_t n_values;
	struct value *values;
	size_t n_extra; /* ST_BROKER: further keys, "NAME=VALUE" */
	const char **extra;
	int error; /* of `-> error=NAME`: enum swakv_code, 0: none */
};

/* Geometry of a model that says nothing of it: small, for most scenarios only look at tables. */
#define SCRIPT_LAYERS      1
#define SCRIPT_KV_HEADS    1
#define SCRIPT_HEAD_DIM    8
#define SCRIPT_PAGE_TOKENS 128

#define SCRIPT_MAX_GROUPS 8

/* One layer group of a model. */
struct script_group {
	bool full;
	int64_t window;                        /* 0 when full */
	int64_t layers, kv_heads, head_dim;    /* no heads where bytes are said */
	int64_t k_bytes, v_bytes, extra_bytes; /* 0, or what a group says in bytes */
	int64_t form, order;                   /* enum wire_form, enum wire_order */
	struct page_key page;                  /* of 0 bytes when the geometry is impossible */
};

struct script_model {
	const char *name;
	const struct statement *statement;
	uint32_t page_tokens; /* P, of all groups */
	size_t n_groups;
	struct script_group groups[SCRIPT_MAX_GROUPS];
};

struct script {
	const char *path; /* for messages; borrowed */
	size_t n_statements;
	struct statement *statements;
	size_t n_models;
	struct script_model *models; /* filled by script_check() */
	size_t n_lines;
	char **lines; /* owned storage of all text, two a line */
};

struct script_error {
	int line;
	char text[512];
};

/* Reads @file to its end. 0, or -EINVAL with *@e filled in; @s is to be freed in any case. */
int script_parse(struct script *s, FILE *file, const char *path, struct script_error *e);
/* Plays on @backend (enum backend_word), whatever the file says. */
void script_use_backend(struct script *s, int backend);
/* Names, order and what is not supported yet. 0 or -EINVAL. */
int script_check(struct script *s, struct script_error *e);
/* Safe to repeat, also after a failed parse. */
void script_free(struct script *s);

/* The value of @key, NULL when it was not given. */
const struct value *statement_value(const struct statement *st, enum key key);
/* Its number, @otherwise when it was not given. */
int64_t statement_number(const struct statement *st, enum key key, int64_t otherwise);
const struct script_model *script_model_find(const struct script *s, const char *name);

/* For the two readers: fills *@e, returns -EINVAL. */
int script_fail(struct script_error *e, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
