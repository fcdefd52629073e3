/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.h - turns of the control thread, which is real: connections, admission, quotas, ends, administrators
 */
#ifndef SWAKV_SIM_FRONT_H
#define SWAKV_SIM_FRONT_H

#include <stdbool.h>

struct world;

/* After the ring thread is made. False: memory is short. */
bool front_make(struct world *w);
/* Something may be ready: the control thread finds it before long. */
void front_poke(struct world *w);
/* After a turn of the ring thread: has it mailed something? */
void front_look(struct world *w);
/* The broker stops: turns are taken until it says that it is over. */
void front_stop(struct world *w);
/* After the ring thread's end; nothing may be left. */
void front_free(struct world *w);

#endif
