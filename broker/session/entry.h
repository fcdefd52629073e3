/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h - who may connect, and becomes a client */
#ifndef SWAKV_BROKER_ENTRY_H
#define SWAKV_BROKER_ENTRY_H

#include "acceptor.h"

/* The owner is the struct control. */
extern const struct acceptor_owner entry_calls;

#endif
