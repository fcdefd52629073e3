/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers.c - see answers.h
 *
 * A text stays for a moment, and longer with those who are still being sent it:
 * libmicrohttpd counts who uses it. So what slow readers hold is bounded by the
 * time that a connection may take (server.c) and by how often a text is made.
 */
#include "answers.h"

#include <stdlib.h>
#include <string.h>

#include "assets.h"
#include "clock.h"
#include "view.h"

#define FRESH_NS (200 * NS_PER_MS)
#define LONG_NS  (1000 * NS_PER_MS) /* of what may be long */

/* Nothing on the page comes from anywhere else, and no other page may show it or send its user here. */
#define POLICY                                                                                                         \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "                \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

enum made { MADE_TEXT, MADE_OPENMETRICS, MADE_STATUS, MADE_MAP, MADE_REQUESTS, MADE_MAP_REQUESTS, MADE_HEALTH, N_MADE };

static const struct {
	const char *path;
	const char *type;
	struct view view;
	uint64_t lasts;
} kinds[N_MADE] = {
	[MADE_TEXT] = { "/metrics",
			"text/plain; version=0.0.4; charset=utf-8",
			{ .format = VIEW_PROMETHEUS },
			FRESH_NS },
	[MADE_OPENMETRICS] = { "/metrics",
			       "application/openmetrics-text; version=1.0.0; charset=utf-8",
			       { .format = VIEW_OPENMETRICS },
			       FRESH_NS },
	[MADE_STATUS] = { "/api/status", "application/json", { .format = VIEW_JSON, .compact = true }, FRESH_NS },
	[MADE_MAP] = { "/api/status",
		       "application/json",
		       { .format = VIEW_JSON, .compact = true, .map = true, .events = true },
		       FRESH_NS },
	[MADE_MAP_REQUESTS] = { "/api/status",
				"application/json",
				{ .format = VIEW_JSON, .compact = true, .requests = true, .map = true, .events = true },
				LONG_NS },
	[MADE_REQUESTS] = { "/api/status",
			    "application/json",
			    { .format = VIEW_JSON, .compact = true, .requests = true },
			    LONG_NS },
	[MADE_HEALTH] = { "/healthz", "text/plain; charset=utf-8", { .format = VIEW_TABLE }, FRESH_NS },
};

struct answer {
	struct MHD_Response *response; /* NULL: none yet */
	uint64_t made_ns;
	unsigned int code;
};

struct answers {
	const char *instance;
	struct sample *sample;
	uint64_t sampled_ns; /* 0: never */
	struct answer made[N_MADE];
	struct MHD_Response *once; /* lent since the last call */
};

struct answers *answers_new(const char *instance)
{
	struct answers *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->instance = instance;
	a->sample = malloc(sizeof(*a->sample));
	return a->sample ? a : answers_free(a);
}

static void drop(struct MHD_Response **r)
{
	if (*r)
		MHD_destroy_response(*r);
	*r = NULL;
}

struct answers *answers_free(struct answers *a)
{
	if (!a)
		return NULL;
	for (int i = 0; i < N_MADE; i++)
		drop(&a->made[i].response);
	drop(&a->once);
	free(a->sample);
	free(a);
	return NULL;
}

/* A response of @n @bytes; @mode says whose they are. It ends its connection: so each can be given a time. */
static struct MHD_Response *respond(const void *bytes, size_t n, const char *type, enum MHD_ResponseMemoryMode mode)
{
	static const char *const headers[][2] = {
		{ "Connection", "close" },
		{ "Cache-Control", "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Content-Security-Policy", POLICY },
	};
	struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)bytes, mode);

	if (!r)
		return NULL;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(r, headers[i][0], headers[i][1]);
	MHD_add_response_header(r, "Content-Type", type);
	return r;
}

static void health_write(FILE *out, const struct sample *s)
{
	fprintf(out, "%s\n", verdict_name(s->verdict));
	if (s->reason[0])
		fprintf(out, "%s\n%s\n", s->reason, s->hint);
}

/* The text of @kind as the sample has it. NULL: memory is short. */
static struct MHD_Response *make(struct answers *a, enum made kind)
{
	struct MHD_Response *r;
	char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	if (!f)
		return NULL;
	if (kind == MADE_HEALTH)
		health_write(f, a->sample);
	else
		view_write(f, &kinds[kind].view, a->sample);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	r = respond(text, n, kinds[kind].type, MHD_RESPMEM_MUST_FREE);
	if (!r)
		free(text);
	return r;
}

static struct MHD_Response *current(struct answers *a, enum made kind, unsigned int *code)
{
	struct answer *x = &a->made[kind];
	uint64_t now = clock_ns();

	if (!x->response || now - x->made_ns >= kinds[kind].lasts) {
		if (a->sampled_ns == 0 || now - a->sampled_ns >= FRESH_NS) {
			sample_take(a->sample, a->instance, NULL);
			a->sampled_ns = now;
		}
		drop(&x->response);
		x->response = make(a, kind);
		x->made_ns = now;
		x->code = kind == MADE_HEALTH && a->sample->verdict != VERDICT_RUNNING ? MHD_HTTP_SERVICE_UNAVAILABLE
										       : MHD_HTTP_OK;
	}
	*code = x->code;
	return x->response;
}

/* Which of those of a path is asked for. */
static enum made choose(enum made kind, const struct question *q)
{
	if (kind == MADE_TEXT && q->openmetrics)
		return MADE_OPENMETRICS;
	if (kind == MADE_STATUS && q->requests)
		return q->map ? MADE_MAP_REQUESTS : MADE_REQUESTS;
	return kind == MADE_STATUS && q->map ? MADE_MAP : kind;
}

struct MHD_Response *answers_to(struct answers *a, const struct question *q, unsigned int *code)
{
	for (int i = 0; i < N_MADE; i++)
		if (strcmp(q->path, kinds[i].path) == 0)
			return current(a, choose((enum made)i, q), code);
	*code = MHD_HTTP_OK;
	for (const struct asset *x = assets; x->path; x++) {
		if (strcmp(q->path, x->path) == 0) {
			drop(&a->once);
			a->once = respond(x->bytes, x->n, x->type, MHD_RESPMEM_PERSISTENT);
			return a->once;
		}
	}
	*code = MHD_HTTP_NOT_FOUND;
	return answers_refusal(a, "there are /, /metrics, /api/status and /healthz here\n");
}

struct MHD_Response *answers_refusal(struct answers *a, const char *text)
{
	drop(&a->once);
	a->once = respond(text, strlen(text), "text/plain; charset=utf-8", MHD_RESPMEM_PERSISTENT);
	return a->once;
}
