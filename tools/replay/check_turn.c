/* SPDX-License-Identifier: Apache-2.0 */
/* check_turn.c - that the requests of a turn exist, each named once, and which of them begin and end with it */
#include <string.h>

#include "check.h"
#include "forms.h"
#include "value.h"

static bool names_hold(const struct value *list, const char *text)
{
	struct named n;

	for (const char *at = list ? list->text : ""; named_next(&at, &n);)
		if (!strcmp(n.name, text))
			return true;
	return false;
}

/* Names of one key of a turn are those of requests, each once. */
static int check_names(struct walk *w, enum key key, enum key numbers)
{
	const struct value *list = statement_value(w->at, key), *each = statement_value(w->at, numbers);
	const char *names = list ? list->text : "";
	size_t count = 0;
	struct named n;

	for (const char *at = names; named_next(&at, &n); count++) {
		struct name *r = name_find(&w->requests, w->at->worker, n.name);

		if (names_hold(&(struct value){ .text = at }, n.name))
			return FAIL(w, "%s=%s names %s twice", key_name(key), names, n.name);
		if (!r)
			return FAIL(w, "no request %s of worker %s was begun above", n.name, w->at->worker);
		if (!w->at->error && key == KEY_FINISH && !names_hold(statement_value(w->at, KEY_REFUSED), n.name))
			r->end_line = w->at->line;
		if (!w->at->error && key == KEY_COMPLETE &&
		    statement_number(w->at, KEY_FENCE, FENCE_DONE) == FENCE_FAIL)
			r->end_line = w->at->line;
	}
	if (each && each->n != count)
		return FAIL(w, "%s has %zu values for %zu requests", key_name(numbers), each->n, count);
	return 0;
}

static int check_begin(struct walk *w)
{
	const struct value *begin = statement_value(w->at, KEY_BEGIN);
	bool refused;
	struct name *r;

	if (!begin != !statement_value(w->at, KEY_SLOTS))
		return FAIL(w, "turn needs %s", begin ? "slots= of the request that begins" : "begin= with slots=");
	if (!begin)
		return 0;
	if (strchr(begin->text, ','))
		return FAIL(w, "begin=%s: one request may begin in a turn", begin->text);
	refused = w->at->error || names_hold(statement_value(w->at, KEY_REFUSED), begin->text);
	r = name_find(&w->requests, w->at->worker, begin->text);
	if (r && refused)
		return 0; /* the name keeps what it means */
	if (r && !r->end_line)
		return FAIL(w, "request %s of worker %s was begun in line %d already", begin->text, w->at->worker,
			    r->line);
	r = name_put(&w->requests, w->at->worker, begin->text, w->at->line);
	if (!r)
		return FAIL(w, "out of memory");
	if (refused)
		r->end_line = w->at->line;
	return 0;
}

int check_turn(struct walk *w)
{
	int r;

	if ((r = check_names(w, KEY_COMPLETE, KEY_ACCEPTED)) || (r = check_names(w, KEY_PREPARE, KEY_TOKENS)) ||
	    (r = check_names(w, KEY_FINISH, KEY_NONE)))
		return r;
	return check_begin(w);
}
