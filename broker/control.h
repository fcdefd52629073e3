/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the control thread: connections, processes, reclaim, stop
 *
 * The loop over what session/ and admin/ do: accepting, judging who asks, watching
 * sockets and pidfds, telling the ring thread. It never looks into a ring.
 */
#ifndef SWAKV_BROKER_CONTROL_H
#define SWAKV_BROKER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/admin.h"
#include "config/config.h"
#include "device/backend.h"
#include "device/device_health.h"
#include "device/gpu_watch.h"
#include "process/dispatcher.h"
#include "ring/ring_thread.h"
#include "session/acceptor.h"
#include "session/places.h"
#include "session/registry.h"
#include "status_page.h"

struct control {
	const struct config *config;
	const struct backend_pool *pool;
	struct gpu_watch *watch;
	struct ring_thread *ring;
	struct status_writer *status;
	uint8_t boot_id[16];
	struct session_edge edge;
	struct dispatcher dispatcher; /* of the real edge, and of the mail */
	struct source mail_source;
	struct source signal_source;
	struct source watch_source;
	struct source health_source;
	const struct device_health *health;
	bool device_lost;
	int signals;
	int spare; /* descriptor that is given up to turn somebody away when no other is left */
	struct places places;
	struct registry registry;
	struct acceptor acceptor;
	uint32_t n_stop_signals;
	uint64_t stop_at; /* when waiting for workers ends, 0: not stopping */
	struct admin admin;
	uint64_t page_at; /* not before: the status page is looked after */
	int page_error;   /* of the last try to replace it */
};

/*
 * All pointers are borrowed until control_deinit(). @signals: a signalfd with
 * the signals that stop the broker. @edge is copied; NULL: the world itself. 0 or
 * a negative errno.
 */
int control_init(struct control *c, const struct config *config, const struct backend_pool *pool,
		 struct gpu_watch *watch, struct listener *listener, struct ring_thread *ring,
		 struct status_writer *status, const uint8_t boot_id[16], int signals, const struct session_edge *edge);
/* When @h says that the device is lost, there are no new sessions and requests any more; what else happens, the
 * configuration says. @h is borrowed as well. */
int control_watch_device(struct control *c, const struct device_health *h);
/* Serves until a signal ends it. True: no worker can have the pool mapped any more. */
bool control_run(struct control *c);
/* The end of a turn of the loop, when what was ready at @now has been told: deadlines, and what is done. */
void control_turn(struct control *c, uint64_t now);
/* Milliseconds from @now to the next turn, if nothing is ready before. */
int control_turn_ms(const struct control *c, uint64_t now);
/* The stop is over when all let go, when time is up, or when a second signal asks for haste. */
bool control_stopped(const struct control *c, uint64_t now);
/* As the first signal that stops the broker; a second one asks for haste. */
void control_stop(struct control *c);
/* Handles what the ring thread has said so far. */
void control_take_mail(struct control *c);
/* After the ring thread's end: frees every client. */
void control_deinit(struct control *c);

#endif
