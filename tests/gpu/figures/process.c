/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - what processes cost: the broker's own device memory, and the time
 * until a killed worker's pages are free
 */
#include <stdlib.h>
#include <string.h>

#include <swakv/swakv.h>

#include "figures.h"

#define READY_MS 120000
#define BACK_MS  30000
#define POOL     (1ull << 30)
#define SLACK    (4ull << 20)

/* ---- device memory ------------------------------------------------------------------------ */

static int free_memory(struct figures *f, uint64_t *bytes)
{
	uint64_t total;

	return driver_memory_info(f->driver, bytes, &total);
}

/* What comes back late after a process has ended is waited for. */
static int wait_for_memory(struct figures *f, uint64_t want)
{
	double end = now_us() + 5e6;
	uint64_t now = 0;

	while (now + SLACK < want) {
		TRY(f, "memory", free_memory(f, &now));
		if (now_us() > end)
			return report_fail(&f->report, "memory", "waiting",
					   "memory of an ended process did not come back");
		sleep_us(1000);
	}
	return 0;
}

static double mib(uint64_t before, uint64_t after)
{
	return ((double)before - (double)after) / (1 << 20);
}

static int read_broker(struct figures *f, const char *export_kind, struct series *s)
{
	char argument[32], why[512];
	const char *const arguments[] = { "--size=1G", argument, NULL };
	struct private_broker b;
	uint64_t before, after;

	snprintf(argument, sizeof(argument), "--export=%s", export_kind);
	for (int i = 0; i < SAMPLES; i++) {
		TRY(f, "memory", free_memory(f, &before));
		if (!private_broker_start(&b, arguments, why, sizeof(why)))
			return report_fail(&f->report, "memory", argument, why);
		TRY(f, "memory", free_memory(f, &after));
		private_broker_stop(&b);
		series_add(s, mib(before, after + POOL));
		if (wait_for_memory(f, before))
			return -1;
	}
	return 0;
}

/* A process with a context and nothing else. */
static int read_context(struct figures *f, struct series *s)
{
	const char *const argv[] = { f->self, "--context", NULL };
	uint64_t before, after;
	struct child c;

	for (int i = 0; i < SAMPLES; i++) {
		TRY(f, "memory", free_memory(f, &before));
		if (!child_start(&c, argv, NULL) || !child_expect(&c, "", READY_MS))
			return report_fail(&f->report, "memory", "a context", "the child said nothing");
		TRY(f, "memory", free_memory(f, &after));
		child_end(&c, false, READY_MS);
		series_add(s, mib(before, after));
		if (wait_for_memory(f, before))
			return -1;
	}
	return 0;
}

int figure_memory(struct figures *f)
{
	static const char *const kinds[] = { "ipc", "fd" };
	struct series context = { 0 };

	if (read_context(f, &context))
		return -1;
	for (int i = 0; i < 2; i++) {
		struct figure *figure = report_add(&f->report, "memory", "MiB",
						   "device memory of the broker beside its pool, export %s", kinds[i]);

		if (read_broker(f, kinds[i], &figure->got))
			return -1;
		figure_floor(figure, &context, "a process with a context");
	}
	return 0;
}

/* ---- death --------------------------------------------------------------------------------- */

#define PAGES 32

static int64_t free_pages(swakv_session *s)
{
	int64_t n = -1;

	return swakv_session_free_pages(s, &n) ? -1 : n;
}

/* Of the same page class as the workers that are killed. */
static int bystander(struct figures *f, const struct private_broker *b, swakv_session **s)
{
	const struct swakv_group group = { .size = sizeof(group),
					   .kind = SWAKV_SLIDING,
					   .window = 64,
					   .page_tokens = 64,
					   .layers = 1,
					   .kv_heads = 8,
					   .head_dim = 64,
					   .dtype = SWAKV_F16 };
	const struct swakv_model model = { .size = sizeof(model),
					   .name = "bystander",
					   .groups = &group,
					   .n_groups = 1,
					   .max_batch = 1,
					   .max_seq = 64 };
	const struct swakv_attach_options options = { .size = sizeof(options), .broker = b->name };
	char why[256];

	if (swakv_session_attach(&options, &model, s, why, sizeof(why)))
		return report_fail(&f->report, "kill", "attach", why);
	return 0;
}

static int start_victims(struct figures *f, const struct private_broker *b, struct child *victims)
{
	const char *const argv[] = { PAGE_WORKER,
				     "--broker",
				     b->name,
				     "--pages",
				     f->quick ? "8" : "32",
				     "--repeat",
				     f->quick ? "4" : "4096",
				     "--depth",
				     f->quick ? "16" : "4000",
				     NULL };

	for (int i = 0; i < SAMPLES; i++) {
		if (!child_start(&victims[i], argv, NULL))
			return report_fail(&f->report, "kill", PAGE_WORKER, "it could not be started");
	}
	for (int i = 0; i < SAMPLES; i++) {
		if (!child_expect(&victims[i], "ready", READY_MS))
			return report_fail(&f->report, "kill", PAGE_WORKER, "it did not get ready");
	}
	return 0;
}

/* Kills it with launches queued; milliseconds until its process had ended, and until its pages were free. */
static int kill_one(struct figures *f, swakv_session *s, struct child *victim, double *ended, double *back)
{
	int64_t before = free_pages(s);
	double from;

	if (!child_say(victim, "take 1") || !child_expect(victim, "pages", READY_MS) || !child_say(victim, "write") ||
	    !child_expect(victim, "writing", READY_MS))
		return report_fail(&f->report, "kill", PAGE_WORKER, "it did not get to write");
	if (free_pages(s) >= before)
		return report_fail(&f->report, "kill", PAGE_WORKER, "it holds no pages");
	sleep_us(50000);
	from = now_us();
	*ended = child_kill(victim) / 1e3;
	if (*ended < 0)
		return report_fail(&f->report, "kill", "pidfd", "it was not readable within 10 s");
	while (free_pages(s) < before) {
		if (now_us() - from > BACK_MS * 1e3)
			return report_fail(&f->report, "kill", "waiting", "the pages did not come back");
		sleep_us(200);
	}
	*back = (now_us() - from) / 1e3;
	return 0;
}

int figure_kill(struct figures *f)
{
	const char *grace = f->quick ? "200" : "2000";
	const char *const arguments[] = { f->quick ? "--size=64M" : "--size=1G",
					  f->quick ? "--reclaim-grace-ms=200" : "--reclaim-grace-ms=2000", NULL };
	struct child victims[SAMPLES] = { 0 };
	struct series end = { 0 };
	struct private_broker b;
	swakv_session *s = NULL;
	struct figure *figure;
	double ended = 0, back = 0;
	char why[512];

	if (!private_broker_start(&b, arguments, why, sizeof(why)))
		return report_fail(&f->report, "kill", "starting a broker", why);
	if (bystander(f, &b, &s) || start_victims(f, &b, victims))
		return -1;
	figure = report_add(&f->report, "kill", "ms", "kill -9 with kernels queued, to pages free for others");
	for (int i = 0; i < SAMPLES; i++) {
		if (kill_one(f, s, &victims[i], &ended, &back))
			return -1;
		series_add(&end, ended);
		series_add(&figure->got, back);
	}
	figure_floor(figure, &end, "kill to pidfd readable; grace %s ms, %s", grace,
		     private_broker_said(&b, "has ended, and NVML") ? "ended early by NVML" : "all of it waited for");
	swakv_session_close(s);
	private_broker_stop(&b);
	return 0;
}
