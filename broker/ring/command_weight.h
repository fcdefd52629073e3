/* SPDX-License-Identifier: Apache-2.0 */
/* command_weight.h - which commands may be executed in the middle of somebody's long one */
#ifndef SWAKV_BROKER_COMMAND_WEIGHT_H
#define SWAKV_BROKER_COMMAND_WEIGHT_H

#include "commands.h"

/* At most so many operations of the engine for the command of @c in @w; more than ENGINE_LONG is as good as any. */
uint64_t command_weight(const struct workspace *w, const struct channel *c);

/* What an operation itself may do, for the table of operations (operation.h): */
uint64_t weight_begin(const struct workspace *w, const struct channel *c);
/* its payload has a number of tokens for each sequence, */
uint64_t weight_tokens(const struct workspace *w, const struct channel *c);
/* which goes back by as many, */
uint64_t weight_rewind(const struct workspace *w, const struct channel *c);
/* entries, */
uint64_t weight_step(const struct workspace *w, const struct channel *c);
uint64_t weight_reserve(const struct workspace *w, const struct channel *c);
/* it looks at each row of a request, */
uint64_t weight_rows(const struct workspace *w, const struct channel *c);
/* may move all of its pages, */
uint64_t weight_whole(const struct workspace *w, const struct channel *c);
/* says what a sequence holds, */
uint64_t weight_state(const struct workspace *w, const struct channel *c);
/* it takes or gives as many as its header counts, */
uint64_t weight_pages(const struct workspace *w, const struct channel *c);
/* or all of the session's. */
uint64_t weight_session(const struct workspace *w, const struct channel *c);

#endif
