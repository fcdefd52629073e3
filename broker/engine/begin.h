/* SPDX-License-Identifier: Apache-2.0 */
/* begin.h - the admission of a request */
#ifndef SWAKV_ENGINE_BEGIN_H
#define SWAKV_ENGINE_BEGIN_H

#include "engine.h"

struct session;

/* Admits @b if that can be done now: 0, or the code of why not. */
int request_admit(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f);
/* True when only open points of @s itself stand in the way of @b, which needs @needs. */
bool request_waits_for_itself(struct session *s, const struct begin *b, const int64_t *needs);

/* Pages of all groups together. */
int64_t begin_pages(const struct session *s, const int64_t *needs);

#endif
