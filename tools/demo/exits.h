/* SPDX-License-Identifier: Apache-2.0 */
/* exits.h - exit statuses of swakv-demo-worker */
#ifndef DEMO_EXITS_H
#define DEMO_EXITS_H

enum {
	EXIT_FINE = 0,
	EXIT_MISMATCH = 1, /* some result, a table entry, or a vector in a page was wrong */
	EXIT_USAGE = 2,
	EXIT_GONE = 3,    /* attach failed, or the broker went away */
	EXIT_TROUBLE = 4, /* anything else: memory, device, a request that can never fit */
};

#endif
