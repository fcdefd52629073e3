/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one connection, from accept to the last trace of its process
 *
 * Control thread only.
 */
#ifndef SWAKV_BROKER_CLIENT_H
#define SWAKV_BROKER_CLIENT_H

#include "control.h"
#include "ring/mailbox.h"

/* Accepts one connection. 0; -EAGAIN: none is waiting; other negative errno: it cannot be taken now. */
int client_accept(struct control *control);
/*
 * No descriptor is left to accept one: gives up the spare one to tell the first
 * that waits so, and takes it back.
 */
void client_turn_away(struct control *control);
/*
 * What an administrator may ask for, with a sentence in @why: 0, or a code.
 * Disconnect: as if its connection had ended. Kill: SIGKILL to the process that
 * attached, by its pidfd. Neither frees a page: that takes the same proof as ever.
 */
int client_disconnect(struct client *c, char *why, size_t size);
int client_kill(struct client *c, char *why, size_t size);
pid_t client_pid(const struct client *c);
uint32_t client_generation(const struct client *c);
/* A mail from the ring thread about @c. */
void client_mail(struct client *c, const struct mail *m);

/* Refuses all that have not attached and ends the connection of the others: what they wait for answers "gone". */
void client_stop_all(struct control *control);
/* True when some process may still have the pool mapped, as far as that matters for freeing it. */
bool client_any_importer(const struct control *control);

/* Acts on the processes of which the GPU knows nothing any more. */
void client_gone(struct control *control);

/* Has the sessions ended whose memory has lost pages. */
void client_memory_lost(struct control *control);

/* Logs the completion points that the ring thread finds open for long, and those that were and are not any more. */
void client_report_overdue(struct control *control);

/* CLOCK_MONOTONIC of the earliest deadline, 0: none. */
uint64_t client_next_deadline(const struct control *control);
/* Acts on the deadlines that have passed. */
void client_deadlines(struct control *control, uint64_t now);

/* Lets go of everything at once, whatever state it is in; the ring thread must have ended. */
void client_drop(struct client *c);
/* Frees those that are done. */
void client_free_done(struct control *control);

#endif
