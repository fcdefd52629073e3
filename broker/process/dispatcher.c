/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatcher.h"

#include <errno.h>

#include "cleanup.h"

int dispatcher_init(struct dispatcher *d)
{
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	return d->epoll < 0 ? -errno : 0;
}

void dispatcher_deinit(struct dispatcher *d)
{
	close_fd(&d->epoll);
}

int dispatcher_add(struct dispatcher *d, struct source *s, int fd, uint32_t events,
		   void (*event)(void *owner, uint32_t events), void *owner)
{
	struct epoll_event ev = { .events = events, .data.ptr = s };

	*s = (struct source){ .fd = fd, .event = event, .owner = owner };
	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) == 0)
		return 0;
	s->fd = -1;
	return -errno;
}

void dispatcher_remove(struct dispatcher *d, struct source *s)
{
	if (s->fd >= 0 && s->event)
		epoll_ctl(d->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
}

void dispatcher_run(struct dispatcher *d, int timeout_ms)
{
	struct epoll_event events[64];
	int n = epoll_wait(d->epoll, events, 64, timeout_ms);

	for (int i = 0; i < n; i++) {
		struct source *s = events[i].data.ptr;

		if (s->fd >= 0)
			s->event(s->owner, events[i].events);
	}
}
