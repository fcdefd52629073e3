/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h - where a pool's memory comes from and how workers get at it
 *
 * Calls may block (allocation, driver): device thread only, or a process with
 * one thread. A pool is one allocation: table area, K half, V half.
 */
#ifndef SWAKV_BROKER_BACKEND_H
#define SWAKV_BROKER_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "wire.h"

#define BACKEND_WHY 512

/* What is exported. The IPC handle is a key: it goes over the checked socket only, never into a log or file. */
struct backend_pool {
	char name[WIRE_NAME];
	uint32_t backend;     /* enum wire_backend */
	uint32_t export_kind; /* enum wire_export */
	char device[64];
	uint8_t device_uuid[16];
	char uuid_text[48]; /* empty on the host backend */
	uint8_t ipc_handle[64];
	int fd; /* of an exported memfd or device allocation, the backend's; -1: none */
	uint64_t bytes;
	uint64_t table_area_bytes;
	uint64_t half_bytes;
	uint64_t extent_bytes;
	uint64_t min_page_bytes; /* of K, that a model may have */
	bool mps;                /* the Multi-Process Service runs on the device */
};

struct backend;

struct backend_ops {
	const char *name;
	/* 0, or an enum exit_code with *@why filled. @state is what the other calls get. */
	int (*open)(void **state, const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY]);
	/* Bytes that an allocation could have now. */
	int (*free_bytes)(void *state, uint64_t *bytes, char why[BACKEND_WHY]);
	/* Allocates pool->bytes and fills export_kind and what goes with it. Undoes itself on failure. */
	int (*alloc)(void *state, struct backend_pool *pool, char why[BACKEND_WHY]);
	/*
	 * NULL: nothing to test. Can other processes use what alloc() made?
	 * @caution gets what the log should warn of.
	 */
	int (*test)(void *state, const struct config *c, const struct backend_pool *pool, char caution[BACKEND_WHY],
		    char why[BACKEND_WHY]);
	/* NULL: it cannot be lost. Does the device still answer, and what alloc() made with it? */
	int (*check)(void *state, const struct backend_pool *pool, char why[BACKEND_WHY]);
	/* Frees what alloc() made. Safe to repeat. */
	void (*release)(void *state, struct backend_pool *pool);
	void (*close)(void *state);
};

extern const struct backend_ops backend_host;
extern const struct backend_ops backend_cuda;

struct backend {
	const struct backend_ops *ops;
	void *state;
	bool allocated;
	struct backend_pool pool;
	char note[BACKEND_WHY];    /* which one `auto` took, and why; empty otherwise */
	char caution[BACKEND_WHY]; /* what people should be warned of; empty: nothing */
};

/*
 * Opens the backend that @c asks for and sizes the pool, allocating nothing yet.
 * 0, or an enum exit_code with the sentence in @why.
 */
int backend_open(struct backend *b, const struct config *c, char why[BACKEND_WHY]);
/* Allocates, exports and tests the pool. 0, or an enum exit_code with the sentence in @why. */
int backend_alloc(struct backend *b, const struct config *c, char why[BACKEND_WHY]);
/* 0, or EXIT_CODE_DEVICE with the sentence in @why: the device of an allocated pool does not answer. */
int backend_check(struct backend *b, char why[BACKEND_WHY]);
/* Frees the pool: only when no worker has it mapped any more. Safe to repeat. */
void backend_release(struct backend *b);
/* Leaves the device. With a pool still allocated that other processes map, do not call this: exit instead. */
void backend_close(struct backend *b);

const char *backend_name(uint32_t backend);
const char *export_name(uint32_t export_kind);

#endif
