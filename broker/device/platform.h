/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform.h - what kind of machine this is, as far as sharing GPU memory depends on it
 *
 * An attribute that says yes is not enough: what counts is the self-test. This
 * is for what is said before it and after it has failed.
 */
#ifndef SWAKV_BROKER_PLATFORM_H
#define SWAKV_BROKER_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "driver.h"

struct platform {
	bool mig;        /* a slice of a GPU */
	bool integrated; /* no memory of its own; Jetson */
	bool jetson;
	bool wsl;
	bool container;
	bool mps; /* a control daemon of the Multi-Process Service is running */
	char mps_directory[128];
};

/*
 * Looks at @device and at the files below @root ("" but for tests);
 * $CUDA_MPS_PIPE_DIRECTORY says where MPS would be.
 */
void platform_detect(struct platform *p, const struct driver_device *device, const char *root);
/* What makes the export doubtful ("a MIG slice", "WSL 2", ...), NULL: nothing. */
const char *platform_doubt(const struct platform *p);
/* The likely cause of a failed export or import, and what to do. Writes to @buf, returns it. */
const char *platform_cause(const struct platform *p, bool export_fd, char *buf, size_t size);

#endif
