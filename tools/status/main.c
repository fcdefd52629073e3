/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-status */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "usage.h"
#include "view.h"
#include "watch.h"

enum { EXIT_NOT_FOUND = 1, EXIT_USAGE = 2 };

struct options {
	const char *instance;
	const char *socket;
	struct view view;
	bool watch;
	struct watch_options repeat;
};

static const char usage_text[] =
	"usage: swakv-status [-b NAME | -s SOCKET] [--session [ID]] [--request [SESSION[:HANDLE]]] [--quarantine]\n"
	"                    [--map] [--events] [--json | --prometheus] [--watch [SECONDS] [--count N] [--no-color]]\n"
	"\n"
	"Shows the pool, the pages and the sessions of a running swakv broker.\n"
	"\n"
	"  -b, --broker NAME      which broker (default: $SWAKV_BROKER, else \"default\")\n"
	"  -s, --socket PATH      the one behind this workers' socket, asked over it\n"
	"  -S, --session [ID]     every session in full, or one\n"
	"  -r, --request [S[:H]]  every request, those of session S, or the one with handle H\n"
	"  -q, --quarantine       sessions with quarantined pages, and what they wait for\n"
	"  -m, --map              the pool, extent by extent\n"
	"  -e, --events           what happened last, to sessions and by administrators\n"
	"  -j, --json             JSON\n"
	"  -p, --prometheus       Prometheus text format\n"
	"  -w, --watch [SECONDS]  repeat (default: every second), full screen on a terminal\n"
	"  -n, --count N          with --watch: stop after N samples\n"
	"      --no-color         with --watch: no colours (nor with $NO_COLOR)\n"
	"  -h, --help             this text\n"
	"      --version          the version\n"
	"\n"
	"Exit status: 0 running, 1 not found or not readable, 2 wrong usage, 3 not running, 4 stale, 5 stuck.\n";

static bool parse_session(struct view *v, const char *text, const char **end)
{
	uint64_t id;

	if (!number_read_prefix(text, 0, UINT32_MAX, &id, end))
		return false;
	v->one_session = true;
	v->session = (uint32_t)id;
	return true;
}

static bool parse_request(struct view *v, const char *text)
{
	const char *end;

	if (!parse_session(v, text, &end))
		return false;
	if (*end != ':')
		return *end == '\0';
	v->one_request = true;
	return number_read_handle(end + 1, &v->handle);
}

/* The value of an option that may go without: behind '=', or the next word when it is no option. */
static const char *optional_value(int argc, char **argv)
{
	if (optarg)
		return optarg;
	return optind < argc && argv[optind][0] != '-' ? argv[optind++] : NULL;
}

/* Applies one option with an optional or required @value. False after a complaint. */
static bool apply(struct options *o, int option, const char *value)
{
	const char *end = "";

	switch (option) {
	case 'q':
		return o->view.quarantine = true;
	case 'm':
		return o->view.map = true;
	case 'e':
		return o->view.events = true;
	case 'C':
		o->repeat.plain = true;
		return true;
	case 'S':
		o->view.sessions = true;
		if (value && !(parse_session(&o->view, value, &end) && *end == '\0'))
			return usage_error("not a session id:", value);
		return true;
	case 'r':
		o->view.requests = true;
		if (value && !parse_request(&o->view, value))
			return usage_error("not SESSION or SESSION:HANDLE:", value);
		return true;
	case 'w':
		o->watch = true;
		if (value && !number_read_seconds(value, 0.001, 86400, &o->repeat.seconds))
			return usage_error("not a time from 0.001 to 86400 seconds:", value);
		return true;
	case 'n':
		if (!number_read(value, 1, UINT32_MAX, &o->repeat.count))
			return usage_error("not a count from 1 to 4294967295:", value);
		return true;
	}
	return false;
}

static const struct option longs[] = {
	{ "broker", required_argument, NULL, 'b' },
	{ "name", required_argument, NULL, 'b' }, /* as it was called first */
	{ "socket", required_argument, NULL, 's' },
	{ "session", optional_argument, NULL, 'S' },
	{ "request", optional_argument, NULL, 'r' },
	{ "quarantine", no_argument, NULL, 'q' },
	{ "map", no_argument, NULL, 'm' },
	{ "events", no_argument, NULL, 'e' },
	{ "json", no_argument, NULL, 'j' },
	{ "prometheus", no_argument, NULL, 'p' },
	{ "watch", optional_argument, NULL, 'w' },
	{ "count", required_argument, NULL, 'n' },
	{ "no-color", no_argument, NULL, 'C' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 },
};

static bool parse_options(struct options *o, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "b:s:S::r::qmejpw::n:h", longs, NULL)) != -1) {
		switch (c) {
		case 'b':
			o->instance = optarg;
			break;
		case 's':
			o->socket = optarg;
			break;
		case 'j':
		case 'p':
			if (o->view.format != VIEW_TABLE)
				return usage_error("one format only, not also", c == 'j' ? "--json" : "--prometheus");
			o->view.format = c == 'j' ? VIEW_JSON : VIEW_PROMETHEUS;
			break;
		case 'S':
		case 'r':
		case 'w':
			if (!apply(o, c, optional_value(argc, argv)))
				return false;
			break;
		case 'q':
		case 'm':
		case 'e':
		case 'C':
		case 'n':
			if (!apply(o, c, optarg))
				return false;
			break;
		case 'h':
			usage_help(usage_text);
		case 'V':
			usage_version();
		default:
			return usage_unknown();
		}
	}
	if (o->repeat.count && !o->watch)
		return usage_error("--watch is missing, without which nothing repeats:", "--count");
	return optind == argc || usage_error("unexpected argument", argv[optind]);
}

/* Says on stderr what is wrong and what to do about it (the table says the first itself). Returns the exit status. */
static int conclude(const struct options *o, const struct sample *s)
{
	if (s->reason[0] && o->view.format != VIEW_TABLE)
		fprintf(stderr, "swakv-status: %s\n", s->reason);
	if (s->hint[0])
		fprintf(stderr, "hint: %s\n", s->hint);
	if (s->has_snapshot && !view_found(&o->view, &s->snapshot)) {
		fprintf(stderr,
			"swakv-status: the broker '%s' has no such %s now\nhint: see which there are: swakv-status "
			"-b %s --%s\n",
			s->instance, o->view.one_request ? "request" : "session", s->instance,
			o->view.one_request ? "request" : "session");
		return EXIT_NOT_FOUND;
	}
	return (int)s->verdict;
}

int main(int argc, char **argv)
{
	struct options o = { .instance = getenv("SWAKV_BROKER"), .repeat = { .seconds = 1 } };
	struct sample *s;
	int status;

	usage_begin("swakv-status", EXIT_NOT_FOUND);
	if (!o.instance || !o.instance[0])
		o.instance = "default";
	if (!parse_options(&o, argc, argv))
		return EXIT_USAGE;
	s = malloc(sizeof(*s));
	if (!s) {
		fprintf(stderr, "swakv-status: no memory\n");
		return EXIT_NOT_FOUND;
	}
	o.view.compact = o.watch;
	if (o.watch) {
		o.repeat.instance = o.instance;
		o.repeat.socket = o.socket;
		watch(s, &o.view, &o.repeat);
	} else {
		sample_take(s, o.instance, o.socket);
		view_write(stdout, &o.view, s);
	}
	status = conclude(&o, s);
	free(s);
	return status;
}
