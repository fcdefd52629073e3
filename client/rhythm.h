/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rhythm.h - turns that ring no doorbell, since nobody wants their answer yet
 *
 * A worker with steps of milliseconds sends a turn as soon as the work of its step
 * is enqueued, and collects it when the next step is due. In between the broker
 * has time: the library tells it when it will want a look at the ring next, and
 * the broker, before it sleeps, promises one (struct wire_wait). A turn that is
 * sent with a promise that is early enough wakes nobody. Who wants the answer
 * before that, or sends another command, rings after all.
 */
#ifndef SWAKV_CLIENT_RHYTHM_H
#define SWAKV_CLIENT_RHYTHM_H

#include <stdbool.h>
#include <stdint.h>

#include "call.h"

struct swakv_session;

struct rhythm {
	uint64_t now;   /* the turn that is being sent: its time, 0: it is no such turn, or is waited for at once */
	uint64_t sent;  /* of the last one; 0: none */
	uint64_t every; /* from one to the next */
	uint64_t slack; /* until its answer was wanted */
	swakv_ticket ticket; /* of the last one */
	bool urgent;         /* others gain by what is being sent: it ends or begins requests */
	bool unrung;         /* the broker has not been told of it */
};

/* A turn is being sent; @later: its answer will be collected by a ticket. */
void rhythm_begin(struct swakv_session *s, bool later);
/* It ends or begins requests. */
static inline void rhythm_hurry(struct rhythm *r)
{
	r->urgent = true;
}
/* It has been sent, as @c; NULL: it could not be. */
void rhythm_sent(struct swakv_session *s, const struct call *c);
/* The broker sleeps: whether it need not be told of what was sent just now. */
bool rhythm_is_quiet(struct swakv_session *s);
/* Somebody waits for an answer that is not there: the broker is told now, if it was not. */
void rhythm_ring(struct swakv_session *s);
/* @c is collected. */
void rhythm_collected(struct swakv_session *s, const struct call *c);

#endif
