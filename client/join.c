/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c - further processes of a session (swakv_session_attach.3, spec section 11)
 *
 * Who joins attaches with a token, which names the session and proves that its
 * first process gave it away. From then on both have the same tables and lines
 * (s->joined), and only the first gives commands.
 */
#include "join.h"

#include <string.h>

#include "session.h"

void join_fill(struct wire_hello *h, const struct swakv_token *token)
{
	if (!token)
		return;
	h->flags |= WIRE_HELLO_JOIN;
	memcpy(&h->join, token->bytes, sizeof(h->join));
}

int swakv_session_get_token(swakv_session *s, struct swakv_token *out)
{
	struct wire_token token;
	int r = session_enter(s);

	if (r < 0)
		return r;
	if (!out)
		return session_error(s, SWAKV_EINVALID, "the pointer for the token is NULL");
	if (s->joined || !s->joinable)
		return session_error(s, SWAKV_EINVALID, "the session was %s: it has no token to give",
				     s->joined ? "joined" : "attached without SWAKV_ATTACH_JOINABLE");
	token = (struct wire_token){ .session_id = s->welcome.session_id,
				     .session_generation = s->welcome.session_generation };
	memcpy(token.key, s->welcome.key, sizeof(token.key));
	*out = (struct swakv_token){ 0 };
	memcpy(out->bytes, &token, sizeof(token));
	return 0;
}
