/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members.c - see members.h
 *
 * Who may join is who has the key: 16 random bytes that only the first process
 * is told, and that it hands on. The user must be the same, too. Every reason for
 * which there is no such session is one refusal, so that nobody learns by asking
 * which sessions there are. A member takes the place of a session among those
 * that its user may have: so there are no more processes than places for them.
 */
#include "members.h"

#include <string.h>
#include <sys/random.h>

#include "client.h"

bool members_open(struct client *c)
{
	c->joinable = getrandom(c->key, sizeof(c->key), 0) == (ssize_t)sizeof(c->key);
	return c->joinable;
}

/* Takes as long whatever is in them. */
static bool same_key(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (size_t i = 0; i < WIRE_KEY; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

/* What a model declares, without what a member says otherwise. */
static struct wire_hello declared(const struct wire_hello *hello)
{
	struct wire_hello h = *hello;

	h.version_min = h.version_max = 0;
	h.flags &= (uint32_t)WIRE_HELLO_CHUNK_MAPPED;
	memset(&h.join, 0, sizeof(h.join));
	return h;
}

static bool may_join(const struct client *c, const struct client *first)
{
	const struct wire_hello *hello = &c->handshake->hello;

	return first && first->joinable && first->peer.uid == c->peer.uid && first->session == SESSION_LIVE &&
	       first->connection == CONNECTION_OPEN && first->process == PROCESS_ALIVE &&
	       first->channel->generation == hello->join.session_generation && same_key(first->key, hello->join.key);
}

/* What the ring thread knows of them: how many, and who. */
static void tell_channel(const struct client *first)
{
	const struct client *m;
	uint32_t n = 0;

	TAILQ_FOREACH (m, &first->members, in_members)
		store_relaxed(&first->channel->member_pids[n++], (uint32_t)m->peer.pid);
	store_release(&first->channel->members, n);
}

static void leave(struct client *c)
{
	struct client *first = c->first;

	client_unwatch_gpu(c);
	c->first = NULL;
	TAILQ_REMOVE(&first->members, c, in_members);
	first->n_members--;
	tell_channel(first);
}

/*
 * False: the session ends at this moment, and may be taken for the first process's
 * alone. The ring thread says so before it looks whether there are others.
 */
static bool enter(struct client *c, struct client *first)
{
	c->first = first;
	TAILQ_INSERT_TAIL(&first->members, c, in_members);
	first->n_members++;
	tell_channel(first);
	fence_store_load();
	if (!load_acquire(&first->channel->ended))
		return true;
	leave(c);
	return false;
}

int members_join(struct client *c, struct refusal *r)
{
	const struct wire_hello *hello = &c->handshake->hello;
	struct client *first;
	struct wire_hello mine, theirs;
	int code;

	control_take_mail(c->control); /* an end that was said before comes first */
	first = registry_find(&c->control->registry, hello->join.session_id);
	if (!may_join(c, first))
		return refusal_set(r, FAULT_JOIN, hello->join.session_id, hello->join.session_generation);
	if (first->n_members == WIRE_MAX_JOINED)
		return refusal_set(r, FAULT_JOIN_FULL, WIRE_MAX_JOINED + 1, 0);
	mine = declared(hello);
	theirs = declared(&first->handshake->hello);
	if (memcmp(&mine, &theirs, sizeof(mine)) != 0)
		return refusal_set(r, FAULT_JOIN_MODEL, hello->join.session_id, hello->join.session_generation);
	code = places_session(&c->control->places, c->peer.uid, &c->counted, r);
	if (code)
		return code;
	if (!enter(c, first))
		return refusal_set(r, FAULT_JOIN, hello->join.session_id, hello->join.session_generation);
	first->joined = true;
	session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: joined by %s, process %u of it",
		    first->channel->id, first->channel->generation, c->name, first->n_members + 1);
	return 0;
}

void members_end(struct client *c)
{
	const struct session_edge *e = &c->control->edge;
	struct client *m;

	TAILQ_FOREACH (m, &c->members, in_members)
		if (m->connection == CONNECTION_OPEN)
			e->end_sending(e->arg, m->socket);
}

void members_gone(struct client *c, const char *how)
{
	struct client *first = c->first;

	if (!first)
		return;
	leave(c); /* the session is there: it waits for its members */
	session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: %s %s; processes left: %u",
		    first->channel->id, first->channel->generation, c->name, how,
		    first->n_members + (first->process != PROCESS_TOLD));
	if (first->n_members == 0)
		client_last_member_gone(first);
}

unsigned members_kill(struct client *c)
{
	const struct session_edge *e = &c->control->edge;
	struct client *m;
	unsigned n = 0;

	TAILQ_FOREACH (m, &c->members, in_members)
		if (m->process == PROCESS_ALIVE && m->peer.pid && e->kill(e->arg, m->pidfd) == 0)
			n++;
	return n;
}
