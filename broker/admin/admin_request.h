/* SPDX-License-Identifier: Apache-2.0 */
/* admin_request.h - an administrator's message, checked before anything believes it */
#ifndef SWAKV_BROKER_ADMIN_REQUEST_H
#define SWAKV_BROKER_ADMIN_REQUEST_H

#include <stddef.h>

#include "admin_wire.h"

/*
 * Copies the @bytes of @message (any number, any content) to *@out and checks
 * every field. 0; or a negative code, with the sentence in @why (@size bytes).
 */
int admin_request_check(struct admin_request *out, const void *message, size_t bytes, char *why, size_t size);
/* "ping", "list", ...; "?" for what is none. Static. */
const char *admin_op_name(unsigned int op);

#endif
