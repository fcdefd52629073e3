/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps.h - workers that are clients of the Multi-Process Service
 *
 * There the kernels of all workers run in one server, which a worker's death
 * leaves standing: what it had enqueued may go on until the server is told.
 */
#ifndef SWAKV_BROKER_MPS_H
#define SWAKV_BROKER_MPS_H

#include <stddef.h>
#include <stdint.h>

#define MPS_WHY 160

/*
 * Has the control program (nvidia-cuda-mps-control in $PATH) end all that client
 * @pid has on the GPU. How many servers knew it; 0 when it has left them already;
 * -1 with the reason in @why (MPS_WHY bytes). Waits for the program, up to a
 * second for each of its answers.
 */
int mps_terminate_client(uint32_t pid, char *why);

#endif
