/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_import.h - a pool of a broker, mapped once in this process
 *
 * Sessions of one process on the same pool share one import: opening an
 * exported allocation twice would count up in the driver, and closing it while
 * the other session uses it would take the memory away under its kernels.
 */
#ifndef SWAKV_CLIENT_POOL_IMPORT_H
#define SWAKV_CLIENT_POOL_IMPORT_H

#include <stdint.h>

#include "text.h"
#include "wire.h"

struct driver;

struct pool_import {
	struct driver *driver; /* NULL on the host backend */
	void *host;            /* mapped memfd; NULL on CUDA */
	uint64_t address;      /* that kernels use */
	uint64_t bytes;
	uint64_t mapped; /* bytes that a descriptor's import mapped; 0: imported in another way */
};

/* What the caller wants imported, and how to say so if it fails. */
struct pool_request {
	const struct wire_pool *pool;
	const uint8_t *boot_id; /* 16 bytes */
	uint32_t incarnation;
	int fd;                   /* host backend, and CUDA by descriptor; borrowed */
	const char *cuda_library; /* NULL: the default */
	const char *broker;       /* name, for texts */
	const char *look;         /* a command that tells how it is */
	int broker_pid;
};

/* *@out is shared and counted; give it back with pool_import_put(). */
int pool_import_get(const struct pool_request *request, struct pool_import **out, struct text *why);
/* The caller's streams are idle. Returns NULL; NULL is ignored. */
struct pool_import *pool_import_put(struct pool_import *p);

#endif
