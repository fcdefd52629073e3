/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - see run.h
 *
 * Commands go one by one: the next is sent when the last has been answered, so
 * a file always plays in the same way.
 */
#include "run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <swakv/error.h>

#include "forms.h"
#include "interrupt.h"
#include "json_put.h"
#include "message.h"
#include "value.h"

/* How long anything may take before the tool gives up on it. */
#define PATIENCE_MS 120000

/* ---- outcome --------------------------------------------------------------------- */

void outcome_clear(struct outcome *o)
{
	free(o->expected);
	free(o->got);
	free(o->message);
	*o = (struct outcome){ 0 };
}

static char *format_text(const char *format, va_list args)
{
	char *text;

	return vasprintf(&text, format, args) < 0 ? NULL : text;
}

/* The first thing that goes wrong is the one told. */
int run_difference(struct run *r, const char *expected, const char *format, ...)
{
	va_list args;

	if (r->outcome->result != RUN_OK)
		return -1;
	r->outcome->result = RUN_DIFFERENCE;
	r->outcome->line = r->at->line;
	r->outcome->expected = strdup(expected);
	va_start(args, format);
	r->outcome->got = format_text(format, args);
	va_end(args);
	return -1;
}

int run_broken(struct run *r, const char *format, ...)
{
	va_list args;

	if (r->outcome->result != RUN_OK)
		return -1;
	r->outcome->result = RUN_BROKEN;
	r->outcome->line = r->at ? r->at->line : 0;
	va_start(args, format);
	r->outcome->message = format_text(format, args);
	va_end(args);
	return -1;
}

/* ---- workers ---------------------------------------------------------------------- */

struct player *run_player(struct run *r, const char *name)
{
	for (size_t i = 0; i < r->n_players; i++)
		if (!strcmp(r->players[i].name, name))
			return &r->players[i];
	return NULL;
}

static void trace(struct run *r, const struct player *p, const char *arrow, const json_t *message)
{
	char *text;

	if (!r->options->trace)
		return;
	text = json_dumps(message, JSON_COMPACT | JSON_PRESERVE_ORDER);
	fprintf(r->options->out, "  %s %s %s\n", arrow, p->name, text ? text : "?");
	fflush(r->options->out);
	free(text);
}

int run_ask(struct run *r, struct player *p, json_t *command, json_t **answer)
{
	int e;

	*answer = NULL;
	trace(r, p, ">", command);
	e = message_send(p->fd, command);
	json_decref(command);
	if (e == 0)
		e = message_receive(p->fd, PATIENCE_MS, answer);
	if (interrupt_signal())
		e = -EINTR;
	if (e == -EINTR) {
		json_decref(*answer);
		*answer = NULL;
		return run_broken(r, "interrupted by signal %d", interrupt_signal());
	}
	if (e)
		return run_difference(r, "an answer", "worker %s: %s", p->name,
				      e == -EPIPE ? "its process has ended" : strerror(-e));
	trace(r, p, "<", *answer);
	if (json_object_get(*answer, "commands"))
		p->commands = (uint64_t)json_integer_value(json_object_get(*answer, "commands"));
	return 0;
}

/* ---- status ------------------------------------------------------------------------- */

static bool status_is_fresh(const struct run *r)
{
	for (size_t i = 0; i < r->n_players; i++) {
		const struct player *p = &r->players[i];
		const struct status_session *s;

		if (p->pid == 0)
			continue;
		s = broker_session(&r->broker, p->session, p->generation);
		if (!s || s->commands < p->commands)
			return false;
	}
	return true;
}

int run_fresh_status(struct run *r)
{
	const struct timespec tick = { 0, 500000 };

	for (int i = 0; i < PATIENCE_MS * 2; i++) {
		int e = broker_read_status(&r->broker);

		if (interrupt_signal())
			return run_broken(r, "interrupted by signal %d", interrupt_signal());
		if (e && e != -EAGAIN)
			return run_broken(r, "the broker's status page cannot be read: %s", strerror(-e));
		if (e == 0 && status_is_fresh(r))
			return 0;
		if (!status_reader_alive(&r->broker.status))
			return run_difference(r, "the broker to live", "it has ended");
		nanosleep(&tick, NULL);
	}
	return run_difference(r, "the broker to publish its state", "an old status page");
}

