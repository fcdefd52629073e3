/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - the CPUs that a broker may use, and where its ring thread keeps among them */
#ifndef SWAKV_BROKER_MACHINE_H
#define SWAKV_BROKER_MACHINE_H

#include <sched.h>
#include <stdint.h>

#include "cpu_list.h"

struct machine {
	cpu_set_t allowed; /* of this process */
	cpu_set_t ring;    /* of the ring thread; empty: it keeps to none */
	uint32_t beside; /* 1 + a CPU whose last-level cache is that of all of them; 0: they keep to none, or to several
			  */
	char text[160];  /* "16 CPUs, last-level caches of 0-7 and 8-15" */
};

/* @ring: what was asked for. 0; -EINVAL: a CPU in it is not allowed, and @m->allowed are; else a negative errno. */
int machine_look(struct machine *m, const cpu_set_t *ring);
#endif
