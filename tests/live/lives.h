/* SPDX-License-Identifier: Apache-2.0 */
/* lives.h - a worker that leaves NaN in its pages, and one that comes after it */
#ifndef SWAKV_TESTS_LIVES_H
#define SWAKV_TESTS_LIVES_H

#include "live.h"

#define LIFE_NAN         0x7fff
#define LIFE_PAGE_TOKENS 16
#define LIFE_WINDOW      (4 * LIFE_PAGE_TOKENS)
#define LIFE_MAX_PAGES   4096

/* Pages that a worker has had in its rows, and filled with NaN. */
extern bool life_spoilt[LIFE_MAX_PAGES];
/* Pages that the model could have before the first life: it is over when as many are there again. */
extern int64_t life_fresh;

swakv_session *life_attach(const struct swakv_attach_options *o);
/* @max_tokens: 0: whatever the window needs. */
swakv_request *life_begin(swakv_session *s, int32_t slot, int64_t max_tokens);
int32_t life_host_page(swakv_session *s, int slot, int column);

/* Fills all pages that are in row @slot now. */
void life_spoil(swakv_session *s, int slot);

/*
 * A life that leaves NaN in all its pages, for it holds no more than one window and a page touch: whoever comes next
 * meets them. Its session ends if @closes, and is returned otherwise.
 */
swakv_session *life_first(bool closes);

/* The page in @column of slot 1, if the first life had it, must hold @pattern. Returns whether it had. */
int life_look(swakv_session *s, int column, uint16_t pattern);

/* A prefill and steps through new pages: each that the first life had holds @pattern when it is mapped. */
void life_second(swakv_session *s, uint16_t pattern);

#endif
