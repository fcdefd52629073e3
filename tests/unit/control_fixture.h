/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_fixture.h - the control thread for a test, without a thread
 *
 * Each test is the loop of the control thread and, at the other end of the
 * mailboxes, the ring thread. A worker is a child that connects, says hello, and
 * then does nothing; the test keeps a copy of its socket, so that connection,
 * process and session end in any order.
 */
#ifndef SWAKV_TESTS_CONTROL_FIXTURE_H
#define SWAKV_TESTS_CONTROL_FIXTURE_H

#include "cleanup.h"
#include "hello.h"
#include "session/client.h"

struct worker {
	pid_t pid;
	int pidfd;
	int socket;
	struct channel *channel;
};

extern struct config config;
extern struct backend_pool pool;
extern struct gpu_watch watch;
extern struct listener listener;
extern struct ring_thread ring;
extern struct control control;
extern int signals;
extern struct wire_hello hello;
extern uid_t worker_uid; /* 0: the test's own */
extern struct sockaddr_un address;
extern socklen_t address_bytes;

/* For one session at a time, or for so many. */
void fixture_setup(void);
void fixture_setup_for(uint32_t max_sessions);
void fixture_teardown(void);
/* One round of what is ready. */
void turn(void);
/* The next mail to the ring thread, which must be this one. */
struct channel *told(enum mail_kind kind);
void told_no_more(void);
void tell(enum mail_kind kind, struct channel *channel);
/* Once it has done its next step. */
void wait_for(const struct worker *w);
/* The peer is who connects and says hello, whoever holds the socket later. */
struct worker connect_worker(void);
void say_hello(const struct worker *w);
/* The answer to its hello: its code. */
int answer(const struct worker *w);
/* Ready to be served: welcomed, and the ring thread has its channel. */
struct worker attach(void);
/* Its process is gone, and whoever looks at its pidfd will see that. */
void end_process(struct worker *w);
/* For all that hold it, the child too. */
void end_connection(struct worker *w);
/* From now on mail is seen only by those who look for it in the middle of their own event. */
void hide_mail(void);
uint64_t used(enum ledger_item item);
void counted_out_once(void);
/* From the end of a worker that is attached on; its connection stays. */
void forget(struct worker *w);

#endif
