/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.h - closes what another process has had in its hands
 *
 * Closing a connection also closes what lies in it unread, and a descriptor that
 * a client has sent may be one whose close waits: for a peer that reads nothing
 * (SO_LINGER), for a file system that the client itself serves (FUSE). So threads
 * of their own do it, while the broker goes on.
 */
#ifndef SWAKV_BROKER_CLOSER_H
#define SWAKV_BROKER_CLOSER_H

/* Starts them, once, for the life of the process: before the first connection. 0 or a negative errno. */
int closer_start(void);
/*
 * Takes *@fd, which becomes -1, and closes it soon; -1 is ignored. Of a socket
 * what has come is taken out first: one that is closed over unread messages gives
 * its peer an error before what was sent to it. Does not wait for the close, except
 * where there are no threads, or 16,384 wait for them. Any thread.
 */
void closer_close(int *fd);

#endif
