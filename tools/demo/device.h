/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - where the worker's kernels run: a host stream of the library, or a GPU */
#ifndef DEMO_DEVICE_H
#define DEMO_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "kernels.h"

struct driver;

struct device {
	swakv_session *session; /* borrowed */
	uint32_t stream;
	struct driver *driver; /* NULL: host backend */
	void *cu_stream;
};

/* Memory with a host side and a device side; on the host backend both are one. */
struct buffer {
	unsigned char *host;
	uint64_t address; /* what kernels use */
	size_t bytes;
};

/*
 * Binds stream 0 of @session and, where the session is on a GPU, opens the
 * driver on that device. 0 or a code; @why (@why_size bytes) gets the sentence.
 */
int device_open(struct device *d, swakv_session *session, char *why, size_t why_size);
/* The stream must be idle. Safe to repeat. */
void device_close(struct device *d);
/* The sentence of the last call that failed. */
const char *device_why(const struct device *d);

/* 0 or a code; zeroed. */
int device_buffer_new(struct device *d, struct buffer *b, size_t bytes);
/* The device must be open and done with the buffer. Safe to repeat. */
void device_buffer_free(struct device *d, struct buffer *b);

/* All below enqueue: 0 or a code. Host sides must stay as they are until the stream got there. */

int device_upload(struct device *d, const struct buffer *b, size_t offset, size_t bytes);
int device_download(struct device *d, const struct buffer *b, size_t offset, size_t bytes);
/* Copies device memory at @address to the host side of @b. */
int device_read(struct device *d, const struct buffer *b, size_t offset, uint64_t address, size_t bytes);
int device_kv_write(struct device *d, const struct kernel_kv_write *p);
int device_attention(struct device *d, const struct kernel_attention *p);
int device_fill(struct device *d, const struct kernel_fill *p);

/* The stream sleeps for @ms milliseconds; 0: nothing is enqueued. */
int device_pause(struct device *d, uint32_t ms);

/* Waits until @fence is reached: 0, or SWAKV_EDEVICE when the stream has failed. */
int device_wait(struct device *d, struct swakv_fence fence);

#endif
