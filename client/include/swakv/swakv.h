/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swakv.h - client library of the swakv KV page broker
 *
 * A worker attaches to a broker, declares its model, and moves batches of
 * sequences through their life: begin, prefill, decode steps, compaction,
 * finish. The broker decides which pages of the shared pool back which tokens;
 * the library keeps the worker's page table on the device up to date, in the
 * order of the worker's own stream.
 *
 * Threads: a session and everything that came from it (requests, streams,
 * tickets) may be used by one thread at a time; the caller sees to that.
 * Different sessions are independent. After fork() the child must not use what
 * the parent attached: every call answers SWAKV_EFORKED there, and the child's
 * exit does not end the parent's session.
 *
 * Errors: a call that returns int returns 0 or a negative code of
 * <swakv/error.h>; swakv_session_error() has the sentence that says which
 * argument, which sequence and which value. A refused call changes nothing,
 * with one exception: SWAKV_ELIMIT of a prepare turns the request to finishing.
 *
 * The comment of each such call lists its codes after "Errors:". "Common" means
 *   SWAKV_EINVALID   a NULL session, request or output, a handle of a request
 *                    that has ended, or another argument that is wrong
 *   SWAKV_EFORKED    called in a child of the process that attached
 * and, where the call sends the broker a command (those with a ticket, the
 * queries, swakv_session_shutdown()), also
 *   SWAKV_EGONE      the session or the broker has ended
 *   SWAKV_ENOMEM     no memory for the call
 *   SWAKV_ETIMEDOUT  no answer in time, or no room in the command ring
 * Calls that return something else answer NULL handles with what they say, or
 * with a struct of zeros.
 *
 * Arguments are borrowed for the call and copied, unless it says otherwise.
 * Lengths count tokens, sizes count bytes. "Spec section N" is the page
 * shared/spec.md of the sources.
 */
#ifndef SWAKV_H
#define SWAKV_H

#include <swakv/error.h>
#include <swakv/request.h>
#include <swakv/session.h>
#include <swakv/state.h>
#include <swakv/step.h>
#include <swakv/stream.h>

#define SWAKV_VERSION_MAJOR 0
#define SWAKV_VERSION_MINOR 1

#endif
