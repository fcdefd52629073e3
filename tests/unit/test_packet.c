/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "process/closer.h"
#include "session/packet.h"

static int pair[2];

static void setup(void)
{
	int yes = 1;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	cr_assert_eq(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)), 0);
}

TestSuite(packet, .init = setup);

static ssize_t receive(struct packet_origin *origin)
{
	char buf[8];

	return packet_receive(pair[0], buf, sizeof(buf), origin);
}

/* Whoever holds the socket: a child that inherited it is another sender. */
Test(packet, a_message_names_the_process_that_sent_it)
{
	struct packet_origin origin;
	pid_t child = fork();

	if (child == 0)
		_exit(send(pair[1], "x", 1, 0) != 1);
	waitpid(child, NULL, 0);
	cr_assert_eq(receive(&origin), 1);
	cr_assert_eq(origin.pid, child);
	cr_assert_eq(origin.fd, -1);
	cr_assert_eq(send(pair[1], "x", 1, 0), 1);
	cr_assert_eq(receive(&origin), 1);
	cr_assert_eq(origin.pid, getpid());
}

static int n_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

Test(packet, descriptors_do_not_crowd_out_the_sender)
{
	AUTO_CLOSE int counter = eventfd(0, EFD_CLOEXEC);
	struct packet_origin origin;
	struct iovec part = { (char[]){ "x" }, 1 };
	int fds[8], before = n_open();

	for (int i = 0; i < 8; i++)
		fds[i] = counter;
	cr_assert(packet_send(pair[1], &part, 1, fds, 8));
	cr_assert_eq(receive(&origin), 1);
	cr_assert_eq(origin.pid, getpid());
	cr_assert_geq(origin.fd, 0);
	cr_assert_not(origin.lost);
	close(origin.fd);
	cr_assert_eq(n_open(), before);
}

Test(packet, a_socket_that_names_nobody_says_0)
{
	struct packet_origin origin;
	int no = 0;

	cr_assert_eq(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &no, sizeof(no)), 0);
	cr_assert_eq(send(pair[1], "x", 1, 0), 1);
	cr_assert_eq(receive(&origin), 1);
	cr_assert_eq(origin.pid, 0);
	cr_assert_eq(receive(&origin), -1);
	cr_assert_eq(errno, EAGAIN);
}

/* A hello that lies unread must not cost its sender the answer. */
Test(packet, the_last_word_is_read_whatever_was_sent_before)
{
	char buf[8] = "";

	for (int i = 0; i < 3; i++)
		cr_assert_eq(send(pair[1], "hello", 5, 0), 5);
	packet_send_last(pair[0], "no", 3);
	cr_assert_eq(send(pair[1], "more", 4, MSG_NOSIGNAL), -1, "nobody will read it");
	closer_close(&pair[0]);
	cr_assert_eq(recv(pair[1], buf, sizeof(buf), 0), 3, "%s", strerror(errno));
	cr_assert_str_eq(buf, "no");
	cr_assert_eq(recv(pair[1], buf, sizeof(buf), 0), 0);
}
