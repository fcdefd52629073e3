/* SPDX-License-Identifier: Apache-2.0 */
/* call_collect.h - waiting for a call's answer, and handing its result to the caller */
#ifndef SWAKV_CLIENT_CALL_COLLECT_H
#define SWAKV_CLIENT_CALL_COLLECT_H

#include "call.h"

/* After sending: hands out the ticket, or, when @ticket is NULL, waits and collects. */
int call_return(struct swakv_session *s, struct call *c, swakv_ticket *ticket);
/* A call that needs no broker: its result is there already. */
int call_return_now(struct swakv_session *s, swakv_ticket *ticket);

#endif
