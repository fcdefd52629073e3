/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_answer.h - answers, from the reply ring to the calls that they are of
 *
 * A reply is copied out of the ring once, its slots are given back, and only
 * the copy is looked at. A reply that names no call in flight, or another
 * operation than that call's, means that the two sides no longer agree about
 * anything: the session is over.
 */
#ifndef SWAKV_CLIENT_CALL_ANSWER_H
#define SWAKV_CLIENT_CALL_ANSWER_H

#include "call.h"

/* Takes the answers that one look finds. False: there were none, or the session has ended. */
bool calls_take(struct swakv_session *s);
/* After slots were given back: a broker that has a command of ours may wait for them. */
void calls_wake(struct swakv_session *s);
/* Takes every answer that is there. */
void calls_drain(struct swakv_session *s);
/* Answers every call in flight with SWAKV_EGONE and @why. */
void calls_fail(struct swakv_session *s, const char *why);

/* An effect for calls that have none: the payload is copied to c->answer. */
call_effect call_effect_answer;

#endif
