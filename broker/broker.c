/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.c - see broker.h
 *
 * Order of start: names first (a second broker must be refused before it takes
 * memory), then the pool, then the threads, the socket last: whoever can
 * connect finds everything there. The stop goes backwards. Exported device
 * memory is freed only when no worker can have it mapped; otherwise the process
 * ends without freeing and leaves that to the driver.
 */
#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "control.h"
#include "crash/crash.h"
#include "crash/memory_guard.h"
#include "device/device_thread.h"
#include "device/plan.h"
#include "log/log.h"
#include "process/machine.h"
#include "process/process.h"
#include "process/ready.h"
#include "process/sandbox.h"
#include "ring/ring_thread.h"
#include "session/activation.h"
#include "session/listener.h"
#include "size.h"

enum { RELEASE_WAIT_MS = 10000 };

struct broker {
	const struct config *config;
	uint8_t boot_id[16];
	int signals;
	struct listener listener;
	struct listener admin_listener;
	struct status_writer status;
	struct device_thread device;
	struct machine machine;
	struct ring_thread ring;
	struct control control;
	struct crash_subject crash;
};

/* Whether other users may come, too: as workers; as anything. */
static bool any_worker(const struct config *c)
{
	return c->allow_uid.n || c->allow_gid.n;
}

static bool anyone(const struct config *c)
{
	return any_worker(c) || c->admin_uid.n;
}

static int prepare_process(struct broker *b)
{
	sigset_t set;
	int r;

	process_set_limits(b->config);
	process_block_signals(&set); /* before the first thread: all inherit it */
	r = log_start();
	if (r < 0) {
		log_error("the log's thread cannot start: %s", process_error(-r));
		return EXIT_CODE_FAILURE;
	}
	crash_thread("control", true);
	r = crash_init(&b->crash, b->config->dump_file);
	if (r < 0) {
		log_error("dump_file: %s cannot be opened: %s", b->config->dump_file, process_error(-r));
		return EXIT_CODE_CONFIG;
	}
	b->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (b->signals >= 0 && getrandom(b->boot_id, sizeof(b->boot_id), 0) == sizeof(b->boot_id))
		return 0;
	log_error("cannot start: %s", process_error(errno));
	return EXIT_CODE_FAILURE;
}

/* Of a status page that could not be made. One that may not be as large as it is leaves no room for a pool either. */
static int status_exit_code(int r)
{
	switch (r) {
	case -EEXIST:
	case -EPERM:
	case -EBUSY:
		return EXIT_CODE_IN_USE;
	case -EFBIG:
		return EXIT_CODE_POOL;
	default:
		return EXIT_CODE_FAILURE;
	}
}

/* The group of status_gid may read the status page, which is the broker's own group's otherwise. */
static int show_status_to(struct broker *b)
{
	const struct config_ids *gid = &b->config->status_gid;

	if (gid->n == 0 || fchown(b->status.fd, (uid_t)-1, gid->ids[0]) == 0)
		return 0;
	log_error("status_gid: the status page cannot be given to group %u: %s; add the user that runs the broker to "
		  "that group",
		  gid->ids[0], process_error(errno));
	return EXIT_CODE_CONFIG;
}

static int take_names(struct broker *b)
{
	const struct config *c = b->config;
	char why[512];
	int r = activation_begin(why, sizeof(why)) < 0
			? EXIT_CODE_CONFIG
			: listener_lock(&b->listener, c->socket, anyone(c), why, sizeof(why));

	if (r) {
		log_error("%s", why);
		return r;
	}
	r = status_writer_open(&b->status, c->name);
	if (r == 0) {
		memory_guard_add(b->status.head, b->status.bytes, &b->status.lost);
		b->crash.picture = b->status.draft;
		return show_status_to(b);
	}
	if (r == -EEXIST)
		log_error("a broker named \"%s\" is running already: stop it, or choose another name", c->name);
	else if (r == -EPERM)
		log_error(
			"the name \"%s\" is taken: /dev/shm/swakv-%s or /dev/shm/.swakv-%s belongs to another user or "
			"is not a plain file: remove it, or choose another name",
			c->name, c->name, c->name);
	else if (r == -EBUSY)
		log_error("another broker named \"%s\" is just starting: try again, or choose another name", c->name);
	else
		log_error("the status page /dev/shm/swakv-%s cannot be created: %s", c->name, process_error(-r));
	return status_exit_code(r);
}

static int start_pool(struct broker *b)
{
	int r = device_thread_init(&b->device, b->config, &b->status);

	if (r < 0) {
		log_error("the device thread cannot start: %s", process_error(-r));
		return EXIT_CODE_FAILURE;
	}
	device_thread_do(&b->device, DEVICE_JOB_OPEN, -1);
	if (b->device.backend.note[0])
		log_info("%s", b->device.backend.note);
	if (b->device.backend.caution[0])
		log_warning("%s", b->device.backend.caution);
	if (b->device.code)
		log_error("%s", b->device.why);
	sandbox_no_new_privileges(); /* the device thread did so when its driver had what it wanted */
	return b->device.code;
}

