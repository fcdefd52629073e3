/* SPDX-License-Identifier: Apache-2.0 */
/* process_state.h - why a process that lives gives no answer, as far as the kernel tells */
#ifndef SWAKV_PROCESS_STATE_H
#define SWAKV_PROCESS_STATE_H

/* State letter of process @pid (proc(5)), 0 when it cannot be told: another pid namespace, a hidden /proc. */
char process_state(int pid);

#define PROCESS_SILENCE 256

/*
 * What to do about a broker that does not answer, of process @pid (0: unknown):
 * to let it go on, where it is stopped, or else the command @look. A sentence
 * without its full stop, in @buf, which is returned.
 */
const char *process_silence(char buf[PROCESS_SILENCE], int pid, const char *look);

#endif
