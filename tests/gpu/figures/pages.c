/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - filling and copying whole pages, against what the driver's own calls make of the same bytes */
#include <stdlib.h>
#include <string.h>

#include "figures.h"

#define POOL  (8ull << 30)
#define SMALL (16ull << 20) /* of a quick run */
#define TIMES 4             /* launches a reading */

struct pool {
	uint64_t base, bytes;
	uint64_t list; /* page ids; those of copies, from and to, one behind the other */
	int32_t *ids;  /* the same, here */
	struct kernel_pages pages;
};

/*
 * Random order costs the memory itself, the more the smaller the pages: in order
 * the same kernels reach what is asked of them. No page of a model has the odd size.
 */
static const struct pages {
	uint64_t bytes;
	bool in_order;
	double at_least; /* of the floor */
} all_pages[] = {
	{ 64 << 10, true, 0.95 }, { 64 << 10, false, 0.9 }, { 1 << 20, false, 0.9 },
	{ 4 << 20, false, 0.95 }, { 1000010, true, 0.95 },  { 1000010, false, 0.9 },
};
#define N_PAGES     (int)(sizeof(all_pages) / sizeof(all_pages[0]))
#define LEAST_BYTES (64u << 10)

static uint64_t pool_size(const struct figures *f)
{
	return f->quick ? SMALL : POOL;
}

static void number(int32_t *list, int32_t n, bool in_order)
{
	uint32_t random = 88172645;

	for (int32_t i = 0; i < n; i++)
		list[i] = i;
	for (int32_t i = n - 1; i > 0 && !in_order; i--) {
		int32_t k, keep = list[i];

		random = random * 1664525 + 1013904223;
		k = (int32_t)(random % (uint32_t)(i + 1));
		list[i] = list[k];
		list[k] = keep;
	}
}

/* Cuts the pool's halves into pages, and lists them. */
static int cut(struct figures *f, struct pool *p, const struct pages *pages)
{
	uint64_t page = pages->bytes;
	int32_t n = (int32_t)(p->bytes / 2 / page);

	number(p->ids, n, pages->in_order);
	p->pages = (struct kernel_pages){ .half = { p->base, p->base + p->bytes / 2 },
					  .page_stride = page,
					  .num_pages = n };
	return driver_copy_to_device(f->driver, f->stream, p->list, p->ids, (size_t)n * sizeof(*p->ids));
}

static int pool_init(struct figures *f, struct pool *p)
{
	int rc;

	*p = (struct pool){ .bytes = pool_size(f) };
	p->ids = malloc(p->bytes / 2 / LEAST_BYTES * sizeof(*p->ids));
	if (!p->ids)
		return SWAKV_ENOMEM;
	rc = driver_alloc(f->driver, p->bytes, &p->base);
	return rc ? rc : driver_alloc(f->driver, p->bytes / 2 / LEAST_BYTES * sizeof(int32_t), &p->list);
}

static int pool_deinit(struct figures *f, struct pool *p)
{
	int rc = driver_free(f->driver, p->list);

	free(p->ids);
	return rc ? rc : driver_free(f->driver, p->base);
}

/* ---- one launch of each ------------------------------------------------------------ */

typedef int launch_fn(struct figures *f, const struct pool *p, uint64_t bytes);

static int launch_fill(struct figures *f, const struct pool *p, uint64_t bytes)
{
	const struct kernel_fill fill = { .pages = p->pages, .page_list = p->list, .n_pages = p->pages.num_pages };

	(void)bytes;
	return driver_run_fill(f->driver, f->stream, &fill);
}

/* As the library scrubs: the ids travel in the launch's parameters. */
static int launch_scrub(struct figures *f, const struct pool *p, uint64_t bytes)
{
	static struct kernel_scrub scrub;
	int rc = 0;

	(void)bytes;
	scrub.pages = p->pages;
	for (int32_t i = 0; i < p->pages.num_pages && rc == 0; i += scrub.n_pages) {
		int32_t left = p->pages.num_pages - i;

		scrub.n_pages = left < KERNEL_SCRUB_MAX ? left : KERNEL_SCRUB_MAX;
		memcpy(scrub.list, p->ids + i, (size_t)scrub.n_pages * sizeof(scrub.list[0]));
		rc = driver_run_scrub(f->driver, f->stream, &scrub);
	}
	return rc;
}

