/* SPDX-License-Identifier: Apache-2.0 */
/* rig_device.h - the rig on a device: its two parts in device memory, its launches on one stream */
#ifndef SWAKV_RIG_DEVICE_H
#define SWAKV_RIG_DEVICE_H

#include "launch.h"
#include "rig.h"

struct rig_device {
	struct driver *d; /* borrowed */
	struct rig *r;    /* borrowed */
	void *stream;
	struct rig_bases at;
	int32_t n_splits; /* of the attention; 0: as planned */
};

/* Allocates both parts and copies the arrays. All functions: 0 or the driver's code, the sentence in driver_why(). */
int rig_device_init(struct rig_device *v, struct driver *d, struct rig *r);
int rig_device_deinit(struct rig_device *v);
/* Copies the arrays once more, after the test has changed them. */
int rig_device_upload(struct rig_device *v);
/* Fills the mapped pages with @pattern, then writes K and V of every layer. */
int rig_device_fill(struct rig_device *v, uint16_t pattern);
/* Attention of @layer into @out, [n_rows][q_heads][v_dim] on the host. */
int rig_device_attend(struct rig_device *v, int32_t layer, float *out);
/* Bytes [@offset, @offset + @bytes) of the device's pool (or arrays) to @to. */
int rig_device_read_pool(struct rig_device *v, void *to, uint64_t offset, uint64_t bytes);
int rig_device_read_arrays(struct rig_device *v, void *to, uint64_t offset, uint64_t bytes);

#endif
