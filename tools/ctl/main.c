/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-ctl */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instance.h"
#include "model_name.h"
#include "number.h"
#include "show.h"
#include "size.h"
#include "usage.h"

struct options {
	struct question question;
	bool json;
	bool off;
};

static const char usage_text[] =
	"usage: swakv-ctl [-b NAME | -s SOCKET] [-t SECONDS] [--json] COMMAND\n"
	"\n"
	"Administers a running swakv broker.\n"
	"\n"
	"  ping                   check that it answers, including the thread that serves workers\n"
	"  list                   list its sessions\n"
	"  limit MODEL [--floor SIZE] [--ceiling SIZE|none] [--save]\n"
	"                         show what is always there for a model and what it may hold, or set it; --save: for\n"
	"                         brokers to come, too\n"
	"  drain [MODEL] [--off]  take no new sessions and requests, of one model or of all; --off ends it\n"
	"  disconnect SESSION     end a session as if its connection had closed\n"
	"  kill SESSION           kill the session's process (SIGKILL)\n"
	"  stop                   stop the broker in order, as SIGTERM does\n"
	"\n"
	"SESSION is ID or ID.GENERATION, as list and the broker's log show it.\n"
	"\n"
	"  -b, --broker NAME      which broker (default: $SWAKV_BROKER, else \"default\")\n"
	"  -s, --socket PATH      or the path of its workers' socket\n"
	"  -t, --timeout SECONDS  how long to wait for an answer (default: 5)\n"
	"  -j, --json             JSON\n"
	"  -h, --help             this text\n"
	"      --version          the version\n"
	"\n"
	"Exit status: 0 done, 1 refused or not found, 2 wrong usage, 3 no broker, 4 denied, 5 no answer in time.\n";

/* "ID" or "ID.GENERATION". */
static bool parse_session(struct admin_request *r, const char *text)
{
	uint64_t id, generation = 0;
	const char *end;

	if (!number_read_prefix(text, 1, ADMIN_MAX_SESSIONS, &id, &end) ||
	    (*end == '.' ? !number_read(end + 1, 1, UINT32_MAX, &generation) : *end != '\0'))
		return usage_error("not a session (ID or ID.GENERATION):", text);
	r->session = (uint32_t)id;
	r->generation = (uint32_t)generation;
	return true;
}

static bool parse_model(struct admin_request *r, const char *text)
{
	if (!model_name_valid(text))
		return usage_error("not a model's name (" MODEL_NAME_RULE "):", text);
	memcpy(r->model, text, strlen(text));
	return true;
}

/* "25%"; false: it is not. */
static bool parse_percent(const char *text, uint64_t *out)
{
	const char *end;

	return number_read_prefix(text, 0, 100, out, &end) && !strcmp(end, "%");
}

/* Bytes with an optional suffix, or percent of the pool; where @none, "none" instead of 0. */
static bool parse_limit(struct admin_request *r, uint32_t flag, uint32_t percent, uint64_t *at, const char *text,
			bool none)
{
	uint64_t n = 0;

	r->flags &= ~percent;
	if (parse_percent(text, &n))
		flag |= percent;
	else if (!(none && !strcmp(text, "none")) && !size_read(text, &n))
		return usage_error("not a size (" SIZE_RULE "; or 0% to 100% of the pool):", text);
	if (none && n == 0 && strcmp(text, "none") != 0)
		return usage_error("a ceiling of 0 would allow nothing (\"none\" removes it):", text);
	r->flags |= flag;
	*at = n;
	return true;
}

static bool parse_timeout(struct question *q, const char *text)
{
	double seconds;

	if (!number_read_seconds(text, 0.001, 3600, &seconds))
		return usage_error("not a time from 0.001 to 3600 seconds:", text);
	q->timeout_ms = (uint32_t)(seconds * 1000);
	return true;
}

static bool parse_name(struct question *q, const char *text)
{
	if (!instance_name_valid(text))
		return usage_error("not the name of a broker (" INSTANCE_NAME_RULE "):", text);
	q->broker = text;
	return true;
}

