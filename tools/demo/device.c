/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.c - the same few operations on a host stream and on a GPU
 *
 * On the host backend a launch is a small heap object that the stream's thread
 * runs and frees. On a GPU it is a launch on the session's own stream; buffers
 * have a registered host side and a device side.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launch.h"

enum launch_kind { LAUNCH_KV_WRITE, LAUNCH_ATTENTION, LAUNCH_FILL, LAUNCH_READ, LAUNCH_PAUSE };

struct launch {
	enum launch_kind kind;
	union {
		struct kernel_kv_write kv_write;
		struct kernel_attention attention;
		struct kernel_fill fill;
		struct {
			void *to;
			uint64_t from;
			size_t bytes;
		} read;
		uint32_t pause_ms;
	};
};

int device_open(struct device *d, swakv_session *session, char *why, size_t why_size)
{
	struct swakv_session_info info = { .size = sizeof(info) };
	char driver_sentence[DRIVER_WHY];
	int rc;

	*d = (struct device){ .session = session };
	swakv_session_get_info(session, &info);
	rc = info.cuda ? swakv_stream_bind_cuda(session, d->stream, NULL)
		       : swakv_stream_bind_host(session, d->stream, true);
	if (rc) {
		snprintf(why, why_size, "%s", swakv_session_error(session));
		return rc;
	}
	if (!info.cuda)
		return 0;
	rc = driver_open(&d->driver, NULL, info.device_uuid, 0, driver_sentence);
	if (rc) {
		snprintf(why, why_size, "%s", driver_sentence);
		return rc;
	}
	d->cu_stream = swakv_stream_cuda(session, d->stream);
	rc = driver_load_image(d->driver, &kernel_image_engine);
	if (rc) {
		snprintf(why, why_size, "%s", driver_why(d->driver));
		device_close(d);
	}
	return rc;
}

void device_close(struct device *d)
{
	d->driver = driver_close(d->driver);
}

const char *device_why(const struct device *d)
{
	/* Marks and waits go through the session, and on CUDA all else through a driver of our own. */
	const char *why = d->driver ? driver_why(d->driver) : "";

	return why[0] ? why : swakv_session_error(d->session);
}

int device_buffer_new(struct device *d, struct buffer *b, size_t bytes)
{
	size_t page = 4096;
	uint64_t unused;
	int rc = 0;

	*b = (struct buffer){ .bytes = (bytes + page - 1) / page * page };
	b->host = aligned_alloc(page, b->bytes ? b->bytes : page);
	if (!b->host)
		return SWAKV_ENOMEM;
	memset(b->host, 0, b->bytes);
	b->address = (uint64_t)(uintptr_t)b->host;
	if (!d->driver)
		return 0;
	b->address = 0;
	rc = driver_host_register(d->driver, b->host, b->bytes, &unused);
	if (rc) {
		free(b->host);
		*b = (struct buffer){ 0 };
		return rc;
	}
	rc = driver_alloc(d->driver, b->bytes, &b->address);
	if (rc)
		device_buffer_free(d, b);
	return rc;
}

void device_buffer_free(struct device *d, struct buffer *b)
{
	if (b->host && d->driver) {
		driver_host_unregister(d->driver, b->host);
		if (b->address)
			driver_free(d->driver, b->address);
	}
	free(b->host);
	*b = (struct buffer){ 0 };
}

static void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

static void run(void *arg)
{
	struct launch *l = arg;

	switch (l->kind) {
	case LAUNCH_KV_WRITE:
		kernel_kv_write_cpu(&l->kv_write);
		break;
	case LAUNCH_ATTENTION:
		kernel_attention_cpu(&l->attention);
		break;
	case LAUNCH_FILL:
		kernel_fill_cpu(&l->fill);
		break;
	case LAUNCH_READ:
		memcpy(l->read.to, (const void *)(uintptr_t)l->read.from, l->read.bytes);
		break;
	case LAUNCH_PAUSE:
		sleep_ms(l->pause_ms);
		break;
	}
	free(l);
}

static int launch(struct device *d, struct launch work)
{
	struct launch *l = malloc(sizeof(*l));
	int rc;

	if (!l)
		return SWAKV_ENOMEM;
	*l = work;
	rc = swakv_stream_launch_host(d->session, d->stream, run, l);
	if (rc)
		free(l);
	return rc;
}

int device_upload(struct device *d, const struct buffer *b, size_t offset, size_t bytes)
{
	if (!d->driver || !bytes)
		return 0;
	return driver_copy_to_device(d->driver, d->cu_stream, b->address + offset, b->host + offset, bytes);
}

int device_download(struct device *d, const struct buffer *b, size_t offset, size_t bytes)
{
	if (!d->driver || !bytes)
		return 0;
	return driver_copy_to_host(d->driver, d->cu_stream, b->host + offset, b->address + offset, bytes);
}

int device_read(struct device *d, const struct buffer *b, size_t offset, uint64_t address, size_t bytes)
{
	if (d->driver)
		return driver_copy_to_host(d->driver, d->cu_stream, b->host + offset, address, bytes);
	return launch(d, (struct launch){ LAUNCH_READ, .read = { b->host + offset, address, bytes } });
}

int device_kv_write(struct device *d, const struct kernel_kv_write *p)
{
	if (d->driver)
		return driver_run_kv_write(d->driver, d->cu_stream, p);
	return launch(d, (struct launch){ LAUNCH_KV_WRITE, .kv_write = *p });
}

int device_attention(struct device *d, const struct kernel_attention *p)
{
	if (d->driver)
		return driver_run_attention(d->driver, d->cu_stream, p);
	return launch(d, (struct launch){ LAUNCH_ATTENTION, .attention = *p });
}

int device_fill(struct device *d, const struct kernel_fill *p)
{
	if (d->driver)
		return driver_run_fill(d->driver, d->cu_stream, p);
	return launch(d, (struct launch){ LAUNCH_FILL, .fill = *p });
}

static void pause_host(void *arg)
{
	sleep_ms((uint32_t)(uintptr_t)arg);
}

int device_pause(struct device *d, uint32_t ms)
{
	if (!ms)
		return 0;
	if (d->driver)
		return driver_stream_host_func(d->driver, d->cu_stream, pause_host, (void *)(uintptr_t)ms);
	return launch(d, (struct launch){ LAUNCH_PAUSE, .pause_ms = ms });
}

/*
 * The word is only read, so waiting sleeps in growing steps. A stream that has
 * failed never writes it: after some seconds the stream itself is asked.
 */
int device_wait(struct device *d, struct swakv_fence fence)
{
	struct timespec pause = { .tv_nsec = 10000 };
	uint64_t slept = 0;

	while (!swakv_fence_reached(d->session, fence)) {
		nanosleep(&pause, NULL);
		slept += (uint64_t)pause.tv_nsec;
		if (pause.tv_nsec < 500000)
			pause.tv_nsec *= 2;
		if (slept < 5000000000ull)
			continue;
		int rc = swakv_stream_synchronize(d->session, d->stream);
		if (rc)
			return rc;
		slept = 0;
	}
	return 0;
}
