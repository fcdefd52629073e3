/* SPDX-License-Identifier: Apache-2.0 */
/* ring_mail.h - what the control thread says to the ring thread */
#ifndef SWAKV_BROKER_RING_MAIL_H
#define SWAKV_BROKER_RING_MAIL_H

#include "ring_thread.h"

/* Does what the mail says; how many there were. */
uint32_t ring_take_mail(struct ring_thread *t);

#endif