static uint32_t fill_limits(const struct config *c, uint64_t half_bytes, struct ring_limit *limits)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n_models; i++) {
		const struct config_model *m = &c->models[i];

		if (m->floor.value || m->ceiling.value)
			limits[n++] = (struct ring_limit){ .name = m->name,
							   .floor = config_limit_bytes(&m->floor, half_bytes),
							   .ceiling = config_limit_bytes(&m->ceiling, half_bytes),
							   .model = m->limits_only ? NULL : &m->model };
	}
	return n;
}

static int look_at_machine(struct broker *b)
{
	char wanted[CPU_LIST_TEXT], allowed[CPU_LIST_TEXT];
	int r = machine_look(&b->machine, &b->config->cpu_affinity);

	if (r == -EINVAL) {
		log_error("cpu_affinity = %s: not all of them are CPUs that this process may use (%s)",
			  cpu_list_write(&b->config->cpu_affinity, wanted),
			  cpu_list_write(&b->machine.allowed, allowed));
		return EXIT_CODE_CONFIG;
	}
	if (r < 0)
		log_error("the CPUs that this process may use: %s", process_error(-r));
	return r < 0 ? EXIT_CODE_FAILURE : 0;
}

static int start_threads(struct broker *b)
{
	const struct backend_pool *pool = &b->device.backend.pool;
	struct ring_limit limits[CONFIG_MAX_MODELS];
	struct ring_options options = {
		.cpus = b->machine.ring,
		.beside = b->machine.beside,
		.limits = limits,
		.n_limits = fill_limits(b->config, pool->half_bytes, limits),
		.engine = { .half_bytes = pool->half_bytes,
			    .extent_bytes = pool->extent_bytes,
			    .scrub = b->config->scrub,
			    .fresh_is_dirty = pool->backend == WIRE_BACKEND_CUDA, /* a memfd holds zeroes */
			    .stamps_a_ms = NS_PER_MS,
			    .wait_claim = b->config->wait_claim_ms * NS_PER_MS,
			    .claim_hold = b->config->claim_hold_ms * NS_PER_MS,
			    .claim_max = b->config->claim_max_ms * NS_PER_MS },
		.spin_ns = b->config->spin_us * NS_PER_US,
		.watchdog_ns = b->config->watchdog_s * NS_PER_S,
		.budget = b->config->budget,
		.shared_budget = b->config->shared_budget,
		.max_sessions = b->config->max_sessions,
		.table_area_bytes = pool->table_area_bytes,
	};
	char text[192];
	struct fault f;
	int r = ring_thread_init(&b->ring, &options, &b->status, &f);

	if (r == -ERANGE) {
		fault_format(&f, text, sizeof(text));
		log_error("the floors and ceilings of the [model] sections: %s", text);
		return EXIT_CODE_CONFIG;
	}
	if (r < 0) {
		log_error("the ring thread cannot start: %s", process_error(-r));
		return EXIT_CODE_FAILURE;
	}
	b->crash.trace = &b->ring.workspace->trace;
	return 0;
}

static int start_serving(struct broker *b)
{
	char why[512];
	int r;

	listener_beside(&b->admin_listener, &b->listener, ADMIN_SOCKET_SUFFIX);
	if (anyone(b->config) && listener_shut_in(&b->listener, &b->config->allow_gid, why, sizeof(why)))
		log_warning("allow_uid, allow_gid or admin_uid admits other users, but %s", why);
	r = listener_open(&b->admin_listener, b->config->admin_uid.n, why, sizeof(why));
	if (r == 0)
		r = listener_open(&b->listener, any_worker(b->config), why, sizeof(why));
	if (r) {
		log_error("%s", why);
		return r;
	}
	if (activation_left()) {
		log_error("a socket was passed that listens on %s, where no worker or administrator looks for this "
			  "broker: it has to be %s or %s",
			  activation_left(), b->listener.path, b->admin_listener.path);
		return EXIT_CODE_CONFIG;
	}
	r = control_init(&b->control, b->config, &b->device.backend.pool, &b->device.watch, &b->listener, &b->ring,
			 &b->status, b->boot_id, b->signals, NULL);
	if (r == 0)
		r = control_watch_device(&b->control, &b->device.health);
	if (r == 0)
		r = admin_serve(&b->control.admin, &b->admin_listener);
	if (r < 0) {
		log_error("cannot serve: %s", process_error(-r));
		return EXIT_CODE_FAILURE;
	}
	return 0;
}

