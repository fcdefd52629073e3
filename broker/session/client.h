/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one connection, from accept to the last trace of its process
 *
 * Control thread only. The files of this folder look inside, others do not.
 */
#ifndef SWAKV_BROKER_CLIENT_H
#define SWAKV_BROKER_CLIENT_H

#include "control.h"
#include "handshake.h"
#include "peer.h"
#include "ring/mailbox.h"

enum connection_state { CONNECTION_HELLO, CONNECTION_OPEN, CONNECTION_ENDED };
enum process_state { PROCESS_ALIVE, PROCESS_EXITED, PROCESS_TOLD };
enum session_state {
	SESSION_NONE,
	SESSION_ATTACHING, /* the ring thread is asked to take it */
	SESSION_LIVE,
	SESSION_ENDED, /* takes no more commands; its pages wait */
	SESSION_FORGETTING,
	SESSION_GONE
};

struct client {
	TAILQ_ENTRY(client) link;
	struct control *control;
	struct peer peer;
	char name[PEER_NAME]; /* of its process, for people */
	enum connection_state connection;
	enum process_state process;
	enum session_state session;
	bool cut;         /* its connection was ended here: the worker may not know, and go on */
	bool closed;      /* the worker said close: it unmaps before its connection ends */
	uint64_t overdue; /* as the channel's, when it was last reported */
	bool graced;      /* it has ended, and the grace is over */
	bool left_gpu;    /* it has ended, and NVML does not list it any more */
	uint32_t gpu;     /* 1 + the place of its process at the watch over the GPU, 0: none */
	bool memory_told; /* the ring thread was told that its session memory has lost pages */
	bool settled;     /* on the done list: freed at the end of the turn */
	int socket;
	int pidfd;
	struct source socket_source;
	struct source pidfd_source;
	uint64_t deadline; /* of the hello, or of the grace after the process's end; 0: none */
	struct channel *channel;
	struct client *first; /* of the session it has joined (members.h); NULL: none */
	TAILQ_ENTRY(client) in_members;
	TAILQ_HEAD(, client) members; /* who has joined its session */
	uint32_t n_members;
	bool joinable, joined; /* its session: others may enter it, some have */
	uint8_t key[WIRE_KEY];
	struct charge half_open;
	struct charge counted; /* as a session */
	struct charge lingering;
	struct room room;
	struct handshake *handshake; /* until the welcome is sent */
};

/* ---- events: each may move the client to the registry's done list ---- */

/* Callbacks of the dispatcher; @owner is the client. */
void client_on_socket(void *owner, uint32_t events);
void client_on_pidfd(void *owner, uint32_t events);
/* A mail from the ring thread about @c. */
void client_mail(struct client *c, const struct mail *m);
/* The connection has ended, or is ended now: @how says which, for the log. */
void client_connection_ended(struct client *c, const char *how);
/* The deadline of its hello, or of the grace after its process's end, is over. */
void client_deadline_passed(struct client *c);
/* The broker stops: who has not attached is refused; the others are told, and what they wait for answers "gone". */
void client_stop(struct client *c);
/* Acts when its process has ended and the GPU knows nothing of it any more. */
void client_left_gpu(struct client *c);
/* Has the session ended when its memory has lost pages. */
void client_memory_lost(struct client *c);
/* Logs a completion point that the ring thread finds open for long, and that it is not any more. */
void client_report_overdue(struct client *c);
/* Lets go of everything at once, whatever state it is in; the ring thread must have ended. */
void client_drop(struct client *c);

/* ---- for the steps that an event is made of ---- */

/* True when its process may still have the pool mapped, as far as that matters for freeing it. */
bool client_holds_pool(const struct client *c);
void client_post(struct client *c, enum mail_kind kind);
/* Tells it why it may not attach, and closes its connection. */
void client_refuse(struct client *c, const struct refusal *r);
void client_refuse_reason(struct client *c, enum fault_reason reason, int64_t got, int64_t want);
/* From now on its process is watched on the GPU, if there is one; until client_unwatch_gpu(), which is safe to repeat.
 */
void client_watch_gpu(struct client *c);
void client_unwatch_gpu(struct client *c);
/* Frees what the session has of memory and of places. Safe to repeat. */
void client_free_session(struct client *c);
/* Its session's other processes are all through. */
void client_last_member_gone(struct client *c);
/* Moves the client to the done list when nothing of it is left. */
void client_settle(struct client *c);

#endif
