/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.c - see page.h
 *
 * Containers share the folder with the socket, and have a /dev/shm each. Whoever
 * answers at the socket is believed to be the broker, as swakv-ctl does.
 */
#include "page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "instance.h"

enum { PATIENCE_MS = 2000 }; /* the broker answers this without its ring thread */

/* The socket of a broker of that name, in @path, where there is one. */
static bool find_socket(const char *instance, char path[SOCKET_PATH_SIZE])
{
	const char *folder;

	for (unsigned int i = 0; (folder = instance_folder(i)); i++)
		if (instance_socket(path, SOCKET_PATH_SIZE, folder, instance) < SOCKET_PATH_SIZE &&
		    access(path, F_OK) == 0)
			return true;
	return false;
}

static void ask_for_page(struct page *p, const char *socket)
{
	const struct question q = { .socket = socket,
				    .look = "swakv-status beside it",
				    .timeout_ms = PATIENCE_MS,
				    .request = { .op = ADMIN_STATUS } };
	struct answer *a = malloc(sizeof(*a));

	p->asked = true;
	p->answer = CTL_REFUSED;
	strlcpy(p->why, "no memory", sizeof(p->why));
	if (!a)
		return;
	p->answer = ask(&q, a);
	p->now_ns = clock_ns();
	p->pid = a->pid;
	strlcpy(p->name, a->greeting.name, sizeof(p->name));
	strlcpy(p->why, a->text, sizeof(p->why));
	if (p->answer == CTL_DONE)
		p->error = status_reader_adopt(&p->reader, a->fd);
	free(a);
}

void page_open(struct page *p, const char *instance, const char *socket)
{
	char path[SOCKET_PATH_SIZE];
	int by_name;

	*p = (struct page){ .reader = { .fd = -1 }, .error = -ENOENT, .now_ns = clock_ns() };
	if (socket) {
		ask_for_page(p, socket);
		return;
	}
	by_name = p->error = status_reader_open(&p->reader, instance);
	if ((by_name != -ENOENT && by_name != -EACCES) || !find_socket(instance, path))
		return;
	ask_for_page(p, path);
	if (by_name == -EACCES && p->answer != CTL_DONE)
		p->asked = false; /* it is there, and that it may not be read says more */
}

void page_close(struct page *p)
{
	status_reader_close(&p->reader);
}