/* ---- commands ------------------------------------------------------------------------ */

static json_t *json_of(const struct value *v)
{
	struct named name;
	json_t *list;

	if (!v->list && !v->names)
		return json_integer(v->number);
	list = json_array();
	for (const char *at = v->names ? v->text : ""; named_next(&at, &name);)
		json_array_append_new(list, json_string(name.name));
	for (size_t i = 0; v->list && i < v->n; i++)
		json_array_append_new(list, json_integer(v->list[i]));
	return list;
}

/* The statement as a command: its word, its request and its keys. */
static json_t *command_of(const struct statement *st, const char *op)
{
	json_t *command = json_object();

	json_put_text(command, "op", op);
	if (st->request)
		json_put_text(command, "request", st->request);
	if (st->label)
		json_put_text(command, "name", st->label);
	if (st->kind == ST_DECODE)
		json_put(command, "steps", 1);
	for (size_t i = 0; i < st->n_values; i++)
		json_object_set_new(command, key_name(st->values[i].key), json_of(&st->values[i]));
	return command;
}

static json_t *group_of(const struct script_model *m, const struct script_group *g)
{
	json_t *group = json_object();

	json_put_bool(group, "full", g->full);
	json_put(group, "window", g->window);
	json_put(group, "page_tokens", m->page_tokens);
	json_put(group, "layers", g->layers);
	json_put(group, "kv_heads", g->kv_heads);
	json_put(group, "head_dim", g->head_dim);
	/* The library counts its dtypes from 1. */
	json_put(group, "dtype", g->k_bytes ? 0 : statement_number(m->statement, KEY_DTYPE, 0) + 1);
	json_put(group, "k_bytes", g->k_bytes);
	json_put(group, "v_bytes", g->v_bytes);
	json_put(group, "extra_bytes", g->extra_bytes);
	json_put(group, "align", statement_number(m->statement, KEY_ALIGN, 0));
	json_put(group, "form", g->form);
	json_put(group, "order", g->order);
	return group;
}

static json_t *attach_command(const struct run *r, const struct script_model *m)
{
	static const enum key numbers[] = { KEY_MAX_BATCH, KEY_MAX_SEQ, KEY_IN_FLIGHT, KEY_MAX_REWIND, KEY_CHUNK };
	int64_t max_advance = statement_number(m->statement, KEY_MAX_ADVANCE, VALUE_NONE);
	json_t *command = json_object(), *groups = json_array();

	json_put_text(command, "op", "attach");
	json_put_text(command, "socket", r->broker.process.socket);
	json_put_text(command, "model", m->name);
	for (size_t i = 0; i < m->n_groups; i++)
		json_array_append_new(groups, group_of(m, &m->groups[i]));
	json_object_set_new(command, "groups", groups);
	json_put(command, "max_advance", max_advance == VALUE_NONE ? 0 : max_advance);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_put(command, key_name(numbers[i]), statement_number(m->statement, numbers[i], 0));
	return command;
}

/* "ok", or the error's name with the sentence. */
static int answer_difference(struct run *r, const char *expected, int code, const char *sentence)
{
	if (code == 0)
		return run_difference(r, expected, "ok");
	return run_difference(r, expected, "error=%s (%s)", swakv_error_name(code), sentence ? sentence : "");
}

static bool fails_on_purpose(const struct statement *st, const json_t *answer)
{
	return statement_number(st, KEY_FENCE, FENCE_DONE) == FENCE_FAIL &&
	       json_is_true(json_object_get(answer, "lost"));
}

