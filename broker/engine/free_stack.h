/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_stack.h - the free pages of a class: last in, first out
 *
 * Each extent has those that start in it: first the ones that came back, from
 * the last one on; then the fresh ones, from the lowest id on; at the end the one
 * that straddles its end, since that keeps two extents from being empty. What
 * the class counts is page_class.c's. (What a sequence has reserved is a stack
 * of its own: sequence.c.)
 */
#ifndef SWAKV_ENGINE_FREE_STACK_H
#define SWAKV_ENGINE_FREE_STACK_H

#include "page_class.h"

/* Takes @n free pages of @c, which has as many: the first to @out[n - 1] and so on downwards. */
void free_stack_take(struct page_class *c, int32_t *out, int32_t n);
/* Takes one that lies in an extent in use which is not to come empty; false: it found none. */
bool free_stack_take_beside(struct page_class *c, int32_t *out);
/* The extents of @c promise @n free pages, of as many: each knows how many it owes. */
void free_stack_promise(struct page_class *c, int32_t n);
/* Takes @n promised pages, as free_stack_take() does. */
void free_stack_place(struct page_class *c, int32_t *out, int32_t n);
/* @n leased pages come back, in order. */
void free_stack_put(struct page_class *c, const int32_t *pages, int32_t n);
/* One page comes back, leased or from quarantine. */
void free_stack_put_one(struct page_class *c, int32_t page);

#endif
