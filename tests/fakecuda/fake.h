/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.h - a CUDA driver over host memory and threads, for tests
 *
 * libfakecuda.so has the driver functions that this project uses. Device memory
 * is a memfd mapping, so that processes can share it; each stream is a thread
 * with a queue; a kernel launch runs the CPU twin of that name. What the real
 * driver forbids is refused the same way, and what it leaves undefined ends the
 * process with a sentence. See config.c for what the environment can ask for.
 */
#ifndef FAKECUDA_FAKE_H
#define FAKECUDA_FAKE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* Device addresses are host addresses with this bit: not canonical, so host code that follows one dies at once. */
#define FAKE_TAG (1ull << 52)

/* ---- config.c: what goes wrong on purpose, and who called what -------------- */

enum fake_rule { FAKE_FAIL, FAKE_STALL, FAKE_LATE, FAKE_RULES };

/* Reads the environment; the first call of the process does it. */
void fake_configure(void);
/* Counts a call of @function and returns its number, from 1. */
unsigned fake_count(const char *function);
/* The value that a rule of this kind has for call @nth of @function, 0: none. */
long fake_rule(enum fake_rule rule, const char *function, unsigned nth);
/* The error by which the device is lost, as a file says that the test has named; CUDA_SUCCESS: it is not. */
CUresult fake_lost(void);
/* Number from the environment, @otherwise when unset; not a number: ends the process. */
uint64_t fake_number(const char *variable, uint64_t otherwise);
/* Prints a sentence and aborts. */
void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void fake_sleep_ms(long ms);

/* ---- device.c: the frame of each call ----------------------------------------- */

enum { FAKE_CONTEXT = 1, FAKE_INITIALIZED = 2 };
/*
 * Opens each function: counts, stalls, fails when a rule says so, checks what
 * @needs says. *@late (may be NULL) gets the milliseconds by which the operation
 * itself is to be late. Anything but CUDA_SUCCESS is what the function returns.
 */
CUresult fake_enter(const char *function, unsigned needs, long *late);
/* Makes the context unusable, as an illegal address does; every later call answers @error. */
void fake_break_context(CUresult error);
CUresult fake_context_error(void);
/* True for the name of a function of this driver, with or without version suffix. */
bool fake_knows(const char *function);

/* ---- memory.c: what the device can reach ---------------------------------------- */

/* Host address of [@device, @device + @bytes) if all of it is device-accessible memory, else NULL. */
void *fake_reach(uint64_t device, uint64_t bytes);

/* ---- stream.c --------------------------------------------------------------------- */

/* Waits until every stream has run dry. */
void fake_drain(void);

/* ---- kernels.c --------------------------------------------------------------------- */

struct fake_kernel;
const struct fake_kernel *fake_kernel_find(const char *name);
bool fake_kernel_valid(const void *handle);
size_t fake_kernel_bytes(const struct fake_kernel *k);
const char *fake_kernel_name(const struct fake_kernel *k);
/* Dynamic shared memory that a launch of it may ask for, bytes. */
uint32_t fake_kernel_shared(const struct fake_kernel *k);
uint64_t fake_shared_bytes(void); /* of a block, when its launch asks */
/* Runs the twin on a parameter block with device addresses. An address out of reach breaks the context. */
void fake_kernel_run(const struct fake_kernel *k, const void *params);

/* ---- launch.c ----------------------------------------------------------------------- */

/* Aborts when the kernel on a GPU could not do its work with that grid (x), block (x) and shared memory. */
void fake_launch_check(const char *kernel, const void *params, uint32_t grid, uint32_t block, uint32_t shared);

#endif
