/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_list.h - sets of CPUs as text ("0-3,8", as taskset -c takes them), and which CPUs share a cache */
#ifndef SWAKV_CPU_LIST_H
#define SWAKV_CPU_LIST_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#define CPU_LIST_TEXT 128 /* bytes of one, with its NUL; longer ones end in "..." */
#define CPU_LIST_SYS  "/sys/devices/system/cpu"

/* False, *@out unchanged: @text is no list, or names a CPU above those that a cpu_set_t knows. */
bool cpu_list_read(const char *text, cpu_set_t *out);
/* Returns @text. An empty set is "". */
const char *cpu_list_write(const cpu_set_t *set, char text[CPU_LIST_TEXT]);
/*
 * The CPUs that share the last-level cache with @cpu, as the kernel tells below
 * @sys (CPU_LIST_SYS). False, *@out unchanged: it does not tell.
 */
bool cpu_list_beside(const char *sys, int cpu, cpu_set_t *out);

#endif
