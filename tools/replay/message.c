/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "cleanup.h"

static int send_all(int fd, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n > 0) {
		ssize_t r = send(fd, at, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue; /* what was begun is sent whole */
		if (r < 0)
			return errno == ECONNRESET ? -EPIPE : -errno;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int message_send(int fd, const json_t *message)
{
	AUTO_FREE char *text = json_dumps(message, JSON_COMPACT);
	uint32_t length;
	int r;

	if (!text)
		return -ENOMEM;
	length = (uint32_t)strlen(text);
	r = send_all(fd, &length, sizeof(length));
	return r ? r : send_all(fd, text, length);
}

static int receive_all(int fd, int timeout_ms, void *bytes, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char *at = bytes;

	while (n > 0) {
		ssize_t r;
		int ready = poll(&p, 1, timeout_ms);

		if (ready <= 0)
			return ready == 0 ? -ETIMEDOUT : -errno;
		r = recv(fd, at, n, 0);
		if (r == 0 || (r < 0 && errno == ECONNRESET))
			return -EPIPE;
		if (r < 0)
			return -errno;
		at += r;
		n -= (size_t)r;
	}
	return 0;
}

int message_receive(int fd, int timeout_ms, json_t **out)
{
	uint32_t length = 0;
	char *text;
	int r = receive_all(fd, timeout_ms, &length, sizeof(length));

	*out = NULL;
	if (r)
		return r;
	if (length > MESSAGE_MAX)
		return -EPROTO;
	text = malloc(length ? length : 1);
	if (!text)
		return -ENOMEM;
	r = receive_all(fd, timeout_ms, text, length);
	if (r == 0)
		*out = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	if (r)
		return r;
	if (!json_is_object(*out)) {
		json_decref(*out);
		*out = NULL;
		return -EPROTO;
	}
	return 0;
}
