/* SPDX-License-Identifier: Apache-2.0 */
#include "device_thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "cleanup.h"
#include "clock.h"
#include "crash/crash.h"
#include "plan.h"
#include "process/sandbox.h"

enum { BEAT_MS = 500, STOP_MS = 1000 };

static void run_job(struct device_thread *t, enum device_job job)
{
	switch (job) {
	case DEVICE_JOB_OPEN:
		t->code = backend_open(&t->backend, t->config, t->why);
		if (t->code == 0 && (t->code = plan_floors(&t->backend.pool, t->config, t->why)))
			backend_close(&t->backend);
		if (t->code == 0)
			t->code = backend_alloc(&t->backend, t->config, t->why);
		if (t->code == 0 && t->backend.pool.backend == WIRE_BACKEND_CUDA)
			gpu_watch_open(&t->watch, t->backend.pool.device_uuid, t->backend.pool.mps);
		sandbox_no_new_privileges(); /* not before: the driver has nvidia-modprobe make device files */
		break;
	case DEVICE_JOB_RELEASE:
		gpu_watch_close(&t->watch);
		backend_release(&t->backend);
		backend_close(&t->backend);
		t->code = 0;
		break;
	default:
		break;
	}
}

static void *device_main(void *arg)
{
	struct device_thread *t = arg;
	struct pollfd p[] = { { .fd = t->wake, .events = POLLIN }, { .fd = t->watch.knock, .events = POLLIN } };
	enum device_job job = DEVICE_JOB_NONE;
	int wait = BEAT_MS;
	eventfd_t n;

	prctl(PR_SET_NAME, "swakvd-device");
	crash_thread("device", true);
	while (job != DEVICE_JOB_STOP) {
		store_relaxed(&t->status->head->threads[STATUS_THREAD_DEVICE].heartbeat_ns, clock_ns());
		p[0].revents = p[1].revents = 0;
		poll(p, 2, wait);
		if (p[1].revents)
			eventfd_read(t->watch.knock, &n);
		if (p[0].revents == 0)
			device_health_look(&t->health, &t->backend);
		wait = gpu_watch_look(&t->watch, BEAT_MS);
		if (!p[0].revents)
			continue;
		eventfd_read(t->wake, &n);
		job = (enum device_job)load_acquire(&t->job); /* pairs with device_thread_do() */
		run_job(t, job);
		eventfd_write(t->done, 1);
	}
	crash_thread_end();
	return NULL;
}

int device_thread_init(struct device_thread *t, const struct config *config, struct status_writer *status)
{
	int r;

	*t = (struct device_thread){ .config = config, .status = status };
	r = gpu_watch_init(&t->watch);
	if (r == 0)
		r = device_health_init(&t->health);
	if (r < 0) {
		device_thread_deinit(t);
		return r;
	}
	t->wake = eventfd(0, EFD_CLOEXEC);
	t->done = eventfd(0, EFD_CLOEXEC);
	r = t->wake < 0 || t->done < 0 ? -errno : -pthread_create(&t->thread, NULL, device_main, t);
	t->running = r == 0;
	if (r < 0)
		device_thread_deinit(t);
	return r;
}

bool device_thread_do(struct device_thread *t, enum device_job job, int timeout_ms)
{
	struct pollfd p = { .fd = t->done, .events = POLLIN };
	eventfd_t n;
	int r;

	store_release(&t->job, job); /* pairs with device_main() */
	eventfd_write(t->wake, 1);
	do
		r = poll(&p, 1, timeout_ms);
	while (r < 0 && errno == EINTR);
	return r > 0 && eventfd_read(t->done, &n) == 0;
}

void device_thread_deinit(struct device_thread *t)
{
	if (t->running) {
		if (!device_thread_do(t, DEVICE_JOB_STOP, STOP_MS))
			return; /* its descriptors and memory stay with it */
		pthread_join(t->thread, NULL);
		t->running = false;
	}
	gpu_watch_deinit(&t->watch);
	device_health_deinit(&t->health);
	if (t->wake > 0)
		close_fd(&t->wake);
	if (t->done > 0)
		close_fd(&t->done);
}
