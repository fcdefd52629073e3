/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the values of a command, and how many calls of the library its answer counts */
#ifndef SWAKV_REPLAY_COMMAND_H
#define SWAKV_REPLAY_COMMAND_H

#include <jansson.h>
#include <stdint.h>

/* 0 when there is none. */
int64_t command_integer(const json_t *command, const char *name);
/* An int32 list of *@n numbers, malloc'd; NULL: out of memory. */
int32_t *command_list(const json_t *command, const char *name, uint32_t *n);
/* Counts in @answer a call that succeeded, which returned @code. Returns @code. */
int command_count(json_t *answer, int code);

#endif
