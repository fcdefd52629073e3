/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import_probe.h - does an exported pool really work in another process?
 *
 * An attribute that says yes is not enough: the broker runs itself as a child
 * that imports the pool, reads a pattern, writes its inverse, and unmaps.
 */
#ifndef SWAKV_BROKER_IMPORT_PROBE_H
#define SWAKV_BROKER_IMPORT_PROBE_H

#include <stdint.h>

#include "backend.h"
#include "driver.h"

/*
 * Tries the pool at @address of @driver, whose first bytes it overwrites. 0, or
 * SWAKV_EDEVICE with the sentence in @why. Blocks, at most a minute.
 */
int import_probe_run(struct driver *driver, uint64_t address, const struct backend_pool *pool, const char *library,
		     char why[BACKEND_WHY]);

/* The child: takes its order from standard input, says on standard output what failed. Returns its exit code. */
int import_probe_child(const char *library);

#endif
