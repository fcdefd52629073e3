/* SPDX-License-Identifier: Apache-2.0 */
/* finish.h - a request that ends without its caller's asking */
#ifndef SWAKV_CLIENT_FINISH_H
#define SWAKV_CLIENT_FINISH_H

struct swakv_request;

/* Sends an abandon that nobody waits for, unless the broker has it no more. */
void request_abandon_quietly(struct swakv_request *r);

#endif
