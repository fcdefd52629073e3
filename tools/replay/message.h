/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - JSON objects over a stream socket, each behind its length */
#ifndef SWAKV_REPLAY_MESSAGE_H
#define SWAKV_REPLAY_MESSAGE_H

#include <jansson.h>

/* Longest message: a dump of a very large worker, and no more. */
#define MESSAGE_MAX (256u << 20)

/* 0 or a negative errno; -EPIPE: the other side has ended. */
int message_send(int fd, const json_t *message);
/*
 * *@out is a new reference. 0; -EPIPE: the other side has ended; -ETIMEDOUT:
 * nothing came for @timeout_ms (negative: for ever); -EINTR: a signal came;
 * -EPROTO: no JSON object.
 */
int message_receive(int fd, int timeout_ms, json_t **out);

#endif
