/* SPDX-License-Identifier: Apache-2.0 */
/* quarantine.h - pages that work may still touch, and that nobody can say when */
#ifndef SWAKV_ENGINE_QUARANTINE_H
#define SWAKV_ENGINE_QUARANTINE_H

#include "session.h"

/* Pages of @chains go to the quarantine of @line. */
void pages_quarantine(struct session *s, uint32_t line, const struct page_chains *chains);
/* Pages of ended requests that still wait behind a point of @line join the quarantine. */
void line_quarantine(struct session *s, uint32_t line);
/* Every page in quarantine of @line returns to its class; how many. */
int64_t quarantine_release(struct session *s, uint32_t line);
int64_t session_quarantined(const struct session *s);

#endif
