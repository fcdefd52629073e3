/* SPDX-License-Identifier: Apache-2.0 */
/* activation.h - sockets that listened before the broker was started, as systemd passes them (sd_listen_fds(3)) */
#ifndef SWAKV_BROKER_ACTIVATION_H
#define SWAKV_BROKER_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Takes note of what $LISTEN_FDS names, where $LISTEN_PID is this process, and keeps it
 * from children. 0, or -1 with the sentence in @why: one is not a listening Unix socket of type SOCK_SEQPACKET.
 */
int activation_begin(char *why, size_t size);
/* True when one of them listens on @path and has not been taken. */
bool activation_has(const char *path);
/* The one that listens on @path, now the caller's; -1: none. */
int activation_take(const char *path);
/* The path of one that nobody has taken, NULL: there is none. */
const char *activation_left(void);

#endif
