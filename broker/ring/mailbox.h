/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.h - one thread tells another about a session, without a lock
 *
 * A ck_ring between two threads of the broker and an eventfd that wakes the
 * reader. It is sized so that all mails that can be under way at once fit:
 * posting cannot fail.
 */
#ifndef SWAKV_BROKER_MAILBOX_H
#define SWAKV_BROKER_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

struct admin_job;
struct channel;

enum mail_kind {
	/* control thread to ring thread */
	MAIL_ATTACH,       /* a new session: take it */
	MAIL_SOCKET_ENDED, /* its connection is gone; value: 1: by the broker's will, and its worker may not know yet */
	MAIL_PROCESS_GONE, /* its process is gone, and the grace is over: proof that nothing of it runs */
	MAIL_MEMORY_LOST,  /* pages of its session memory are gone */
	MAIL_FORGET,       /* last mail about a reclaimed session */
	MAIL_STOP,         /* leave the loop; channel is NULL */
	MAIL_PUBLISH,      /* a new status page waits for a picture; channel is NULL */
	MAIL_ADMIN,        /* do `job`; channel is NULL */
	MAIL_DEVICE_LOST,  /* no new requests; value: since when, CLOCK_MONOTONIC; channel is NULL */
	/* ring thread to control thread */
	MAIL_ATTACHED,   /* value: 0, or the code of the refusal */
	MAIL_CLOSED,     /* the worker said close */
	MAIL_KICKED,     /* value: enum violation */
	MAIL_RECLAIMED,  /* value: pages that returned */
	MAIL_FORGOTTEN,  /* the ring thread will not touch the channel again */
	MAIL_ADMIN_DONE, /* `job` is the control thread's again; channel is NULL */
};

/* Mails about one session that can wait in one direction at a time. */
#define MAILS_PER_SESSION 8
/* Mails about none that can. */
#define MAILS_BESIDE 16

struct mail {
	enum mail_kind kind;
	struct channel *channel;
	int64_t value;
	struct admin_job *job;
};

struct mailbox;

/* For up to @n_sessions sessions at a time. NULL when memory or descriptors are short. */
struct mailbox *mailbox_new(uint32_t n_sessions);
/* Returns NULL; NULL is ignored. */
struct mailbox *mailbox_free(struct mailbox *m);
/* Readable after a post; for epoll, edge-triggered, never read. */
int mailbox_fd(const struct mailbox *m);
void mailbox_post_spsc(struct mailbox *m, enum mail_kind kind, struct channel *channel, int64_t value);
void mailbox_post_job_spsc(struct mailbox *m, enum mail_kind kind, struct admin_job *job);
/* False: empty. */
bool mailbox_take_spsc(struct mailbox *m, struct mail *out);

#endif
