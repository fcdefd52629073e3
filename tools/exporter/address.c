/* SPDX-License-Identifier: Apache-2.0 */
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cleanup.h"
#include "number.h"

enum { BACKLOG = 128 };

static struct sockaddr_in *v4(struct address *a)
{
	return (void *)&a->where;
}

static struct sockaddr_in6 *v6(struct address *a)
{
	return (void *)&a->where;
}

static in_port_t *port_of(struct address *a)
{
	return a->where.ss_family == AF_INET ? &v4(a)->sin_port : &v6(a)->sin6_port;
}

/* Splits "HOST" or "HOST:PORT", and "[HOST]" the same: @host gets the former, *@port points behind the colon, or is
 * NULL.
 */
static bool split(const char *text, char host[ADDRESS_TEXT], const char **port)
{
	bool brackets = text[0] == '[';
	const char *begin = text + brackets, *end = brackets ? strchr(begin, ']') : begin + strcspn(begin, ":");
	size_t n;

	if (!end)
		return false;
	n = (size_t)(end - begin);
	end += brackets;
	if (n == 0 || n >= ADDRESS_TEXT || (*end != '\0' && *end != ':'))
		return false;
	memcpy(host, begin, n);
	host[n] = '\0';
	*port = *end == ':' ? end + 1 : NULL;
	return true;
}

bool address_read(struct address *a, const char *text, unsigned int port)
{
	char host[ADDRESS_TEXT];
	const char *said;
	uint64_t n = port;

	*a = (struct address){ 0 };
	if (!split(text, host, &said) || (said && !number_read(said, 0, UINT16_MAX, &n)))
		return false;
	if (text[0] == '[') {
		a->where.ss_family = AF_INET6;
		a->bytes = sizeof(struct sockaddr_in6);
		if (inet_pton(AF_INET6, host, &v6(a)->sin6_addr) != 1)
			return false;
	} else {
		a->where.ss_family = AF_INET;
		a->bytes = sizeof(struct sockaddr_in);
		if (inet_pton(AF_INET, host, &v4(a)->sin_addr) != 1)
			return false;
	}
	*port_of(a) = htons((uint16_t)n);
	return true;
}

bool address_is_local(const struct address *a)
{
	struct address copy = *a;

	if (a->where.ss_family == AF_INET)
		return ntohl(v4(&copy)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&v6(&copy)->sin6_addr);
}

const char *address_text(const struct address *a, char buf[ADDRESS_TEXT])
{
	struct address copy = *a;
	bool six = a->where.ss_family == AF_INET6;
	const void *number = six ? (const void *)&v6(&copy)->sin6_addr : (const void *)&v4(&copy)->sin_addr;
	char host[INET6_ADDRSTRLEN] = "";

	inet_ntop(a->where.ss_family, number, host, sizeof(host));
	snprintf(buf, ADDRESS_TEXT, six ? "[%s]:%u" : "%s:%u", host, ntohs(*port_of(&copy)));
	return buf;
}

int address_listen(struct address *a)
{
	AUTO_CLOSE int fd = socket(a->where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)&a->where, a->bytes) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a->where, &a->bytes) < 0)
		return -errno;
	return steal_fd(&fd);
}

bool address_host_is_local(const char *host)
{
	struct address a;
	char name[ADDRESS_TEXT];
	const char *port;

	if (address_read(&a, host, 0))
		return true;
	return split(host, name, &port) && host[0] != '[' && strcasecmp(name, "localhost") == 0;
}
