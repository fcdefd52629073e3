/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - one request to a broker's administrator socket, and its answer */
#ifndef SWAKV_TOOLS_ASK_H
#define SWAKV_TOOLS_ASK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "admin_wire.h"

/* Exit codes of swakv-ctl; documented in swakv-ctl(1). */
enum ctl_exit { CTL_DONE, CTL_REFUSED, CTL_USAGE, CTL_NO_BROKER, CTL_DENIED, CTL_NO_ANSWER };

struct question {
	const char *broker; /* name of an instance */
	const char *socket; /* path of its workers' socket, NULL: by its name */
	const char *look;   /* the command that shows more of a broker that does not answer; NULL: swakv-status */
	uint32_t timeout_ms;
	struct admin_request request; /* magic, size and version are filled in */
};

struct answer {
	struct admin_greeting greeting; /* zero when none came */
	struct admin_reply reply;       /* zero when none came */
	struct admin_session sessions[ADMIN_MAX_SESSIONS];
	char drained[ADMIN_MAX_DRAINED][WIRE_MODEL_NAME]; /* [reply.n_names] */
	int fd;                                           /* STATUS: the page, else -1; the caller closes it */
	pid_t pid;       /* of the broker, 0: in another pid namespace, or nobody answered */
	char text[1024]; /* one sentence: what was done, or why not */
};
/* Asks and waits. All of *@out is set, every text in it terminated and printable. */
enum ctl_exit ask(const struct question *q, struct answer *out);

#endif
