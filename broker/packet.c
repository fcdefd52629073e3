/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_RECEIVED = 4, MAX_SENT = 8 };

ssize_t packet_receive(int socket, void *buf, size_t size, int *sent)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_RECEIVED * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*sent = -1;
	if (n < 0)
		return n;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (*sent < 0)
				*sent = fd;
			else
				close(fd);
		}
	}
	return n;
}

bool packet_send(int socket, const void *buf, size_t size, const int *fds, uint32_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_SENT * sizeof(int))];
	} control = { 0 };
	size_t fd_bytes = n_fds * sizeof(*fds);
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > MAX_SENT)
		return false;
	if (n_fds > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_bytes);
		control.align = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						  .cmsg_type = SCM_RIGHTS,
						  .cmsg_len = CMSG_LEN(fd_bytes) };
		memcpy(CMSG_DATA(&control.align), fds, fd_bytes);
	}
	return sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}