static void show_status_page(struct broker *b)
{
	const struct backend_pool *pool = &b->device.backend.pool;
	struct status_head *h = b->status.head;

	memcpy(h->boot_id, b->boot_id, sizeof(h->boot_id));
	h->heartbeat_interval_ns = 500 * NS_PER_MS;
	snprintf(h->pool, sizeof(h->pool), "%s", pool->name);
	snprintf(h->backend, sizeof(h->backend), "%s", backend_name(pool->backend));
	snprintf(h->device, sizeof(h->device), "%s", pool->device);
	snprintf(h->device_uuid, sizeof(h->device_uuid), "%s", pool->uuid_text);
	snprintf(h->export_kind, sizeof(h->export_kind), "%s", export_name(pool->export_kind));
	snprintf(h->socket_path, sizeof(h->socket_path), "%s", b->config->socket);
	snprintf(h->version_text, sizeof(h->version_text), "%s", SWAKV_VERSION);
	if (CPU_COUNT(&b->machine.ring) > 0)
		cpu_list_write(&b->machine.ring, h->ring_cpus);
	else
		strcpy(h->ring_cpus, "any");
	snprintf(h->machine, sizeof(h->machine), "%s", b->machine.text);
	status_writer_ready(&b->status);
}

static void say_ready(const struct broker *b, int ready_fd)
{
	const struct backend_pool *p = &b->device.backend.pool;
	char total[SIZE_TEXT], area[SIZE_TEXT], half[SIZE_TEXT], extent[SIZE_TEXT];

	log_info("ready: pool %s, %s on %s%s%s, export %s, table area %s, halves of %s, extents of %s, socket %s",
		 p->name, size_text(p->bytes, total), p->device, p->uuid_text[0] ? " " : "", p->uuid_text,
		 export_name(p->export_kind), size_text(p->table_area_bytes, area), size_text(p->half_bytes, half),
		 size_text(p->extent_bytes, extent), b->config->socket);
	ready_notify(ready_fd);
}

/* With all threads there, and every file open. */
static int give_up_the_rest(struct broker *b)
{
	const struct backend_pool *pool = &b->device.backend.pool;
	uint32_t choice = b->config->sandbox;
	char why[256];

	if (choice != CONFIG_SANDBOX_YES && choice != CONFIG_SANDBOX_TRAP)
		return 0;
	if (pool->mps) {
		log_error("sandbox: under the Multi-Process Service the broker has nvidia-cuda-mps-control end the "
			  "work of dead workers, and a sandbox starts no program: set sandbox = no");
		return EXIT_CODE_CONFIG;
	}
	if (sandbox_enter(pool->backend == WIRE_BACKEND_CUDA ? SANDBOX_CUDA : SANDBOX_HOST,
			  choice == CONFIG_SANDBOX_TRAP, why, sizeof(why)) < 0) {
		log_error("%s", why);
		return EXIT_CODE_CONFIG;
	}
	return 0;
}

static int start(struct broker *b)
{
	int r = prepare_process(b);

	if (r == 0)
		r = look_at_machine(b);
	if (r == 0)
		r = take_names(b);
	if (r == 0)
		r = start_pool(b);
	if (r == 0)
		r = start_threads(b);
	if (r == 0)
		r = start_serving(b);
	return r ? r : give_up_the_rest(b);
}

/* @may_free: no worker can have the pool mapped. */
static void stop(struct broker *b, bool may_free)
{
	b->crash.trace = NULL;
	ring_thread_deinit(&b->ring);
	control_deinit(&b->control);
	if (b->control.device_lost)
		log_warning("the device is lost: exiting without freeing the pool");
	else if (!may_free)
		log_warning("workers may still have the pool mapped: exiting without freeing it");
	else if (b->device.running && !device_thread_do(&b->device, DEVICE_JOB_RELEASE, RELEASE_WAIT_MS))
		log_warning("the driver has not finished freeing the pool: leaving that to the end of the process");
	device_thread_deinit(&b->device);
	b->crash.picture = NULL;
	memory_guard_remove(b->status.head);
	status_writer_close(&b->status);
	listener_deinit(&b->admin_listener);
	listener_deinit(&b->listener);
	close_fd(&b->signals);
}

int broker_run(const struct config *config, int ready_fd)
{
	static struct broker b; /* a thread that hangs in the driver may outlive this call */
	bool may_free = true;
	int r;

	b = (struct broker){ .config = config, .signals = -1 };
	b.listener = b.admin_listener = (struct listener){ .fd = -1, .lock = -1 };
	b.status.fd = -1;
	if (ready_fd >= 0)
		fcntl(ready_fd, F_SETFD, FD_CLOEXEC); /* not for the self-test's child */
	r = start(&b);
	if (r == 0) {
		show_status_page(&b);
		say_ready(&b, ready_fd);
		may_free = control_run(&b.control);
		ready_stopping();
		if (b.control.device_lost)
			r = EXIT_CODE_DEVICE;
	}
	stop(&b, may_free);
	if (r == 0 || r == EXIT_CODE_DEVICE)
		log_info("stopped");
	log_stop();
	return r;
}

int broker_dry_run(const struct config *config)
{
	char why[BACKEND_WHY] = "";
	struct backend b;
	int r = backend_open(&b, config, why);

	if (b.note[0])
		printf("%s\n", b.note);
	if (r) {
		log_error("%s", why);
		return r;
	}
	r = plan_print(&b.pool, config, stdout);
	backend_close(&b);
	return r;
}
