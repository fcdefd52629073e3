/* SPDX-License-Identifier: Apache-2.0 */
/* sealed_memfd.h - memory to be shared, which whoever has its descriptor cannot cut short */
#ifndef SWAKV_BROKER_SEALED_MEMFD_H
#define SWAKV_BROKER_SEALED_MEMFD_H

#include <stdint.h>

/*
 * A memfd of @bytes, close-on-exec, not executable where the kernel knows how,
 * all of it allocated, mapped at *@map, sealed against shrinking and growing and
 * by @seals besides. Negative errno on failure.
 */
int sealed_memfd(const char *name, uint64_t bytes, unsigned int seals, unsigned char **map);

#endif
