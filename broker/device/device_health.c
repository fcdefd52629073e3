/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_health.c - see device_health.h
 *
 * What the driver answers to one call may be a passing shortage; an error that
 * stays is the context's, or the device's. So the second look decides.
 */
#include "device_health.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "cleanup.h"

enum { LOOKS = 2 };

int device_health_init(struct device_health *h)
{
	*h = (struct device_health){ .told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	return h->told < 0 ? -errno : 0;
}

void device_health_deinit(struct device_health *h)
{
	if (h->told > 0)
		close_fd(&h->told);
}

bool device_health_lost(const struct device_health *h)
{
	return load_acquire(&h->lost) != 0; /* pairs with device_health_look(): `why` is there */
}

void device_health_look(struct device_health *h, struct backend *b)
{
	if (device_health_lost(h))
		return;
	if (backend_check(b, h->why) == 0) {
		h->failed = 0;
		return;
	}
	if (++h->failed < LOOKS)
		return;
	store_release(&h->lost, 1); /* pairs with device_health_lost() */
	eventfd_write(h->told, 1);
}
