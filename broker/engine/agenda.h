/* SPDX-License-Identifier: Apache-2.0 */
/* agenda.h - which sequences of a request change at a step */
#ifndef SWAKV_ENGINE_AGENDA_H
#define SWAKV_ENGINE_AGENDA_H

#include "internal.h"

/* Puts all sequences of @r in order of their `due`. */
void agenda_build(struct session *s, struct request *r);
/* The sequences due at step @step, as places in the agenda, parents first, in s->slot_scratch; how many. */
uint32_t agenda_due(const struct session *s, const struct request *r, uint64_t step);
/* Restores the order after the sequences at the @n places in s->slot_scratch got a later `due`. */
void agenda_settle(struct session *s, struct request *r, uint32_t n);

static inline struct seq *agenda_seq(const struct session *s, const struct request *r, int32_t place)
{
	return &s->seqs[s->agenda[r->first + (uint32_t)place]];
}

#endif
