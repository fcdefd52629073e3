/* SPDX-License-Identifier: Apache-2.0 */
/* packet.h - one message with descriptors, over a socket that keeps the bounds of messages */
#ifndef SWAKV_BROKER_PACKET_H
#define SWAKV_BROKER_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What came with a message beside its bytes. */
struct packet_origin {
	pid_t pid; /* of the process that sent it, as the kernel says; 0: not of this pid namespace, or no SO_PASSCRED
		    */
	int fd;    /* the first descriptor that came with it, now the caller's; -1: none; others are closed */
	bool lost; /* there was a descriptor, and this process had no number left for it */
};

/*
 * Takes the next message, at most @size bytes of it. The length that it had, 0 at
 * the connection's end, -1 with errno; never waits.
 */
ssize_t packet_receive(int socket, void *buf, size_t size, struct packet_origin *origin);
/*
 * Sends the @n_parts of @parts as one message, with @n_fds descriptors, at most 8
 * of them, which stay the caller's. False: not all went; never waits.
 */
bool packet_send(int socket, const struct iovec *parts, uint32_t n_parts, const int *fds, uint32_t n_fds);
/*
 * The last word on a connection: sends @buf so that the peer reads it whatever it
 * is just sending itself, and takes nothing more from it. @socket is still to be closed, by closer_close().
 */
void packet_send_last(int socket, const void *buf, size_t size);

#endif
