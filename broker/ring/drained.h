/* SPDX-License-Identifier: Apache-2.0 */
/* drained.h - which models take no new sessions and requests, by order of an administrator */
#ifndef SWAKV_BROKER_DRAINED_H
#define SWAKV_BROKER_DRAINED_H

#include <stdbool.h>
#include <stdint.h>

#include "admin_wire.h"

struct drained {
	bool all;
	uint32_t n;
	char models[ADMIN_MAX_DRAINED][WIRE_MODEL_NAME]; /* beside all */
};

/* True when workers of @model may not attach. */
bool drained_has(const struct drained *d, const char *model);
/* True when @model itself stands in the list. */
bool drained_lists(const struct drained *d, const char *model);
/* The same for a whole broker: @model is empty. 0, or a code; either way @why says it, in @size bytes. */
int drained_add(struct drained *d, const char model[WIRE_MODEL_NAME], char *why, size_t size);
int drained_remove(struct drained *d, const char model[WIRE_MODEL_NAME], char *why, size_t size);

#endif
