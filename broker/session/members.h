/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.h - further processes of a session (spec section 11)
 *
 * A member is a client of its own, with a connection and a process and without a
 * channel: it has the session's memory mapped and gives no commands. The pages of
 * a session return when all of its processes are proven to be through, each as a
 * process alone would be; until then its armed words prove nothing. Control
 * thread only.
 */
#ifndef SWAKV_BROKER_MEMBERS_H
#define SWAKV_BROKER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "handshake.h"
#include "packet.h"

struct client;

/* The session of @c may be joined from now on, by who has the key, which it gets. False: no random numbers. */
bool members_open(struct client *c);
/*
 * @c has said hello, checked, and names a session: it becomes a member of that.
 * 0, or a code with *@r filled.
 */
int members_join(struct client *c, struct refusal *r);
/* The session of @c has ended: its members are told, by the end of their connections. */
void members_end(struct client *c);
/* Nothing of the process of member @c runs any more, or it has said that it left. */
void members_gone(struct client *c, const char *how);
/* SIGKILL to those of @c's session that live; how many. */
unsigned members_kill(struct client *c);

#endif
