/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - one message with descriptors, over a socket that keeps the bounds of messages */
#ifndef SWAKV_BROKER_PACKET_H
#define SWAKV_BROKER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Takes the next message, at most @size bytes of it. *@sent: the first descriptor
 * that came with it, now the caller's, or -1; others are closed. Length, 0 at
 * the connection's end, -1 with errno; never waits.
 */
ssize_t packet_receive(int socket, void *buf, size_t size, int *sent);
/* Sends @buf with @n_fds descriptors, at most 8 of them, which stay the caller's. False: not all went; never waits. */
bool packet_send(int socket, const void *buf, size_t size, const int *fds, uint32_t n_fds);

#endif