/* Of a turn: what was refused is what the statement names, by as many names. */
static int check_refused(struct run *r, const json_t *answer)
{
	const struct value *said = statement_value(r->at, KEY_REFUSED);
	const char *names = said ? said->text : "";
	json_t *refused = json_object_get(answer, "refused"), *code;
	char got[256] = "", expected[256];
	size_t n = 0, len = 0;
	bool same = true;
	struct named name;
	const char *key;

	for (const char *at = names; named_next(&at, &name); n++)
		same &= json_integer_value(json_object_get(refused, name.name)) == name.error;
	if (same && n == json_object_size(refused))
		return 0;
	json_object_foreach(refused, key, code) if (len < sizeof(got)) len +=
		(size_t)snprintf(got + len, sizeof(got) - len, "%s%s:%s", len ? "," : "", key,
				 swakv_error_name((int)json_integer_value(code)));
	snprintf(expected, sizeof(expected), "%s%s", n ? "refused=" : "nothing refused", n ? names : "");
	return run_difference(r, expected, "%s%s", len ? "refused=" : "nothing refused", got);
}

/* What the statement said would come of it. */
static int check_answer(struct run *r, const json_t *answer)
{
	int code = (int)json_integer_value(json_object_get(answer, "code"));
	const char *sentence = json_string_value(json_object_get(answer, "error"));
	const char *fault = json_string_value(json_object_get(answer, "fault"));
	int64_t calls = json_integer_value(json_object_get(answer, "calls"));
	char expected[32] = "ok";

	if (code == 0 && json_is_true(json_object_get(answer, "at_once")))
		return r->at->kind == ST_QUEUE_TAKE
			       ? run_difference(r, "a take that waits", "it got its pages at once")
			       : run_difference(r, "a request that waits", "it was admitted at once");
	if (fault)
		return run_difference(r, "the device table as the broker's host table", "%s", fault);
	if (!r->at->error && code == SWAKV_EPOISONED && fails_on_purpose(r->at, answer))
		return 0; /* that is what reporting a failure is answered with */
	if (r->at->error)
		snprintf(expected, sizeof(expected), "error=%s", swakv_error_name(r->at->error));
	if (code != r->at->error)
		return answer_difference(r, expected, code, sentence);
	if (r->at->error && calls > 0)
		return run_difference(r, expected, "error=%s, but only behind %" PRId64 " calls that succeeded",
				      swakv_error_name(code), calls);
	return r->at->kind == ST_TURN && code == 0 ? check_refused(r, answer) : 0;
}

static int gone(struct run *r, const struct player *p)
{
	char expected[32] = "ok";

	if (r->at->error == SWAKV_EGONE)
		return 0;
	if (r->at->error)
		snprintf(expected, sizeof(expected), "error=%s", swakv_error_name(r->at->error));
	return run_difference(r, expected, "error=gone (worker %s has ended in line %d)", p->name, p->end_line);
}

static int play_command(struct run *r, const char *op)
{
	struct player *p = run_player(r, r->at->worker);
	json_t *before = NULL, *answer = NULL;
	int e = 0;

	if (p->pid == 0)
		return gone(r, p);
	if (r->at->error)
		e = unchanged_look(r, &before);
	if (e == 0)
		e = run_ask(r, p, command_of(r->at, op), &answer);
	if (e == 0)
		e = check_answer(r, answer);
	if (e == 0 && r->at->error && !fails_on_purpose(r->at, answer))
		e = unchanged_check(r, before);
	json_decref(before);
	json_decref(answer);
	return e;
}

static struct player *new_player(struct run *r)
{
	struct player *p = run_player(r, r->at->worker);

	if (!p) {
		p = reallocarray(r->players, r->n_players + 1, sizeof(*p));
		if (!p)
			return NULL;
		r->players = p;
		p += r->n_players++;
	}
	*p = (struct player){ .name = r->at->worker,
			      .model = script_model_find(r->script, statement_value(r->at, KEY_MODEL)->text),
			      .fd = -1 };
	return p;
}

