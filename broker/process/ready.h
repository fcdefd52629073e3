/* SPDX-License-Identifier: Apache-2.0 */
/* ready.h - tells whoever started the broker that it serves */
#ifndef SWAKV_BROKER_READY_H
#define SWAKV_BROKER_READY_H

/* Writes a line to @fd and closes it (-1: none), and tells systemd where the build knows it. */
void ready_notify(int fd);
void ready_stopping(void);

#endif
