/* SPDX-License-Identifier: Apache-2.0 */
#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "cleanup.h"

void descriptors_fill_standard(int code)
{
	static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };

	/* From the lowest on: open() takes the lowest number that is free. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
			_exit(code); /* there may be nobody to tell */
}

int descriptor_raise(int fd)
{
	int raised;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close_fd(&fd);
	return raised;
}
