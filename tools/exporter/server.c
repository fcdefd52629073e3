/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c - see server.h
 *
 * Every connection serves one request and has a time for all of it, however
 * slowly it sends or reads. When all places are taken the oldest connection
 * ends: whoever opens many drives out his own, and a client that is quick is
 * served in between. libmicrohttpd closes what is shut down here.
 */
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accept.h"
#include "address.h"
#include "clock.h"

enum {
	LIFE_MS = 10000,   /* of a connection */
	SILENCE_S = 5,     /* and while it sends and takes nothing */
	MEMORY = 16 * 1024 /* of a request's line and headers */
};

struct visitor {
	TAILQ_ENTRY(visitor) link;
	int fd;
	uint64_t since;
	bool dismissed;
};

struct server {
	struct server_options options;
	struct answers *answers;
	struct MHD_Daemon *daemon;
	int epoll;
	TAILQ_HEAD(visitor_list, visitor) visitors; /* the oldest first; not those that were dismissed */
	unsigned int n_visitors;
};

/* It hears no more, and is not heard; its place is another's. */
static void dismiss(struct server *s, struct visitor *v)
{
	if (v->dismissed)
		return;
	v->dismissed = true;
	TAILQ_REMOVE(&s->visitors, v, link);
	s->n_visitors--;
	shutdown(v->fd, SHUT_RDWR);
}

static void come(struct server *s, struct MHD_Connection *c, void **context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct visitor *v = info ? calloc(1, sizeof(*v)) : NULL;

	*context = v;
	if (!v)
		return; /* memory is short: only silence ends it */
	v->fd = info->connect_fd;
	v->since = clock_ns();
	if (s->n_visitors == s->options.connections)
		dismiss(s, TAILQ_FIRST(&s->visitors));
	TAILQ_INSERT_TAIL(&s->visitors, v, link);
	s->n_visitors++;
}

static void leave(struct server *s, void **context)
{
	struct visitor *v = *context;

	if (v && !v->dismissed) {
		TAILQ_REMOVE(&s->visitors, v, link);
		s->n_visitors--;
	}
	free(v);
	*context = NULL;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		come(arg, c, context);
	else
		leave(arg, context);
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* "?NAME", with any value or none. */
static bool argument(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value_n(c, MHD_GET_ARGUMENT_KIND, name, strlen(name), NULL, NULL) == MHD_YES;
}

/* Why a request is not answered at all, and its HTTP status; NULL: it is. */
static const char *objection(const struct server *s, struct MHD_Connection *c, const char *method, unsigned int *code)
{
	const char *host = header(c, MHD_HTTP_HEADER_HOST);

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		*code = MHD_HTTP_METHOD_NOT_ALLOWED;
		return "only GET and HEAD are answered\n";
	}
	/* A page from elsewhere whose name was made to mean 127.0.0.1 would read what is here. */
	if (s->options.local && host && !address_host_is_local(host)) {
		*code = MHD_HTTP_MISDIRECTED_REQUEST;
		return "this exporter listens on this machine only: ask it for localhost, or by a number, "
		       "or start it with --listen\n";
	}
	return NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *body, size_t *body_bytes, void **context)
{
	struct server *s = arg;
	unsigned int code = MHD_HTTP_OK;
	const char *wrong = objection(s, c, method, &code);
	struct MHD_Response *r;

	if (wrong) {
		r = answers_refusal(s->answers, wrong);
		if (r && code == MHD_HTTP_METHOD_NOT_ALLOWED)
			MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	} else {
		const struct question q = {
			.path = path,
			.openmetrics = accept_openmetrics(header(c, MHD_HTTP_HEADER_ACCEPT)),
			.requests = argument(c, "requests"),
			.map = argument(c, "map"),
		};

		r = answers_to(s->answers, &q, &code);
	}
	return r ? MHD_queue_response(c, code, r) : MHD_NO;
}

static struct MHD_Daemon *start(struct server *s, int listener)
{
	return MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET, listener,
				MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_CONNECTION_LIMIT,
				s->options.connections + 16, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SILENCE_S,
				MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
				MHD_OPTION_END);
}

struct server *server_new(int listener, struct answers *a, const struct server_options *o)
{
	struct server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;

	if (!s) {
		close(listener);
		return NULL;
	}
	s->options = *o;
	s->answers = a;
	TAILQ_INIT(&s->visitors);
	errno = 0;
	s->daemon = start(s, listener);
	info = s->daemon ? MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		int e = errno ? errno : ENOMEM;

		if (!s->daemon)
			close(listener);
		server_free(s);
		errno = e;
		return NULL;
	}
	s->epoll = info->epoll_fd;
	return s;
}

struct server *server_free(struct server *s)
{
	if (!s)
		return NULL;
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	free(s);
	return NULL;
}

int server_descriptor(const struct server *s)
{
	return s->epoll;
}

int server_patience(struct server *s)
{
	const struct visitor *oldest = TAILQ_FIRST(&s->visitors);
	MHD_UNSIGNED_LONG_LONG theirs;
	int ms = -1;

	if (oldest) {
		uint64_t age = (clock_ns() - oldest->since) / NS_PER_MS;

		ms = age < LIFE_MS ? (int)(LIFE_MS - age) + 1 : 0;
	}
	if (MHD_get_timeout(s->daemon, &theirs) == MHD_YES && (ms < 0 || theirs < (unsigned int)ms))
		ms = (int)theirs;
	return ms;
}

void server_turn(struct server *s)
{
	uint64_t now = clock_ns();
	struct visitor *oldest;

	while ((oldest = TAILQ_FIRST(&s->visitors)) && now - oldest->since >= LIFE_MS * NS_PER_MS)
		dismiss(s, oldest);
	MHD_run(s->daemon);
}