static int play_attach(struct run *r)
{
	json_t *before = NULL, *answer = NULL;
	struct player *p = NULL;
	int e = r->at->error ? unchanged_look(r, &before) : 0;

	if (e == 0 && !(p = new_player(r)))
		e = run_broken(r, "out of memory");
	if (e == 0)
		e = player_start(r, p);
	if (e == 0)
		e = run_ask(r, p, attach_command(r, p->model), &answer);
	if (e == 0) {
		p->session = (uint32_t)json_integer_value(json_object_get(answer, "session"));
		p->generation = (uint32_t)json_integer_value(json_object_get(answer, "generation"));
		e = check_answer(r, answer);
	}
	if (e == 0 && r->at->error)
		e = player_end(r, p, 0, false);
	if (e == 0 && r->at->error)
		e = unchanged_check(r, before);
	json_decref(before);
	json_decref(answer);
	return e;
}

static int play_detach(struct run *r)
{
	struct player *p = run_player(r, r->at->worker);
	int e = p->pid ? play_command(r, "detach") : gone(r, p);

	return e || p->pid == 0 ? e : player_end(r, p, 0, true);
}

static int play(struct run *r)
{
	switch (r->at->kind) {
	case ST_BROKER:
	case ST_MODEL:
		return 0;
	case ST_ATTACH:
		return play_attach(r);
	case ST_DETACH:
		return play_detach(r);
	case ST_KILL:
		return player_end(r, run_player(r, r->at->worker), SIGKILL, true);
	case ST_STOP:
		return player_stop(r, run_player(r, r->at->worker));
	case ST_CONT:
		return player_continue(r, run_player(r, r->at->worker));
	case ST_REMEMBER:
		return expect_remember(r);
	default:
		return r->at->kind < ST_REMEMBER ? play_command(r, form_word(r->at->kind)) : expect_run(r);
	}
}

/* ---- the whole file -------------------------------------------------------------------- */

static void play_all(struct run *r)
{
	const struct script *s = r->script;
	int e = 0;

	for (size_t i = 0; i < s->n_statements && e == 0; i++) {
		r->at = &s->statements[i];
		if (r->options->trace)
			fprintf(r->options->out, "%s:%d: %s\n", s->path, r->at->line, r->at->source);
		e = play(r);
		r->outcome->n_statements += e == 0;
	}
}

/* Ends what still runs. A broker that does not end in order has a fault. */
static void run_end(struct run *r)
{
	for (size_t i = 0; i < r->n_players; i++)
		(void)player_end(r, &r->players[i], r->outcome->result == RUN_OK ? 0 : SIGKILL, false);
	if (!private_broker_stop(&r->broker.process))
		(void)run_difference(r, "the broker to stop in order", "it crashed, hung, or ended with an error");
}

void run_script(const struct script *s, const struct run_options *options, struct outcome *outcome)
{
	struct run r = { .script = s, .options = options, .outcome = outcome };
	struct script_error error;
	char why[256] = "";
	int e;

	*outcome = (struct outcome){ 0 };
	e = broker_init(&r.broker, s);
	if (e) {
		(void)run_broken(&r, "no folder could be created for the broker: %s", strerror(-e));
	} else if (broker_has_keys(s) && broker_check_keys(&r.broker, s, &error) != 0) {
		outcome->result = RUN_UNREADABLE;
		outcome->line = error.line;
		outcome->message = strdup(error.text);
	} else if (broker_start(&r.broker, s, why, sizeof(why)) != 0) {
		r.at = s->statements;
		(void)run_broken(&r, "%s", why);
	} else {
		play_all(&r);
	}
	run_end(&r);
	if (outcome->result == RUN_DIFFERENCE || outcome->result == RUN_BROKEN)
		private_broker_print_log(&r.broker.process, options->out);
	if (options->keep && r.broker.process.folder[0])
		fprintf(options->out, "%s: the broker's log is in %s\n", s->path, r.broker.process.folder);
	broker_deinit(&r.broker, options->keep);
	for (size_t i = 0; i < r.n_labels; i++)
		json_decref(r.labels[i].mapped);
	free(r.labels);
	free(r.players);
}
