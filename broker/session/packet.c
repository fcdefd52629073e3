/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <string.h>
#include <sys/socket.h>

#include "process/closer.h"

enum { MAX_RECEIVED = 253, MAX_SENT = 8 }; /* all that a message can have: the kernel closes what finds no room */

/* The first descriptor of @h goes to *@fd when that has none yet, the others are closed. */
static void take_fds(struct cmsghdr *h, int *first)
{
	size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
		if (*first < 0)
			*first = fd;
		else
			closer_close(&fd);
	}
}

ssize_t packet_receive(int socket, void *buf, size_t size, struct packet_origin *origin)
{
	union {
		struct cmsghdr align; /* the credentials come first: descriptors cannot crowd them out */
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(MAX_RECEIVED * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	struct ucred sender;

	*origin = (struct packet_origin){ .fd = -1 };
	if (n < 0)
		return n;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h; h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET)
			continue;
		if (h->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&sender, CMSG_DATA(h), sizeof(sender));
			origin->pid = sender.pid;
		} else if (h->cmsg_type == SCM_RIGHTS) {
			take_fds(h, &origin->fd);
		}
	}
	origin->lost = origin->fd < 0 && msg.msg_flags & MSG_CTRUNC;
	return n;
}

bool packet_send(int socket, const struct iovec *parts, uint32_t n_parts, const int *fds, uint32_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_SENT * sizeof(int))];
	} control = { 0 };
	size_t fd_bytes = n_fds * sizeof(*fds);
	struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = n_parts };
	size_t size = 0;

	for (uint32_t i = 0; i < n_parts; i++)
		size += parts[i].iov_len;
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

/*
 * A socket closed over unread messages gives its peer an error before what was
 * sent to it. So nothing more may come in, and what has come the closer takes out.
 */
void packet_send_last(int socket, const void *buf, size_t size)
{
	if (send(socket, buf, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* it has left already */
	shutdown(socket, SHUT_RD);
}
