/* SPDX-License-Identifier: Apache-2.0 */
/* mps_list.h - a list of processes as nvidia-cuda-mps-control prints it */
#ifndef SWAKV_BROKER_MPS_LIST_H
#define SWAKV_BROKER_MPS_LIST_H

#include <stdint.h>

/*
 * The pids in @answer, one a line, in @pids (@most of them). How many; -1: it is
 * no such list, or has more. A sentence is not an empty list: who reads it as one
 * believes that a process has ended.
 */
int mps_list_parse(const char *answer, uint32_t *pids, int most);

#endif
