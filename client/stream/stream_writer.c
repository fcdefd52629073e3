/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream_writer.c - who writes a CUDA stream's timeline word
 *
 * A stream write is the cheapest; inside a graph its value would be the one of
 * the capture. A kernel that counts up in device memory can be replayed, and
 * counts the same whether it is or not. A host function serves devices without
 * stream writes; the driver's thread calls it, and does not after an error.
 */
#include <stdlib.h>

#include "launch.h"
#include "stream_cuda.h"

struct host_write {
	struct wire_line *line;
	uint64_t value;
};

static void host_write_run(void *arg)
{
	struct host_write *w = arg;

	store_release(&w->line->word, w->value);
	free(w);
}

static int write_by_host(struct stream *st, struct cuda *c, uint64_t value)
{
	struct host_write *w = malloc(sizeof(*w));

	if (!w)
		return stream_fail(st, SWAKV_ENOMEM, "out of memory");
	*w = (struct host_write){ st->line, value };
	if (driver_stream_host_func(st->driver, c->stream, host_write_run, w) == 0)
		return 0;
	free(w);
	return cuda_fail(st);
}

static int write_by_count(struct stream *st, struct cuda *c)
{
	const struct kernel_count p = { .counter = c->counter, .word = st->word_device };

	return driver_run_count(st->driver, c->stream, &p) < 0 ? cuda_fail(st) : 0;
}

int writer_write(struct stream *st, struct cuda *c, uint64_t value)
{
	switch (c->writer) {
	case SWAKV_WRITER_COUNTER:
		return write_by_count(st, c); /* the count is the number of marks, and so is the value */
	case SWAKV_WRITER_HOST_FUNCTION:
		return write_by_host(st, c, value);
	default:
		return driver_stream_write64(st->driver, c->stream, st->word_device, value) < 0 ? cuda_fail(st) : 0;
	}
}

/*
 * The count stands one below what was marked, and is counted up once: a kernel
 * that ran before is not loaded in the middle of a capture. The word does not
 * change by it.
 */
static int counter_init(struct stream *st, struct cuda *c)
{
	uint64_t before = st->marked - 1;

	if (driver_alloc(st->driver, sizeof(uint64_t), &c->counter) < 0) {
		c->counter = 0;
		return cuda_fail(st);
	}
	if (driver_copy_to_device(st->driver, c->stream, c->counter, &before, sizeof(before)) == 0 &&
	    write_by_count(st, c) == 0 && driver_stream_synchronize(st->driver, c->stream) == 0)
		return 0;
	cuda_fail(st);
	writer_deinit(st, c);
	return SWAKV_EDEVICE;
}

int writer_init(struct stream *st, struct cuda *c, enum swakv_writer wanted)
{
	struct driver_device device;

	driver_get_device(st->driver, &device);
	switch (wanted) {
	case SWAKV_WRITER_AUTO:
		c->writer = device.stream_write_supported ? SWAKV_WRITER_STREAM_WRITE : SWAKV_WRITER_HOST_FUNCTION;
		return 0;
	case SWAKV_WRITER_STREAM_WRITE:
		if (!device.stream_write_supported)
			return stream_fail(st, SWAKV_EUNSUPPORTED, "the device %s has no 64-bit stream writes",
					   device.name);
		__attribute__((fallthrough));
	case SWAKV_WRITER_HOST_FUNCTION:
		c->writer = wanted;
		return 0;
	case SWAKV_WRITER_COUNTER:
		c->writer = wanted;
		return counter_init(st, c);
	default:
		return stream_fail(st, SWAKV_EINVALID, "writer %d is unknown, see enum swakv_writer", (int)wanted);
	}
}

void writer_deinit(struct stream *st, struct cuda *c)
{
	if (c->counter)
		(void)driver_free(st->driver, c->counter);
	c->counter = 0;
}
