/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.h - the place of a broker that has died: its lock and its socket
 *
 * Whoever holds the flock of "<socket>.lock" may replace the socket: a live
 * broker keeps it, a dead one has lost it. No broker unlinks the lock file; in
 * case somebody else does, a socket that somebody has bound is never replaced.
 * The status page is taken over by the same name, in shared/status_name.c.
 */
#ifndef SWAKV_BROKER_TAKEOVER_H
#define SWAKV_BROKER_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Takes the lock of the socket @path, whose directory is made when missing:
 * *@lock, owned by the caller also when this fails (-1: none). 0; or an enum
 * exit_code with the sentence in @why: EXIT_CODE_IN_USE when a live broker holds it, or
 * when something is in the way that is no socket (a symbolic link, say) or is
 * one that a live process has bound.
 * @everyone: other users may enter a directory that is made.
 */
int takeover_lock(int *lock, const char *path, bool everyone, char *why, size_t size);
/* Removes the socket that a dead process left at @path, if one is there. As above. */
int takeover_socket(const char *path, char *why, size_t size);

#endif
