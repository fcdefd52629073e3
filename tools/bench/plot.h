/* SPDX-License-Identifier: Apache-2.0 */
/* plot.h - the curves as a picture */
#ifndef SWAKV_BENCH_PLOT_H
#define SWAKV_BENCH_PLOT_H

#include "results.h"

/* Writes the latency distribution and the scaling as SVG to file @path. 0 or a negative errno. */
int plot_write(const struct results *r, const char *path);

#endif
