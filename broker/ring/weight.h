/* SPDX-License-Identifier: Apache-2.0 */
/* weight.h - which commands may be executed in the middle of somebody's long one */
#ifndef SWAKV_BROKER_WEIGHT_H
#define SWAKV_BROKER_WEIGHT_H

#include "commands.h"

/* At most so many operations of the engine for the command of @c in @w; more than ENGINE_SLICE is as good as any. */
uint64_t command_weight(const struct workspace *w, const struct channel *c);

#endif
