/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "peer.h"

#define DRIFT 1.35 /* brackets further apart: the machine changed under the sample */

void bench_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("swakv-bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1); /* main's atexit handler ends broker and peer */
}

void bench_ok(swakv_session *s, int code, const char *what)
{
	if (code != 0)
		bench_die("%s: %s", what, swakv_session_error(s));
}

/* ---- samples ----------------------------------------------------------------- */

bool bench_wants(const struct bench *b, const char *name)
{
	return !b->options.only || strstr(name, b->options.only);
}

/* How often thread @tid of process @pid was made to give up its CPU. */
static uint64_t switches_of(pid_t pid, pid_t tid)
{
	static const char key[] = "nonvoluntary_ctxt_switches:";
	char path[64], line[128];
	uint64_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	AUTO_FCLOSE FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, sizeof(key) - 1))
			n = strtoull(line + sizeof(key) - 1, NULL, 10);
	return n;
}

static uint64_t switches(const struct bench *b)
{
	return switches_of(getpid(), getpid()) + switches_of(b->peer->pid, b->peer->pid) +
	       switches_of(b->broker.pid, b->broker_tid);
}

void bench_sample(struct bench *b, struct series *s, sample_fn *fn, void *arg)
{
	uint64_t trips = b->options.quick ? 5000 : 20000, put_aside;
	double before = peer_spin(b->peer, trips), value, after;

	put_aside = switches(b);
	value = fn(b, arg);
	put_aside = switches(b) - put_aside;
	after = peer_spin(b->peer, trips);
	series_add(s, value, (before + after) / 2, before > after * DRIFT || after > before * DRIFT, put_aside > 0);
}

bool bench_more(const struct bench *b, const struct series *s, uint64_t started_ns)
{
	uint32_t wanted = b->options.quick ? 9 : 21;
	uint64_t limit = b->options.quick ? 700000000 : 6000000000;

	return s->n + s->n_second + s->dropped == 0 || (s->n < wanted && clock_ns() - started_ns < limit);
}

struct figure *bench_figure(struct bench *b, const char *name, sample_fn *fn, void *arg)
{
	struct series s = { 0 };
	uint64_t started = clock_ns();

	while (bench_more(b, &s, started))
		bench_sample(b, &s, fn, arg);
	return results_series(b->results, name, &s);
}

/* ---- CPUs --------------------------------------------------------------------- */

static bool pin_thread(pid_t tid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(tid, sizeof(set), &set) == 0;
}

void bench_pin_self(const struct bench *b, int cpu)
{
	if (b->options.pin)
		pin_thread(0, cpu);
}

/* Thread of process @pid whose name is @name, 0: none. */
static pid_t find_thread(pid_t pid, const char *name)
{
	char path[300], comm[32] = "";
	struct dirent *e;
	pid_t found = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, e->d_name);
		AUTO_FCLOSE FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");

		if (!f || !fgets(comm, sizeof(comm), f))
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		if (!strcmp(comm, name))
			found = atoi(e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

void bench_pin_broker(struct bench *b)
{
	uint64_t started = clock_ns();
	pid_t tid;

	/* The thread names itself when it first runs. */
	while ((tid = find_thread(b->broker.pid, "swakvd-ring")) == 0 && clock_ns() - started < 5000000000)
		usleep(1000);
	if (tid == 0)
		bench_die("the broker has no thread swakvd-ring");
	b->broker_tid = tid;
	b->pinned = b->options.pin && pin_thread(tid, b->options.cpu[1]);
}

/* ---- sessions ------------------------------------------------------------------ */

static swakv_session *attach(const struct bench *b, const struct swakv_model *model, uint32_t spin_us)
{
	struct swakv_attach_options options = { .size = sizeof(options),
						.broker = b->broker.name,
						.socket = b->broker.socket,
						.spin_us = spin_us ? spin_us : b->options.spin_us };
	swakv_session *s = NULL;
	char why[300];

	if (swakv_session_attach(&options, model, &s, why, sizeof(why)) != 0)
		bench_die("attach: %s", why);
	return s;
}

swakv_session *bench_attach(const struct bench *b, int64_t window, uint32_t max_batch, uint32_t spin_us)
{
	struct swakv_group group = { .size = sizeof(group),
				     .kind = SWAKV_SLIDING,
				     .page_tokens = 128,
				     .window = window,
				     .layers = 1,
				     .kv_heads = 1,
				     .head_dim = 1,
				     .dtype = SWAKV_F16 };
	struct swakv_model model = { .size = sizeof(model),
				     .name = "bench",
				     .groups = &group,
				     .n_groups = 1,
				     .max_batch = max_batch,
				     .max_seq = 131072 };

	return attach(b, &model, spin_us);
}

swakv_session *bench_attach_tiny(const struct bench *b, uint32_t max_batch)
{
	struct swakv_group group = { .size = sizeof(group),
				     .kind = SWAKV_FULL,
				     .page_tokens = 16,
				     .layers = 1,
				     .kv_heads = 1,
				     .head_dim = 1,
				     .dtype = SWAKV_F16 };
	struct swakv_model model = { .size = sizeof(model),
				     .name = "tiny",
				     .groups = &group,
				     .n_groups = 1,
				     .max_batch = max_batch,
				     .max_seq = (int64_t)BENCH_TINY_PAGES / max_batch * 16 };

	return attach(b, &model, 0);
}

swakv_request *bench_begin(swakv_session *s, uint32_t first, uint32_t n)
{
	int32_t slots[256];
	struct swakv_begin_options o = { .size = sizeof(o), .slots = slots, .n_slots = n };
	swakv_request *r = NULL;

	for (uint32_t i = 0; i < n; i++)
		slots[i] = (int32_t)(first + i);
	bench_ok(s, swakv_request_begin(s, &o, &r, NULL), "begin");
	return r;
}

void bench_read_status(struct bench *b)
{
	int r = -EAGAIN;

	for (int i = 0; r == -EAGAIN && i < 1000; i++)
		r = status_reader_copy(&b->status, b->snapshot);
	if (r < 0)
		bench_die("the broker's status page cannot be read: %s", strerror(-r));
}
