/* SPDX-License-Identifier: Apache-2.0 */
/* sealed_memfd.c - see sealed_memfd.h */
#include "sealed_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cleanup.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int memfd_new(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

int sealed_memfd(const char *name, uint64_t bytes, unsigned int seals, unsigned char **map)
{
	AUTO_CLOSE int fd = memfd_new(name);
	void *p;
	int r;

	if (fd < 0)
		return fd;
	if (bytes == 0 || bytes > INT64_MAX || ftruncate(fd, (off_t)bytes) < 0)
		return bytes == 0 || bytes > INT64_MAX ? -EINVAL : -errno;
	r = posix_fallocate(fd, 0, (off_t)bytes);
	if (r != 0)
		return -r;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | seals) < 0) {
		r = -errno;
		munmap(p, bytes);
		return r;
	}
	*map = p;
	return steal_fd(&fd);
}
