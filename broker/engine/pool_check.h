/* SPDX-License-Identifier: Apache-2.0 */
/* pool_check.h - every account of extents and page classes, from scratch */
#ifndef SWAKV_ENGINE_POOL_CHECK_H
#define SWAKV_ENGINE_POOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct pool;

/* Checks the account of the extents and every class; false, with a sentence, when anything is wrong. For tests. */
bool pool_check(const struct pool *p, char *buf, size_t size);

#endif
