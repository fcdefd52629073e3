/* SPDX-License-Identifier: Apache-2.0 */
/* finish.h - a request that ends */
#ifndef SWAKV_CLIENT_FINISH_H
#define SWAKV_CLIENT_FINISH_H

#include <stdbool.h>

struct swakv_request;

/* A finish, or else an abandon, of @r was answered with @result: the call's. */
int request_ended(struct swakv_request *r, bool finish, int result);
/* Sends an abandon that nobody waits for, unless the broker has it no more. */
void request_abandon_quietly(struct swakv_request *r);

#endif
