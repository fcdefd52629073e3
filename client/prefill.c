/* SPDX-License-Identifier: Apache-2.0 */
/* prefill.c - the first step of a request (swakv_step.3) */
#include "call.h"
#include "delivery.h"
#include "request.h"

static int prefill_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			  const unsigned char *payload, size_t len)
{
	if (c->result != 0)
		return c->result;
	request_set_pending(c->entries[0].request, WIRE_OP_PREFILL_COMPLETE);
	return delivery_take(s, c, payload, len, true);
}

int swakv_prefill_prepare(swakv_request *r, const int32_t *lengths, uint32_t n, swakv_ticket *ticket)
{
	return request_send_list(r, WIRE_OP_PREFILL_PREPARE, prefill_effect, "lengths", lengths, n, ticket);
}

static int complete_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			   const unsigned char *payload, size_t len)
{
	if (c->result == 0)
		request_completed(&c->entries[0]);
	return c->result;
}

int swakv_prefill_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	return request_complete(r, WIRE_OP_PREFILL_COMPLETE, complete_effect, fence, ticket);
}
