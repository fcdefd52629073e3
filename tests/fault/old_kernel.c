/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel.c - LD_PRELOAD: a kernel that does not say which process connected
 *
 * Without $OLD_KERNEL_ERRNO as before Linux 6.5, where SO_PEERPIDFD is no option
 * at all; with it, one that knows the option and fails with that number.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

__attribute__((visibility("default"))) int getsockopt(int fd, int level, int name, void *restrict value,
						      socklen_t *restrict len)
{
	const char *failure = getenv("OLD_KERNEL_ERRNO");

	if (level != SOL_SOCKET || name != SO_PEERPIDFD)
		return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
	errno = failure ? atoi(failure) : ENOPROTOOPT;
	return -1;
}
