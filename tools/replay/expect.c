/* SPDX-License-Identifier: Apache-2.0 */
/* expect.c - the expect statements: ask, write down the same keys, compare */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

#include "forms.h"
#include "json_put.h"
#include "lifecycle.h"
#include "names.h"
#include "run.h"

/* Two lists of "key=value", expected and got, of the keys that the statement has. */
struct comparison {
	struct run *run;
	bool differs;
	char expected[256], got[256];
};

static void append(char text[256], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char text[256], const char *format, ...)
{
	size_t len = strlen(text);
	va_list args;

	if (len > 0 && len < 255)
		text[len++] = ' ';
	va_start(args, format);
	vsnprintf(text + len, 256 - len, format, args);
	va_end(args);
}

static void number_text(int64_t n, char buf[24])
{
	if (n == VALUE_NONE)
		snprintf(buf, 24, "none");
	else
		snprintf(buf, 24, "%" PRId64, n);
}

static void compare(struct comparison *c, enum key key, int64_t got)
{
	const struct value *v = statement_value(c->run->at, key);
	char want_text[24], got_text[24];

	if (!v)
		return;
	number_text(v->number, want_text);
	number_text(got, got_text);
	append(c->expected, "%s=%s", key_name(key), want_text);
	append(c->got, "%s=%s", key_name(key), got_text);
	c->differs |= v->number != got;
}

/* For keys whose value is a word: @words in the order of their numbers. */
static void compare_word(struct comparison *c, enum key key, const char *const *words, int64_t got, bool equal)
{
	const struct value *v = statement_value(c->run->at, key);

	if (!v)
		return;
	append(c->expected, "%s=%s", key_name(key), v->text);
	append(c->got, "%s=%s", key_name(key), words[got]);
	c->differs |= !equal;
}

static int compared(const struct comparison *c)
{
	return c->differs ? run_difference(c->run, c->expected, "%s", c->got) : 0;
}

/* Asks the worker of the statement. A refusal is a difference: something was there to see. */
static int ask(struct run *r, const char *op, json_t **answer)
{
	const struct value *seq = statement_value(r->at, KEY_SEQ), *slot = statement_value(r->at, KEY_SLOT);
	const struct value *pages = statement_value(r->at, KEY_PAGES);
	json_t *command = json_pack("{s:s, s:I}", "op", op, "group", (json_int_t)statement_number(r->at, KEY_GROUP, 0));
	int code;

	if (r->at->request)
		json_put_text(command, "request", r->at->request);
	if (r->at->label)
		json_put_text(command, "name", r->at->label);
	if (pages)
		json_put(command, "pages", pages->number);
	if (seq)
		json_put(command, "seq", seq->number);
	if (slot)
		json_put(command, "slot", slot->number);
	if (run_ask(r, run_player(r, r->at->worker), command, answer))
		return -1;
	code = (int)json_integer_value(json_object_get(*answer, "code"));
	if (code == 0)
		return 0;
	return run_difference(r, r->at->source, "error=%s (%s)", swakv_error_name(code),
			      json_string_value(json_object_get(*answer, "error")));
}

static int64_t field(const json_t *answer, const char *name)
{
	return json_integer_value(json_object_get(answer, name));
}

/* ---- counts ------------------------------------------------------------------------- */

static int expect_counts(struct run *r)
{
	const struct value *name = statement_value(r->at, KEY_MODEL);
	const struct script_model *m = name ? script_model_find(r->script, name->text) : &r->script->models[0];
	struct page_key page = m->groups[statement_number(r->at, KEY_GROUP, 0)].page;
	struct comparison c = { .run = r };
	const struct status_class *class;
	struct status_class none = { 0 };

	if (run_fresh_status(r))
		return -1;
	class = broker_class(&r->broker, page);
	if (!class) { /* nobody has attached such a model: all that is unassigned would serve it */
		none.available = page.bytes ? (int64_t)(r->broker.snapshot->pool_free / page_key_whole(page)) : 0;
		class = &none;
	}
	compare(&c, KEY_FREE, class->available);
	compare(&c, KEY_LEASED, class->leased);
	compare(&c, KEY_QUARANTINED, class->quarantined);
	return compared(&c);
}

