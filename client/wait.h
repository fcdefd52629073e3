/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - waiting for the broker, and noticing that it has died */
#ifndef SWAKV_CLIENT_WAIT_H
#define SWAKV_CLIENT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct swakv_session;

/* Rings the broker's doorbell. */
void session_wake_broker(struct swakv_session *s);
/*
 * Waits until an answer is there, or space for @want command slots (0: not
 * wanted), or @deadline has passed, or the session has broken. Spurious returns
 * are allowed: the caller looks again.
 */
void session_wait(struct swakv_session *s, uint32_t want, uint64_t deadline);
/*
 * The error of a wait whose time is up: for how long the broker has not done @what,
 * and what to do about it. Returns SWAKV_ETIMEDOUT.
 */
int session_late(struct swakv_session *s, const char *what, uint64_t ns);
/*
 * Looks at the socket, @at_once or at most every 250 ms; its end breaks the
 * session after the last answers were taken.
 */
void session_look(struct swakv_session *s, uint64_t now, bool at_once);

#endif
