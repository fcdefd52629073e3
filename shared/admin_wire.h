/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_wire.h - what a broker and its administrator say to each other
 *
 * On a seqpacket socket of its own, "<socket>.ctl": the broker greets (and says
 * at once when it does not take this user), the administrator sends one request,
 * the broker sends one reply, and the connection ends. Every message has a fixed
 * size but for the sessions behind a reply. All fields are fixed width; reserved
 * ones and those that the operation does not use must be zero.
 */
#ifndef SWAKV_ADMIN_WIRE_H
#define SWAKV_ADMIN_WIRE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/un.h>

#include "instance.h"
#include "wire.h"

#define ADMIN_MAGIC         0x316c7463766b7773ull
#define ADMIN_VERSION       1
#define ADMIN_MAX_SESSIONS  256
#define ADMIN_MAX_DRAINED   64 /* models */
#define ADMIN_SOCKET_SUFFIX ".ctl"

enum admin_op {
	ADMIN_PING = 1,
	ADMIN_LIST,
	ADMIN_LIMIT,      /* model, floor, ceiling; flags say which of the two is set; none: both are told */
	ADMIN_DRAIN,      /* model, or empty: the whole broker; ADMIN_OFF: the end of it */
	ADMIN_DISCONNECT, /* session */
	ADMIN_KILL,       /* session */
	ADMIN_STOP,
	ADMIN_STATUS, /* with the reply comes a descriptor of the status page, to read */
	ADMIN_OP_COUNT
};
#define ADMIN_OP_NAMES "none", "ping", "list", "limit", "drain", "disconnect", "kill", "stop", "status"

/* ..._PERCENT: that limit, which is set, is so many percent of the pool instead of bytes. */
enum admin_flag {
	ADMIN_OFF = 1,
	ADMIN_FLOOR = 2,
	ADMIN_CEILING = 4,
	ADMIN_FLOOR_PERCENT = 8,
	ADMIN_CEILING_PERCENT = 16,
	ADMIN_SAVE = 32 /* LIMIT: the next broker of that name begins with it */
};

struct admin_greeting {
	uint64_t magic;
	uint32_t size; /* sizeof(struct admin_greeting) */
	uint16_t version;
	uint16_t size_request;
	uint16_t size_reply;
	uint16_t size_session;
	int32_t code; /* 0: go on; else refused, `text` says why, and the connection ends */
	uint8_t boot_id[16];
	char name[WIRE_NAME]; /* of the broker */
	char text[192];
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct admin_greeting) == 288, "admin_greeting");

struct admin_request {
	uint64_t magic;
	uint32_t size; /* sizeof(struct admin_request) */
	uint16_t version;
	uint16_t op;         /* enum admin_op */
	uint32_t flags;      /* enum admin_flag */
	uint32_t session;    /* id of a session */
	uint32_t generation; /* of it; 0: whichever it is now */
	uint32_t reserved0;
	char model[WIRE_MODEL_NAME];
	uint64_t floor;   /* bytes, K and V */
	uint64_t ceiling; /* 0: none */
	uint64_t reserved[6];
};
_Static_assert(sizeof(struct admin_request) == 224, "admin_request");

enum admin_session_flag { ADMIN_SESSION_DRAINED = 1, ADMIN_SESSION_POISONED = 2 };

struct admin_session {
	uint32_t id;
	uint32_t generation;
	int32_t pid;
	uint32_t uid;
	uint32_t state; /* enum status_session_state */
	uint32_t flags; /* enum admin_session_flag */
	uint32_t n_requests;
	uint32_t n_sequences;
	char model[WIRE_MODEL_NAME];
	int64_t leased; /* pages */
	int64_t quarantined;
	uint64_t bytes;     /* of both, K and V */
	uint64_t age_ns;    /* since it attached */
	uint32_t n_waiting; /* requests that wait for pages */
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct admin_session) == 208, "admin_session");

/* Then struct admin_session [n_sessions], then char [n_names][WIRE_MODEL_NAME]. */
struct admin_reply {
	uint64_t magic;
	uint32_t size; /* sizeof(struct admin_reply) */
	uint16_t version;
	uint16_t op;
	int32_t code; /* 0, or a code of <swakv/error.h>: refused, and nothing changed; ESYSTEM: set, and not saved */
	uint32_t n_sessions;
	int32_t pid;          /* of the broker */
	uint32_t n_attached;  /* sessions that take commands */
	uint32_t n_affected;  /* DRAIN: sessions of that model; DISCONNECT, KILL: 1 */
	uint32_t drained;     /* 1: the whole broker takes no new sessions and requests */
	uint32_t n_drained;   /* models that take none */
	int32_t affected_pid; /* DISCONNECT, KILL: of the session */
	uint32_t n_names;     /* LIST: models that are drained, and follow */
	uint32_t reserved;
	uint64_t age_ns; /* of the broker */
	char version_text[WIRE_NAME];
	char text[512]; /* what was done, or why not */
	uint64_t floor; /* LIMIT: as it is now, bytes; ceiling 0: none */
	uint64_t ceiling;
	uint64_t used;
	uint64_t n_waiting; /* LIMIT: requests of that model */
};
_Static_assert(sizeof(struct admin_reply) == 640, "admin_reply");

_Static_assert(SOCKET_PATH_SIZE + sizeof(ADMIN_SOCKET_SUFFIX) - 1 == sizeof(((struct sockaddr_un *)0)->sun_path),
	       "both sockets have paths that can be bound");

/* Writes the path of the administrator's socket of the broker that listens on @socket; false: longer than @size. */
static inline int admin_socket_path(const char *socket, char *out, size_t size)
{
	int n = snprintf(out, size, "%s" ADMIN_SOCKET_SUFFIX, socket);

	return n > 0 && (size_t)n < size;
}

#endif
