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
 * Structs begin with their size: a program sets .size = sizeof(it) and every
 * member that it does not use to 0, which later versions keep for "as before".
 * So program and library may be of different versions: a struct that is shorter
 * than the library's is read and written as far as it goes; one that is longer is
 * taken when what the library does not know is 0. In a list of structs the size
 * is also the distance from one to the next. Structs without a size never change.
 *
 * Arguments are borrowed for the call and copied, unless it says otherwise.
 * Lengths count tokens, sizes count bytes. "Spec section N" is the page
 * shared/spec.md of the sources.
 */
#ifndef SWAKV_H
#define SWAKV_H

#include <swakv/error.h>
#include <swakv/export.h>
#include <swakv/pages.h>
#include <swakv/request.h>
#include <swakv/session.h>
#include <swakv/state.h>
#include <swakv/step.h>
#include <swakv/stream.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Of these headers. */
#define SWAKV_VERSION_MAJOR  0
#define SWAKV_VERSION_MINOR  1
#define SWAKV_VERSION_PATCH  0
#define SWAKV_VERSION_NUMBER (SWAKV_VERSION_MAJOR << 16 | SWAKV_VERSION_MINOR << 8 | SWAKV_VERSION_PATCH)

/* The same of the library that is loaded. */
uint32_t swakv_version(void);
/*
 * True when the library that is loaded has @feature; false for NULL, and for a
 * name that it does not know. Names, and what each stands for: swakv(7).
 */
bool swakv_has(const char *feature);
/*
 * Bytes of struct @name of these headers in the library that is loaded, for
 * callers without a C compiler; 0 for NULL, and for a name that it does not know.
 */
size_t swakv_struct_size(const char *name);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
