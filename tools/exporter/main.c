/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - options of swakv-exporter, and its loop */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "address.h"
#include "cleanup.h"
#include "instance.h"
#include "number.h"
#include "server.h"
#include "usage.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, PORT = 9471, MOST_CONNECTIONS = 512 };

struct options {
	const char *instance;
	struct address listen;
	struct server_options server;
};

static const char usage_text[] =
	"usage: swakv-exporter [-b NAME] [--listen ADDRESS[:PORT]] [--connections N]\n"
	"\n"
	"Serves what a running swakv broker shows over HTTP: / (a page for people), /metrics (Prometheus and\n"
	"OpenMetrics), /api/status (JSON), /healthz. Reads the broker's status page and nothing else.\n"
	"\n"
	"  -b, --broker NAME            which broker (default: $SWAKV_BROKER, else \"default\")\n"
	"  -l, --listen ADDRESS[:PORT]  where to listen; port 0: any that is free (default: 127.0.0.1:9471)\n"
	"  -n, --connections N          so many at a time, 1 to 512 (default: 64)\n"
	"  -h, --help                   this text\n"
	"      --version                the version\n"
	"\n"
	"Exit status: 0 ended by SIGTERM or SIGINT, 1 could not listen, 2 wrong usage.\n";

/* Applies one option. False after a complaint. */
static bool apply(struct options *o, int option)
{
	uint64_t n;

	switch (option) {
	case 'b':
		o->instance = optarg;
		return true;
	case 'l':
		return address_read(&o->listen, optarg, PORT) ||
		       usage_error("--listen needs " ADDRESS_RULE ", not", optarg);
	case 'n':
		if (!usage_number("--connections", optarg, 1, MOST_CONNECTIONS, &n))
			return false;
		o->server.connections = (unsigned int)n;
		return true;
	case 'h':
		usage_help(usage_text);
	case 'V':
		usage_version();
	default:
		return usage_unknown();
	}
}

static bool parse_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "broker", required_argument, NULL, 'b' },      { "listen", required_argument, NULL, 'l' },
		{ "connections", required_argument, NULL, 'n' }, { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },           { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "b:l:n:h", longs, NULL)) != -1)
		if (!apply(o, c))
			return false;
	if (optind < argc)
		return usage_error("unexpected argument", argv[optind]);
	return instance_name_valid(o->instance) ||
	       usage_error("a broker's name has " INSTANCE_NAME_RULE ", unlike", o->instance);
}

/* A descriptor that becomes readable when the process is to end, or a negative errno. */
static int catch_signals(void)
{
	sigset_t set;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Serves until a signal comes. */
static void loop(struct server *s, int signals)
{
	struct pollfd wait[] = { { .fd = signals, .events = POLLIN },
				 { .fd = server_descriptor(s), .events = POLLIN } };

	while (!wait[0].revents) {
		if (poll(wait, 2, server_patience(s)) < 0 && errno != EINTR)
			break;
		server_turn(s);
	}
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "swakv-exporter: %s: %s\n", what, strerror(error));
	return EXIT_FAILED;
}

static int serve(struct options *o)
{
	int listener = address_listen(&o->listen), signals;
	struct answers *answers;
	struct server *server;
	char where[ADDRESS_TEXT];
	int status = EXIT_SUCCESS;

	address_text(&o->listen, where);
	if (listener < 0) {
		fprintf(stderr, "hint: --listen names an address of this machine and a port that is free\n");
		return fail(where, -listener);
	}
	signals = catch_signals();
	o->server.local = address_is_local(&o->listen);
	answers = signals < 0 ? NULL : answers_new(o->instance);
	server = answers ? server_new(listener, answers, &o->server) : NULL;
	if (server) {
		fprintf(stderr, "swakv-exporter: the broker '%s' is shown at http://%s/\n", o->instance, where);
		loop(server, signals);
	} else {
		status = fail("cannot serve", errno);
	}
	server_free(server);
	answers_free(answers);
	close_fd(&signals);
	return status;
}

int main(int argc, char **argv)
{
	struct options o = { .instance = getenv("SWAKV_BROKER"), .server.connections = 64 };

	usage_begin("swakv-exporter", EXIT_FAILED);
	if (!o.instance || !o.instance[0])
		o.instance = "default";
	address_read(&o.listen, "127.0.0.1", PORT);
	if (!parse_options(&o, argc, argv))
		return EXIT_USAGE;
	/* What reads from a network starts no program that can do more. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return serve(&o);
}
