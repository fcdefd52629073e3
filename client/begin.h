/* SPDX-License-Identifier: Apache-2.0 */
/* begin.h - a begin whose answer is there, and whose slots may not be through yet */
#ifndef SWAKV_CLIENT_BEGIN_H
#define SWAKV_CLIENT_BEGIN_H

#include <stdbool.h>

struct swakv_session;
struct call;

/* A begin that is held because its slots are not through yet: true when that is over, with its result. */
bool begin_settled(struct swakv_session *s, struct call *c);

#endif