static int launch_memset(struct figures *f, const struct pool *p, uint64_t bytes)
{
	return driver_fill32(f->driver, f->stream, p->base, 0, bytes / 4);
}

static int launch_page_copy(struct figures *f, const struct pool *p, uint64_t bytes)
{
	int32_t n = p->pages.num_pages / 2;
	const struct kernel_copy copy = { .pages = p->pages,
					  .from_list = p->list,
					  .to_list = p->list + (uint64_t)n * sizeof(int32_t),
					  .n_pages = n };

	(void)bytes;
	return driver_run_copy(f->driver, f->stream, &copy);
}

static int launch_copy(struct figures *f, const struct pool *p, uint64_t bytes)
{
	return driver_copy(f->driver, f->stream, p->base, p->base + p->bytes / 2, bytes / 2);
}

/* Terabytes a second of @launch, which touches @bytes. */
static int read_speed(struct figures *f, const struct pool *p, launch_fn *launch, uint64_t bytes, struct series *s)
{
	*s = (struct series){ 0 };
	for (int i = -1; i < SAMPLES; i++) {
		double from = now_us();
		int rc = 0;

		for (int k = 0; k < TIMES && rc == 0; k++)
			rc = launch(f, p, bytes);
		rc = rc ? rc : driver_stream_synchronize(f->driver, f->stream);
		if (rc)
			return rc;
		if (i >= 0)
			series_add(s, (double)bytes * TIMES / (now_us() - from) / 1e6);
	}
	return 0;
}

/* ---- figures ------------------------------------------------------------------------- */

static int compare(struct figures *f, const char *group, const char *what, const char *floor_what, launch_fn *launch,
		   launch_fn *floor)
{
	struct pool p;

	TRY(f, group, pool_init(f, &p));
	for (int i = 0; i < N_PAGES; i++) {
		const struct pages *pages = &all_pages[i];
		uint64_t bytes;
		struct figure *figure;
		struct series s;

		TRY(f, group, cut(f, &p, pages));
		bytes = 2 * (uint64_t)p.pages.num_pages * pages->bytes;
		/* An odd page stays out of a copy. */
		if (launch == launch_page_copy)
			bytes = 4 * (uint64_t)(p.pages.num_pages / 2) * pages->bytes;
		figure = report_add(&f->report, group, "TB/s", "%s, %.1f GiB in pages of %llu bytes, %s", what,
				    (double)bytes / (1 << 30), (unsigned long long)pages->bytes,
				    pages->in_order ? "in order" : "in random order");
		TRY(f, group, read_speed(f, &p, floor, bytes, &s));
		TRY(f, group, read_speed(f, &p, launch, bytes, &figure->got));
		figure_floor(figure, &s, "%s", floor_what);
		figure->at_least = pages->at_least;
	}
	TRY(f, group, pool_deinit(f, &p));
	return 0;
}

int figure_scrub(struct figures *f)
{
	int rc = compare(f, "scrub", "scrub", "cuMemsetD32Async", launch_scrub, launch_memset);

	return rc ? rc
		  : compare(f, "scrub", "fill by a list on the device", "cuMemsetD32Async", launch_fill, launch_memset);
}

int figure_copy(struct figures *f)
{
	return compare(f, "copy", "copy, read and written", "cuMemcpyDtoDAsync", launch_page_copy, launch_copy);
}

int figures_copy_speed(struct figures *f)
{
	struct pool p;
	int rc;

	if (f->copy_speed.n)
		return 0;
	rc = pool_init(f, &p);
	rc = rc ? rc : read_speed(f, &p, launch_copy, p.bytes, &f->copy_speed);
	return rc ? rc : pool_deinit(f, &p);
}
