/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - where the exporter listens */
#ifndef SWAKV_EXPORTER_ADDRESS_H
#define SWAKV_EXPORTER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_TEXT 64
#define ADDRESS_RULE "IPv4[:PORT] or [IPv6][:PORT], both as numbers"

struct address {
	struct sockaddr_storage where;
	socklen_t bytes;
};

/* "127.0.0.1", "0.0.0.0:9471", "[::1]:0"; without a port @port. False: @text is none. */
bool address_read(struct address *a, const char *text, unsigned int port);
/* True for one that only this machine can reach. */
bool address_is_local(const struct address *a);
/* "127.0.0.1:9471", as in an URL. Writes to @buf and returns it. */
const char *address_text(const struct address *a, char buf[ADDRESS_TEXT]);
/* A socket that listens there, not blocking; port 0 becomes the one that was chosen. Or a negative errno. */
int address_listen(struct address *a);
/*
 * True when @host, the header of a request, names this machine by a number or as "localhost": what a browser
 * sends that was led here by a name of somebody else's is none.
 */
bool address_host_is_local(const char *host);

#endif
