/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h - the kernels of kernels.h on a GPU
 *
 * Each launch picks its grid; `params` as in kernels.h, with device addresses.
 * Results as of driver.h. What the library needs and what an engine brings
 * itself are two images, so that the library does not carry the engine's.
 */
#ifndef SWAKV_LAUNCH_H
#define SWAKV_LAUNCH_H

#include "driver.h"
#include "kernels.h"

extern const struct driver_image kernel_image_table;  /* apply, ring, count, scrub */
extern const struct driver_image kernel_image_engine; /* all others */

int driver_run_apply(struct driver *d, void *stream, const struct kernel_apply *params);
int driver_run_apply_ring(struct driver *d, void *stream, const struct kernel_apply_ring *params);
int driver_run_count(struct driver *d, void *stream, const struct kernel_count *params);
int driver_run_scrub(struct driver *d, void *stream, const struct kernel_scrub *params);

int driver_run_kv_write(struct driver *d, void *stream, const struct kernel_kv_write *params);
int driver_run_attention(struct driver *d, void *stream, const struct kernel_attention *params);
int driver_run_fill(struct driver *d, void *stream, const struct kernel_fill *params);
int driver_run_copy(struct driver *d, void *stream, const struct kernel_copy *params);
int driver_run_check(struct driver *d, void *stream, const struct kernel_check *params);
/* One block of one thread that does nothing. */
int driver_run_empty(struct driver *d, void *stream);

#endif
