/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.h - a fault or a broken invariant: says what it knows, and ends at once
 *
 * From crash_init() on, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS and
 * SIGTRAP, and every MUST() of the engine, stop all threads of the broker, write
 * what crash_report.h knows to standard error and to the dump file, and end the
 * process with EXIT_CODE_CRASH or EXIT_CODE_BROKEN. Nothing of its state is used
 * again. Memory that memory_guard.h guards is the exception: there SIGBUS is no
 * crash.
 */
#ifndef SWAKV_BROKER_CRASH_H
#define SWAKV_BROKER_CRASH_H

#include <stdbool.h>

#include "crash_report.h"

/*
 * @subject is borrowed for the rest of the process. @dump_file: NULL or empty:
 * none; it is opened now, and made when missing. 0 or a negative errno of that.
 */
int crash_init(const struct crash_subject *subject, const char *dump_file);

/*
 * The calling thread gets a stack of its own for the handler, where an overflow
 * of the first leaves room, and has a @name (static) in the dump. @stops: a crash
 * of another stops it. To be called once by each thread of the broker.
 */
void crash_thread(const char *name, bool stops);
/* Before that thread ends. */
void crash_thread_end(void);

#endif
