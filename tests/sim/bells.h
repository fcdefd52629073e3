/* SPDX-License-Identifier: Apache-2.0 */
/* bells.h - eventfd_write() and eventfd_read() without a system call, for all that is linked with this */
#ifndef SWAKV_SIM_BELLS_H
#define SWAKV_SIM_BELLS_H

/* Before a world begins: nothing has rung. */
void bells_forget(void);

#endif
