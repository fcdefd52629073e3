/* SPDX-License-Identifier: Apache-2.0 */
/* welcome.h - is what the broker says of a session possible at all? */
#ifndef SWAKV_CLIENT_WELCOME_H
#define SWAKV_CLIENT_WELCOME_H

#include <stdint.h>

#include "text.h"
#include "wire.h"

/* Checks every count, offset and size of @w against itself, against @hello and against @n_fds. SWAKV_EVERSION. */
int welcome_check(const struct wire_welcome *w, const struct wire_hello *hello, uint32_t n_fds, struct text *why);

/* Checks that @fd is a memfd of exactly @bytes that can neither shrink nor grow. @what names it. SWAKV_ESYSTEM. */
int welcome_check_memory(int fd, uint64_t bytes, const char *what, struct text *why);

#endif
