/* SPDX-License-Identifier: Apache-2.0 */
/* shown.h - the status page and the boards show what is so while the broker sleeps for long */
#ifndef SWAKV_SIM_SHOWN_H
#define SWAKV_SIM_SHOWN_H

#include <stdint.h>

struct world;

/* The ring thread is about to sleep for @ns, unless somebody rings. */
void shown_check(struct world *w, uint64_t ns);

#endif