/* ---- rows ---------------------------------------------------------------------------- */

/* Appends "2,3,7..9" to @text. */
static void append_columns(char *text, size_t size, const int64_t *columns, size_t n)
{
	size_t len = strlen(text);

	if (n == 0)
		snprintf(text + len, size - len, "none");
	for (size_t i = 0, j; i < n && len < size; i = j) {
		for (j = i + 1; j < n && columns[j] == columns[j - 1] + 1;)
			j++;
		len += (size_t)snprintf(text + len, size - len, "%s%" PRId64, i ? "," : "", columns[i]);
		if (j > i + 1 && len < size)
			len += (size_t)snprintf(text + len, size - len, "%s%" PRId64, j > i + 2 ? ".." : ",",
						columns[j - 1]);
	}
}

static int by_number(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_row(struct run *r, const json_t *mapped)
{
	const struct value *v = statement_value(r->at, KEY_MAPPED);
	size_t n = json_array_size(mapped);
	int64_t *want = calloc(v->n + 1, sizeof(*want)), *got = calloc(n + 1, sizeof(*got));
	char want_text[512] = "mapped=", got_text[512] = "mapped=";
	int e = 0;

	if (!want || !got) {
		free(want);
		free(got);
		return run_broken(r, "out of memory");
	}
	if (v->n > 0)
		memcpy(want, v->list, v->n * sizeof(*want));
	qsort(want, v->n, sizeof(*want), by_number);
	for (size_t i = 0; i < n; i++)
		got[i] = json_integer_value(json_array_get(json_array_get(mapped, i), 0));
	if (n != v->n || memcmp(want, got, n * sizeof(*want))) {
		append_columns(want_text, sizeof(want_text), want, v->n);
		append_columns(got_text, sizeof(got_text), got, n);
		e = run_difference(r, want_text, "%s", got_text);
	}
	free(want);
	free(got);
	return e;
}

/* The row of the statement's slot, checked on its own. */
static int ask_row(struct run *r, json_t **answer)
{
	const char *fault;

	if (ask(r, "row", answer))
		return -1;
	fault = json_string_value(json_object_get(*answer, "fault"));
	return fault ? run_difference(r, "device and host table equal, and V = K + num_pages", "%s", fault) : 0;
}

static int expect_row(struct run *r)
{
	json_t *answer = NULL;
	int e = ask_row(r, &answer);

	if (e == 0)
		e = compare_row(r, json_object_get(answer, "mapped"));
	json_decref(answer);
	return e;
}

int expect_remember(struct run *r)
{
	struct label *labels = reallocarray(r->labels, r->n_labels + 1, sizeof(*labels));
	json_t *answer = NULL;
	int e;

	if (!labels)
		return run_broken(r, "out of memory");
	r->labels = labels;
	e = ask_row(r, &answer);
	if (e == 0)
		labels[r->n_labels++] = (struct label){ r->at->label, json_incref(json_object_get(answer, "mapped")) };
	json_decref(answer);
	return e;
}

/* What was remembered last under that name. */
static const json_t *recall(const struct run *r, const char *name)
{
	for (size_t i = r->n_labels; i-- > 0;)
		if (!strcmp(r->labels[i].name, name))
			return r->labels[i].mapped;
	return NULL;
}

/* "23=5 24=6", logical page and id. */
static void row_text(const json_t *mapped, char *text, size_t size)
{
	size_t i, len = 0;
	json_t *entry;

	snprintf(text, size, "none");
	json_array_foreach(mapped, i, entry) if (len < size) len +=
		(size_t)snprintf(text + len, size - len, "%s%lld=%lld", i ? " " : "",
				 (long long)json_integer_value(json_array_get(entry, 0)),
				 (long long)json_integer_value(json_array_get(entry, 1)));
}

static int expect_same_pages(struct run *r)
{
	const json_t *was = recall(r, statement_value(r->at, KEY_AS)->text);
	char want[512], got[512];
	json_t *answer = NULL;
	int e = ask_row(r, &answer);

	if (e == 0 && !json_equal(was, json_object_get(answer, "mapped"))) {
		row_text(was, want, sizeof(want));
		row_text(json_object_get(answer, "mapped"), got, sizeof(got));
		e = run_difference(r, want, "%s", got);
	}
	json_decref(answer);
	return e;
}

/* ---- states --------------------------------------------------------------------------- */

static int expect_state(struct run *r)
{
	struct comparison c = { .run = r };
	json_t *answer = NULL;
	int e = ask(r, "state", &answer);

	if (e == 0) {
		compare(&c, KEY_ENDPOINT, field(answer, "endpoint"));
		compare(&c, KEY_BEGIN, field(answer, "begin"));
		compare(&c, KEY_END, field(answer, "end"));
		compare(&c, KEY_BOUND, field(answer, "bound"));
		compare(&c, KEY_RESERVED, field(answer, "reserved"));
		compare(&c, KEY_STAGED, field(answer, "staged"));
		compare(&c, KEY_PENDING, field(answer, "pending"));
		compare(&c, KEY_SLOT, field(answer, "slot"));
		e = compared(&c);
	}
	json_decref(answer);
	return e;
}

static int expect_request(struct run *r)
{
	NAMES(phases, PHASE_COUNT, PHASE_NAMES);
	static const char *const yes[] = { "no", "yes" };
	int64_t want = statement_number(r->at, KEY_PHASE, 0), phase, pending, valid;
	struct comparison c = { .run = r };
	json_t *answer = NULL;
	int e = ask(r, "request", &answer);

	if (e == 0) {
		phase = field(answer, "phase") & 3;
		pending = json_is_true(json_object_get(answer, "pending"));
		valid = json_is_true(json_object_get(answer, "valid"));
		/* Finishing is the last phase there is: a request that has ended has not left it. */
		compare_word(&c, KEY_PHASE, phases, phase,
			     want == phase || (want == PHASE_FINISHING && phase == PHASE_NONE));
		compare_word(&c, KEY_PENDING, yes, pending, statement_number(r->at, KEY_PENDING, 0) == pending);
		compare_word(&c, KEY_VALID, yes, valid, statement_number(r->at, KEY_VALID, 0) == valid);
		compare(&c, KEY_OPEN, field(answer, "open"));
		e = compared(&c);
	}
	json_decref(answer);
	return e;
}

/* One number that the worker answers under the name of the key. */
static int expect_number(struct run *r, const char *op, enum key key)
{
	struct comparison c = { .run = r };
	json_t *answer = NULL;
	int e = ask(r, op, &answer);

	if (e == 0) {
		compare(&c, key, field(answer, key_name(key)));
		e = compared(&c);
	}
	json_decref(answer);
	return e;
}

static int expect_waiting(struct run *r)
{
	const struct player *p = run_player(r, r->at->worker);
	struct comparison c = { .run = r };
	const struct status_session *s;

	if (run_fresh_status(r))
		return -1;
	s = broker_session(&r->broker, p->session, p->generation);
	compare(&c, KEY_REQUESTS, s ? s->waiting : 0);
	return compared(&c);
}

int expect_run(struct run *r)
{
	switch (r->at->kind) {
	case ST_EXPECT_COUNTS:
		return expect_counts(r);
	case ST_EXPECT_ROW:
		return expect_row(r);
	case ST_EXPECT_STATE:
		return expect_state(r);
	case ST_EXPECT_REQUEST:
		return expect_request(r);
	case ST_EXPECT_PRIVATE_PAGES:
		return expect_number(r, "private_pages", KEY_PAGES);
	case ST_EXPECT_WAITING:
		return expect_waiting(r);
	case ST_EXPECT_LAST_UPDATES:
		return expect_number(r, "last_updates", KEY_ENTRIES);
	case ST_EXPECT_TAKEN:
		return expect_number(r, "has", KEY_PAGES);
	case ST_EXPECT_WANTED:
		return expect_number(r, "wanted", KEY_PAGES);
	case ST_EXPECT_TAKEABLE:
		return expect_number(r, "takeable", KEY_PAGES);
	case ST_EXPECT_SAME_PAGES:
		return expect_same_pages(r);
	default:
		return expect_disjoint(r);
	}
}
