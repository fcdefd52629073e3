/* SPDX-License-Identifier: Apache-2.0 */
/* call_send.h - a call's command, from its parts to the command ring */
#ifndef SWAKV_CLIENT_CALL_SEND_H
#define SWAKV_CLIENT_CALL_SEND_H

#include "call.h"

struct part {
	const void *p;
	size_t n;
};

/*
 * Sends the command with payload @parts and @n elements; waits for space at
 * most the session's time. On failure the call is freed and the sentence set.
 */
int call_send(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, const struct part *parts,
	      size_t n_parts);
/*
 * The parts of call_send(), for a payload of @bytes that is put together by the
 * caller: room for it (on failure the call is freed and the sentence set); where
 * byte @offset of it goes, at any time before; publishing; noting that it was
 * sent, and waking a broker that sleeps. What is done between the last two costs
 * nothing: until the command has left this CPU, looking at the broker's flag waits.
 */
int call_open(struct swakv_session *s, struct call *c, size_t bytes);
void *call_place(struct swakv_session *s, size_t offset);
void call_publish(struct swakv_session *s, struct call *c, uint64_t request, uint32_t n, size_t bytes);
void call_sent(struct swakv_session *s, struct call *c);
/* Sends and forgets. */
void call_send_orphan(struct swakv_session *s, struct call *c, uint64_t request, const struct part *parts,
		      size_t n_parts);
/* Most payload bytes one command can carry. */
size_t call_max_payload(const struct swakv_session *s);
/* True when @n elements of @size bytes behind @head bytes can travel in one command. */
bool call_fits(const struct swakv_session *s, size_t head, uint32_t n, size_t size);

#endif
