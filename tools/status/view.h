/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - which part of a sample is wanted, and the ways to write it */
#ifndef SWAKV_STATUS_VIEW_H
#define SWAKV_STATUS_VIEW_H

#include <stdbool.h>
#include <stdio.h>

#include "sample.h"

enum view_format { VIEW_TABLE, VIEW_JSON, VIEW_PROMETHEUS, VIEW_OPENMETRICS };

struct view {
	enum view_format format;
	bool sessions;   /* each session in full */
	bool requests;   /* the requests too */
	bool quarantine; /* only sessions with quarantined pages, and why they wait */
	bool map;        /* the extents too, */
	bool events;     /* and the last events */
	bool one_session;
	uint32_t session; /* id, with one_session */
	bool one_request;
	uint64_t handle; /* with one_request */
	bool compact;    /* JSON on one line: one document a line */
};

/* Whether session @i, request @i of the sample's snapshot belong to the view. */
bool view_has_session(const struct view *v, const struct status_snapshot *s, uint32_t i);
bool view_has_request(const struct view *v, const struct status_snapshot *s, uint32_t i);
/* False when the view names a session or a request that the snapshot does not have. */
bool view_found(const struct view *v, const struct status_snapshot *s);

/*
 * Why the quarantined pages of @session are not released yet, as one sentence.
 * Writes to @buf and returns it.
 */
const char *view_quarantine_reason(const struct status_session *session, char *buf, size_t size);

/* Each writes the view of @s to @out. */
void table_write(FILE *out, const struct view *v, const struct sample *s);
void json_write(FILE *out, const struct view *v, const struct sample *s);
/* As text 0.0.4, or as OpenMetrics where the format says so. */
void prometheus_write(FILE *out, const struct view *v, const struct sample *s);

/* The one that the view's format asks for. */
void view_write(FILE *out, const struct view *v, const struct sample *s);

#endif