/* The command and its arguments. */
static bool parse_command(struct options *o, int n, char **words)
{
	static const struct {
		const char *name;
		uint16_t op;
		int least, most;
		bool (*argument)(struct admin_request *r, const char *text);
	} commands[] = {
		{ "ping", ADMIN_PING, 0, 0, NULL },
		{ "list", ADMIN_LIST, 0, 0, NULL },
		{ "limit", ADMIN_LIMIT, 1, 1, parse_model },
		{ "drain", ADMIN_DRAIN, 0, 1, parse_model },
		{ "disconnect", ADMIN_DISCONNECT, 1, 1, parse_session },
		{ "kill", ADMIN_KILL, 1, 1, parse_session },
		{ "stop", ADMIN_STOP, 0, 0, NULL },
	};
	struct admin_request *r = &o->question.request;

	if (n == 0)
		return usage_error("a command is needed, one of", "ping list limit drain disconnect kill stop");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(words[0], commands[i].name) != 0)
			continue;
		r->op = commands[i].op;
		if (n - 1 < commands[i].least)
			return usage_error(r->op == ADMIN_LIMIT ? "a model is needed by" : "a session is needed by",
					   words[0]);
		if (n - 1 > commands[i].most)
			return usage_error("unexpected argument", words[1 + commands[i].most]);
		if (o->off && r->op != ADMIN_DRAIN)
			return usage_error("--off is for drain, not for", words[0]);
		if (r->flags && r->op != ADMIN_LIMIT)
			return usage_error("--floor, --ceiling and --save are for limit, not for", words[0]);
		r->flags |= o->off ? ADMIN_OFF : 0;
		return n == 1 || commands[i].argument(r, words[1]);
	}
	return usage_error("unknown command", words[0]);
}

static bool parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "broker", required_argument, NULL, 'b' }, { "name", required_argument, NULL, 'b' },
		{ "socket", required_argument, NULL, 's' }, { "timeout", required_argument, NULL, 't' },
		{ "json", no_argument, NULL, 'j' },         { "off", no_argument, NULL, 'o' },
		{ "floor", required_argument, NULL, 'F' },  { "ceiling", required_argument, NULL, 'C' },
		{ "save", no_argument, NULL, 'S' },         { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },      { 0 },
	};
	struct admin_request *r = &o->question.request;
	int c;

	while ((c = getopt_long(argc, argv, "b:s:t:jh", longs, NULL)) != -1) {
		switch (c) {
		case 'b':
			if (!parse_name(&o->question, optarg))
				return false;
			break;
		case 's':
			o->question.socket = optarg;
			break;
		case 't':
			if (!parse_timeout(&o->question, optarg))
				return false;
			break;
		case 'j':
			o->json = true;
			break;
		case 'o':
			o->off = true;
			break;
		case 'F':
			if (!parse_limit(r, ADMIN_FLOOR, ADMIN_FLOOR_PERCENT, &r->floor, optarg, false))
				return false;
			break;
		case 'C':
			if (!parse_limit(r, ADMIN_CEILING, ADMIN_CEILING_PERCENT, &r->ceiling, optarg, true))
				return false;
			break;
		case 'S':
			r->flags |= ADMIN_SAVE;
			break;
		case 'h':
			usage_help(usage_text);
		case 'V':
			usage_version();
		default:
			return usage_unknown();
		}
	}
	return parse_command(o, argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	struct options o = { .question = { .broker = "default", .timeout_ms = 5000 } };
	const char *named = getenv("SWAKV_BROKER");
	static struct answer answer;
	enum ctl_exit e;

	usage_begin("swakv-ctl", CTL_REFUSED);
	if ((named && named[0] && !parse_name(&o.question, named)) || !parse_options(&o, argc, argv))
		return CTL_USAGE;
	e = ask(&o.question, &answer);
	if (o.json)
		show_json(&o.question, &answer, e);
	else
		show_text(&o.question, &answer, e);
	return (int)e;
}
