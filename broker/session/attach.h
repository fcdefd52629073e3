/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - from a hello to a session, or to a refusal that says why
 *
 * In two steps: the hello is judged, places and memory are taken, and the ring
 * thread is asked to take the session; its answer brings the welcome.
 */
#ifndef SWAKV_BROKER_ATTACH_H
#define SWAKV_BROKER_ATTACH_H

#include "client.h"
#include "packet.h"

/* The first message of @c, of @bytes, from @origin. */
void attach_hello(struct client *c, const void *message, size_t bytes, const struct packet_origin *origin);
/* The ring thread has taken the session (@code 0), or has no memory for it. */
void attach_done(struct client *c, int code);

#endif
