/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - who may have what, reckoned again from what is open
 *
 * The broker keeps a ledger; here its descriptors, connections and memories are
 * counted instead. Both must agree after every turn, and whoever is refused must
 * have been refused for what was so.
 */
#ifndef SWAKV_SIM_QUOTA_H
#define SWAKV_SIM_QUOTA_H

#include "kernel.h"

/* Reckons the page sizes that the sections of the world's configuration keep. */
void quota_init(struct world *w);
/* After a turn of the control thread. */
void quota_check(struct world *w);
/* @c was told that it may attach, or that it may not. */
void quota_check_welcome(struct world *w, struct connection *c);
void quota_check_refusal(struct world *w, struct connection *c);
/* @c is closed without a word. */
void quota_check_hung_up(struct world *w, struct connection *c);
/* Nobody is there any more, or the broker has ended. */
void quota_check_empty(struct world *w);

#endif
