/* SPDX-License-Identifier: Apache-2.0 */
#include "ready.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "log/log.h"

void ready_notify(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	if (fd >= 0) { /* what was inherited may be a pipe that nobody reads: it is not waited for */
		if (poll(&p, 1, 0) != 1)
			log_warning("readiness was not written to descriptor %d: it accepts no data now", fd);
		else if (write(fd, "ready\n", 6) != 6)
			log_warning("readiness could not be written to descriptor %d: %s", fd, strerror(errno));
		close(fd);
	}
#ifdef HAVE_SYSTEMD
	sd_notify(0, "READY=1");
#endif
}

void ready_stopping(void)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, "STOPPING=1");
#endif
}
