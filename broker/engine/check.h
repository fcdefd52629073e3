/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - every invariant of the engine, from scratch */
#ifndef SWAKV_ENGINE_CHECK_H
#define SWAKV_ENGINE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct engine;

/*
 * Checks every invariant of spec section 4 over the whole engine, slowly. True
 * when all hold; else @buf says the first violation. For tests.
 */
bool engine_check(const struct engine *e, char *buf, size_t size);

#endif
