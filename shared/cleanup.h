/* SPDX-License-Identifier: Apache-2.0 */
/* cleanup.h - scope-bound release of fds, heap memory and FILEs; errno is kept */
#ifndef SWAKV_CLEANUP_H
#define SWAKV_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0) {
		int e = errno;

		close(*fd);
		errno = e;
	}
}

static inline void cleanup_free(void *p)
{
	int e = errno;

	free(*(void **)p);
	errno = e;
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f) {
		int e = errno;

		fclose(*f);
		errno = e;
	}
}

#define AUTO_CLOSE  __attribute__((cleanup(cleanup_close)))
#define AUTO_FREE   __attribute__((cleanup(cleanup_free)))
#define AUTO_FCLOSE __attribute__((cleanup(cleanup_fclose)))

/* Hands the fd on to a new owner: the scope no longer closes it. */
static inline int steal_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

/* Closes *@fd if open and forgets it. Returns -1 so that `fd = close_fd(&fd)` reads well. */
static inline int close_fd(int *fd)
{
	cleanup_close(fd);
	*fd = -1;
	return -1;
}

#endif
