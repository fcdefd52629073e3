/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h - SIGINT, SIGTERM and SIGHUP become a flag, so that everything started is ended */
#ifndef SWAKV_REPLAY_INTERRUPT_H
#define SWAKV_REPLAY_INTERRUPT_H

/* From now on these signals set the flag and interrupt blocking calls. */
void interrupt_catch(void);
/* Signal that came, 0: none. */
int interrupt_signal(void);
/* In a child before exec: as if they had never been caught. */
void interrupt_reset(void);

#endif
