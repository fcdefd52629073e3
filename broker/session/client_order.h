/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_order.h - what an administrator may ask for
 *
 * With a sentence in @why: 0, or a code. Neither frees a page: that takes the
 * same proof as ever.
 */
#ifndef SWAKV_BROKER_CLIENT_ORDER_H
#define SWAKV_BROKER_CLIENT_ORDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct client;

/* As if its connection had ended. SWAKV_EGONE: it is not live. */
int client_disconnect(struct client *c, char *why, size_t size);
/* SIGKILL to the process that attached, by its pidfd. SWAKV_EGONE: it has ended; SWAKV_EDENIED: the broker may not. */
int client_kill(struct client *c, char *why, size_t size);
pid_t client_pid(const struct client *c);
uint32_t client_generation(const struct client *c);

#endif
