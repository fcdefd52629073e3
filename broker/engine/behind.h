/* SPDX-License-Identifier: Apache-2.0 */
/* behind.h - pages that come free when a session's own open points are reached */
#ifndef SWAKV_ENGINE_BEHIND_H
#define SWAKV_ENGINE_BEHIND_H

#include "session.h"

/* Whether @needs could be had if all open points of @s were reached. */
bool behind_suffices(struct session *s, const int64_t *needs);

#endif
