/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - what the groups of figures share */
#ifndef FIGURES_FIGURES_H
#define FIGURES_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "child.h"
#include "launch.h"
#include "report.h"

struct figures {
	struct driver *driver;
	void *stream;
	struct report report;
	const char *self;         /* path of this program */
	bool quick;               /* small sizes: to run over a fake driver */
	struct series copy_speed; /* TB/s read and written by device-to-device copies */
};

/* Each adds its figures: 0, or -1 with the reason in the report. What a failed one holds ends with the process. */
int figure_launch(struct figures *f);
int figure_scrub(struct figures *f);
int figure_copy(struct figures *f);
int figure_attention(struct figures *f);
int figure_joined(struct figures *f);
int figure_completion(struct figures *f);
int figure_attach(struct figures *f);
int figure_step(struct figures *f);
int figure_memory(struct figures *f);
int figure_kill(struct figures *f);

/* Roles of this program as a child of itself. Each prints lines, and ends with its input. */
int role_exporter(uint64_t bytes);
int role_context(void);
int role_attach(const char *broker);

/* Reads f->copy_speed once. 0 or the driver's code. */
int figures_copy_speed(struct figures *f);

/* Returns -1 with the reason in the report when @call fails. */
#define TRY(f, group, call)                                                                                            \
	do {                                                                                                           \
		if (call)                                                                                              \
			return report_fail(&(f)->report, group, #call, driver_why((f)->driver));                       \
	} while (0)

#endif
