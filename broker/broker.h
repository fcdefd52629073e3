/* SPDX-License-Identifier: Apache-2.0 */
/* broker.h - puts the parts together: start, serve, stop */
#ifndef SWAKV_BROKER_BROKER_H
#define SWAKV_BROKER_BROKER_H

#include "config/config.h"

/*
 * Runs a broker until a signal stops it; @ready_fd gets a line when it serves (-1:
 * none). Returns an enum exit_code, the reason having been logged.
 */
int broker_run(const struct config *config, int ready_fd);
/* Says on stdout what would be allocated. Returns an enum exit_code. */
int broker_dry_run(const struct config *config);

#endif
