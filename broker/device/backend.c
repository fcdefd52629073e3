/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.c - picks the backend
 *
 * `auto` takes cuda when a driver and the device are there, else host, and says
 * which and why: a broker that silently serves host memory on a GPU machine
 * would be found out late.
 */
#include "backend.h"

#include <stdio.h>
#include <string.h>

#include "names.h"
#include "plan.h"

const char *backend_name(uint32_t backend)
{
	NAMES(names, WIRE_BACKEND_COUNT, WIRE_BACKEND_NAMES);

	return NAME_OF(names, backend);
}

const char *export_name(uint32_t export_kind)
{
	NAMES(names, WIRE_EXPORT_COUNT, WIRE_EXPORT_NAMES);

	return NAME_OF(names, export_kind);
}

static int open_any(struct backend *b, const struct config *c, char why[BACKEND_WHY])
{
	int code;

	if (c->backend != CONFIG_BACKEND_HOST) {
		b->ops = &backend_cuda;
		code = b->ops->open(&b->state, c, &b->pool, why);
		if (code == 0 && c->backend == CONFIG_BACKEND_AUTO)
			snprintf(b->note, sizeof(b->note), "backend auto: cuda, found %s", b->pool.device);
		if (code == 0 || c->backend == CONFIG_BACKEND_CUDA)
			return code;
		snprintf(b->note, sizeof(b->note), "backend auto: host, because cuda is not available: %.400s", why);
	}
	b->ops = &backend_host;
	return b->ops->open(&b->state, c, &b->pool, why);
}

int backend_open(struct backend *b, const struct config *c, char why[BACKEND_WHY])
{
	uint64_t free_bytes = 0;
	int code;

	*b = (struct backend){ .pool = { .fd = -1 } };
	strcpy(b->pool.name, c->pool.name);
	code = open_any(b, c, why);
	if (code)
		return code;
	code = b->ops->free_bytes(b->state, &free_bytes, why);
	if (code == 0)
		code = plan_pool(&b->pool, c, free_bytes, why);
	if (code)
		backend_close(b);
	return code;
}

int backend_alloc(struct backend *b, const struct config *c, char why[BACKEND_WHY])
{
	int code = b->ops->alloc(b->state, &b->pool, why);

	b->allocated = code == 0;
	if (code == 0 && b->ops->test)
		code = b->ops->test(b->state, c, &b->pool, b->caution, why);
	if (code)
		backend_release(b);
	return code;
}

int backend_check(struct backend *b, char why[BACKEND_WHY])
{
	return b->allocated && b->ops->check ? b->ops->check(b->state, &b->pool, why) : 0;
}

void backend_release(struct backend *b)
{
	if (b->allocated)
		b->ops->release(b->state, &b->pool);
	b->allocated = false;
}

void backend_close(struct backend *b)
{
	if (b->ops)
		b->ops->close(b->state);
	b->ops = NULL;
}
