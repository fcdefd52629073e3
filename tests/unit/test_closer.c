/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose close waits hold up no other. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "process/closer.h"

enum { SLOW = 7 };

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void wait_until_closed(int fd)
{
	const struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0; is_open(fd); i++) {
		cr_assert_lt(i, 60000);
		nanosleep(&ms, NULL);
	}
}

/* Its close waits until the other end, *@peer, has read what was sent, or is closed. */
static int slow(int *peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger forever = { .l_onoff = 1, .l_linger = 600 };
	socklen_t len = sizeof(address);
	static const char bytes[65536];
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(bind(listener, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, len), 0);
	*peer = accept(listener, NULL, NULL);
	cr_assert(*peer >= 0);
	close(listener);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)), 0);
	return fd;
}

Test(closer, one_whose_close_waits_holds_up_no_other)
{
	int peers[SLOW], pair[2];

	cr_assert_eq(closer_start(), 0);
	for (int i = 0; i < SLOW; i++) {
		int fd = slow(&peers[i]);

		closer_close(&fd);
		cr_assert_eq(fd, -1);
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		closer_close(&pair[0]);
		cr_assert_eq(read(pair[1], &fd, 1), 0, "the other end hears of it");
		close(pair[1]);
	}
	for (int i = 0; i < SLOW; i++)
		close(peers[i]);
}

Test(closer, all_are_closed_however_many_come_at_once)
{
	int fds[200], numbers[200];

	cr_assert_eq(closer_start(), 0);
	for (int i = 0; i < 200; i++)
		fds[i] = numbers[i] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < 200; i++)
		closer_close(&fds[i]);
	for (int i = 0; i < 200; i++)
		wait_until_closed(numbers[i]);
}

Test(closer, what_is_none_is_ignored)
{
	int none = -1;

	closer_close(&none);
	cr_expect_eq(none, -1);
}
