/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_kernel.h - a program that includes this runs on the kernel that it says
 *
 * Takes the place of the C library's getsockopt() in the whole program: what
 * SO_PEERPIDFD answers is the test's choice, all else is the kernel's.
 */
#ifndef SWAKV_TEST_OLD_KERNEL_H
#define SWAKV_TEST_OLD_KERNEL_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int peerpidfd_error; /* 0: as the kernel answers; ENOPROTOOPT: as one before Linux 6.5 */

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
	if (level == SOL_SOCKET && name == SO_PEERPIDFD && peerpidfd_error) {
		errno = peerpidfd_error;
		return -1;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

#endif
