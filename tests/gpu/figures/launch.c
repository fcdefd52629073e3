/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - what it costs to bring table updates to the device */
#include <string.h>
#include <sys/mman.h>

#include "figures.h"

#define GROUP "launch"
#define WIDTH 1024
#define ROWS  4
#define ISSUE 64   /* launches that surely fit the queue: none of them waits for the device */
#define BURST 2000 /* launches back to back */

enum kind { EMPTY, APPLY, RING, COUNT, ROW_APPLY, ROW_COPY };

struct work {
	struct kernel_apply apply;
	uint64_t table, counter;
	struct kernel_apply_ring ring;
	struct kernel_count count;
	unsigned char row[2 * WIDTH * sizeof(int32_t)];
};

/* One row of WIDTH columns in as few launches as it takes. */
static int apply_row(struct figures *f, struct work *w)
{
	int rc = 0;

	for (uint32_t done = 0; done < WIDTH && rc == 0; done += w->apply.n_updates) {
		w->apply.n_updates = WIDTH - done < KERNEL_APPLY_MOST ? WIDTH - done : KERNEL_APPLY_MOST;
		rc = driver_run_apply(f->driver, f->stream, &w->apply);
	}
	return rc;
}

static int once(struct figures *f, struct work *w, enum kind kind)
{
	switch (kind) {
	case EMPTY:
		return driver_run_empty(f->driver, f->stream);
	case APPLY:
		return driver_run_apply(f->driver, f->stream, &w->apply);
	case RING:
		return driver_run_apply_ring(f->driver, f->stream, &w->ring);
	case COUNT:
		return driver_run_count(f->driver, f->stream, &w->count);
	case ROW_APPLY:
		return apply_row(f, w);
	case ROW_COPY:
		return driver_copy_to_device(f->driver, f->stream, w->table, w->row, sizeof(w->row));
	}
	return 0;
}

/* Microseconds of one: only until the call is back, or until the device has done all (@whole). */
static int read_cost(struct figures *f, struct work *w, enum kind kind, bool whole, struct series *s)
{
	int n = !whole ? ISSUE : f->quick ? 50 : BURST;

	*s = (struct series){ 0 };
	for (int i = -1; i < SAMPLES; i++) {
		double from = now_us(), to;

		for (int k = 0; k < n; k++)
			TRY(f, GROUP, once(f, w, kind));
		to = now_us();
		TRY(f, GROUP, driver_stream_synchronize(f->driver, f->stream));
		if (i >= 0) /* the first warms up */
			series_add(s, ((whole ? now_us() : to) - from) / n);
	}
	return 0;
}

static int both(struct figures *f, struct work *w, enum kind kind, enum kind floor, const char *what,
		const char *floor_what)
{
	for (int whole = 0; whole <= 1; whole++) {
		const char *how = whole ? "back to back" : "to issue";
		struct figure *figure = report_add(&f->report, GROUP, "us", "%s, %s", what, how);
		struct series s;

		if (read_cost(f, w, floor, whole, &s) || read_cost(f, w, kind, whole, &figure->got))
			return -1;
		figure_floor(figure, &s, "%s", floor_what);
	}
	return 0;
}

/* One buffer, registered, that is always about the next step: 500 updates are read over the bus in each launch. */
static int prepare_ring(struct figures *f, struct work *w, struct kernel_ring_buffer **buffer)
{
	uint64_t at;

	*buffer = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (*buffer == MAP_FAILED)
		return report_fail(&f->report, GROUP, "mmap", "out of memory");
	(*buffer)->step = 1;
	(*buffer)->n_updates = KERNEL_APPLY_MAX;
	memcpy((*buffer)->updates, w->apply.updates, sizeof((*buffer)->updates));
	TRY(f, GROUP, driver_host_register(f->driver, *buffer, 8192, &at));
	TRY(f, GROUP, driver_alloc(f->driver, 256, &w->counter));
	TRY(f, GROUP, driver_fill32(f->driver, f->stream, w->counter, 0, 64));
	w->ring = (struct kernel_apply_ring){ .table = w->table,
					      .ring = at,
					      .counter = w->counter,
					      .width = WIDTH,
					      .num_pages = 100000,
					      .n_buffers = 1 };
	w->count = (struct kernel_count){ .counter = w->counter + 128, .word = at + sizeof(struct kernel_ring_buffer) };
	return 0;
}

static int captured_forms(struct figures *f, struct work *w)
{
	struct kernel_ring_buffer *buffer;

	_Static_assert(sizeof(*buffer) + 8 <= 8192, "ring buffer");
	if (prepare_ring(f, w, &buffer) ||
	    both(f, w, RING, EMPTY, "apply of 500 updates from a ring", "empty kernel") ||
	    both(f, w, COUNT, EMPTY, "counter that writes the word", "empty kernel"))
		return -1;
	TRY(f, GROUP, driver_host_unregister(f->driver, buffer));
	TRY(f, GROUP, driver_free(f->driver, w->counter));
	munmap(buffer, 8192);
	return 0;
}

int figure_launch(struct figures *f)
{
	static struct work w;
	uint64_t unused;

	TRY(f, GROUP, driver_alloc(f->driver, ROWS * sizeof(w.row), &w.table));
	TRY(f, GROUP, driver_host_register(f->driver, w.row, sizeof(w.row), &unused));
	w.apply = (struct kernel_apply){ .table = w.table, .width = WIDTH, .num_pages = 100000 };
	for (uint32_t i = 0; i < KERNEL_APPLY_MOST; i++)
		w.apply.updates[i] = (struct kernel_update){ i * 7 % (ROWS * WIDTH), (int32_t)i };
	w.apply.n_updates = 2;
	if (both(f, &w, APPLY, EMPTY, "apply of 2 updates", "empty kernel"))
		return -1;
	w.apply.n_updates = KERNEL_APPLY_MAX;
	if (both(f, &w, APPLY, EMPTY, "apply of 500 updates", "empty kernel"))
		return -1;
	w.apply.n_updates = KERNEL_APPLY_MOST;
	if (both(f, &w, APPLY, EMPTY, "apply of 4,000 updates", "empty kernel"))
		return -1;
	if (captured_forms(f, &w))
		return -1;
	for (uint32_t i = 0; i < WIDTH; i++)
		w.apply.updates[i].cell = i;
	if (both(f, &w, ROW_APPLY, ROW_COPY, "row of 1,024 pages by one apply", "one copy of its 8 KiB"))
		return -1;
	TRY(f, GROUP, driver_host_unregister(f->driver, w.row));
	TRY(f, GROUP, driver_free(f->driver, w.table));
	return 0;
}
