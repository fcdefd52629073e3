/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - how a further process asks to be one of a session */
#ifndef SWAKV_CLIENT_JOIN_H
#define SWAKV_CLIENT_JOIN_H

struct swakv_token;
struct wire_hello;

/* @h asks to join the session of @token; NULL: to have one of its own. */
void join_fill(struct wire_hello *h, const struct swakv_token *token);

#endif
