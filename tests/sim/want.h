/* SPDX-License-Identifier: Apache-2.0 */
/*
 * want.h - who is asked for pages that others lack (spec section 8)
 *
 * What is lacking is added up anew here, from who waits and who was refused, and
 * never counts as less than the broker's own reckoning may come to.
 */
#ifndef SWAKV_SIM_WANT_H
#define SWAKV_SIM_WANT_H

struct worker;
struct world;

/* When the ring thread may just have decided who is asked: what of whom. */
void want_check_asked(struct world *w);
/* At any time: nobody is asked without a cause for long, and who could give is asked before long. */
void want_check_ends(struct world *w);
/* @v reads that it got pages: unless it has asked for something since, what it was refused before counts no longer. */
void want_check_given(struct worker *v);

#endif
