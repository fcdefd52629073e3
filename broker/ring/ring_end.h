/* SPDX-License-Identifier: Apache-2.0 */
/* ring_end.h - the end of a session: no more commands, then proof, then its pages are free */
#ifndef SWAKV_BROKER_RING_END_H
#define SWAKV_BROKER_RING_END_H

#include "ring_thread.h"

/* No more commands; all that the session holds waits for proof that nothing of it runs. */
void ring_end_session(struct ring_thread *t, struct channel *c, enum channel_state state);
/* Ends it for enum violation @violation, and tells the control thread. */
void ring_kick(struct ring_thread *t, struct channel *c, int violation);
/*
 * Reads the session's lines, and sets *@progress when a word moved; an ended
 * session whose armed words are all reached is reclaimed. False: nothing is left
 * of it.
 */
bool ring_refresh(struct ring_thread *t, struct channel *c, bool *progress);
/*
 * Its connection is gone: the process may live on. @cut: by the broker's will, so
 * that the worker may still take what was answered, and begin what it allows.
 */
void ring_socket_ended(struct ring_thread *t, struct channel *c, bool cut);
/* Proof that nothing of it runs any more. */
void ring_process_gone(struct ring_thread *t, struct channel *c);
/* Pages of its session memory are gone: the session ends, and its lines are not believed. */
void ring_memory_lost(struct ring_thread *t, struct channel *c);

#endif
