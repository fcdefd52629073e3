/* SPDX-License-Identifier: Apache-2.0 */
/* wire_token.h - what a process shows that joins a session */
#ifndef SWAKV_WIRE_TOKEN_H
#define SWAKV_WIRE_TOKEN_H

#include <stdint.h>

#define WIRE_KEY        16 /* random bytes */
#define WIRE_MAX_JOINED 15 /* processes of a session, beside the first */

struct wire_token {
	uint8_t key[WIRE_KEY]; /* of the session's welcome, as the others */
	uint32_t session_id;
	uint32_t session_generation;
};
_Static_assert(sizeof(struct wire_token) == 24, "wire_token");

#endif
