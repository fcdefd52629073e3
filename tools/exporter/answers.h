/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers.h - what is answered to each path
 *
 * What a broker's page says is written once for all who ask at about the same
 * time, so that many clients cost no more than a few.
 */
#ifndef SWAKV_EXPORTER_ANSWERS_H
#define SWAKV_EXPORTER_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

struct answers;

/* What a client asked for. */
struct question {
	const char *path;
	bool openmetrics; /* of /metrics */
	bool requests;    /* of /api/status: the requests, too, */
	bool map;         /* and extents and events */
};

/* Of the broker @instance (kept). NULL: memory is short. */
struct answers *answers_new(const char *instance);
/* NULL is ignored. Returns NULL. */
struct answers *answers_free(struct answers *a);
/* The answer to @q with its HTTP status in *@code; borrowed until the next call. NULL: memory is short. */
struct MHD_Response *answers_to(struct answers *a, const struct question *q, unsigned int *code);
/* One to a request that is not answered, @text; likewise. */
struct MHD_Response *answers_refusal(struct answers *a, const char *text);

#endif
