/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - which sequences run: joins, leaves, and the requests that hold them */
#ifndef DEMO_BATCH_H
#define DEMO_BATCH_H

#include <stdbool.h>

struct worker;
struct sequence;

/* 0 or a code. */
int batch_init(struct worker *w);
/* Frees what is left: for after the session has ended or the stream is idle. */
void batch_deinit(struct worker *w);

/* True when no row is left to begin. */
bool batch_drained(const struct worker *w);
/* Begins and prefills as many requests as slots and pages allow now. 0 or a code. */
int batch_admit(struct worker *w);
/* Finishes requests that are done and drops ended sequences from the others. 0 or a code. */
int batch_retire(struct worker *w);
/* Begins nothing more and lets every sequence end with its next step. */
void batch_wind_down(struct worker *w);

/* Frees @seq if it has left its request and every result of it is checked. */
void sequence_release(struct sequence *seq, struct worker *w);

#endif
