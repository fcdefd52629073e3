/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c - see attach.h */
#include "attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach_log.h"
#include "clock.h"
#include "members.h"
#include "turn_away.h"

static int make_channel(struct client *c, struct refusal *r)
{
	const struct session_edge *e = &c->control->edge;
	const struct handshake *h = c->handshake;
	struct session_layout l;
	struct channel *ch;
	int code, made;

	session_layout_init(&l, &h->model, h->geometry);
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		return refusal_set(r, FAULT_BROKER_MEMORY, sizeof(*ch), 0);
	*ch = (struct channel){
		.pid = c->peer.pid,
		.uid = c->peer.uid,
		.attached_ns = e->now(e->arg),
		.model = h->model,
		.memory = { .session_fd = -1, .tables_fd = -1 },
		.doorbell = -1,
		.events = h->hello.flags & WIRE_HELLO_EVENTS,
		.socket = -1,
		.owner = c,
	};
	memcpy(ch->model_name, h->hello.model, sizeof(ch->model_name));
	memcpy(ch->geometry, h->geometry, sizeof(ch->geometry));
	c->channel = ch;
	registry_number(&c->control->registry, c, ch);
	code = room_take(&c->room, &c->control->places, c->peer.uid, ch->model_name, &l, h->geometry, r);
	made = code == 0 ? e->make_memory(e->arg, &ch->memory, &l) : 0;
	if (code == 0 && made == 0 && !channel_make(ch))
		made = -ENOMEM;
	if (made < 0)
		code = refusal_because(r, FAULT_BROKER_MEMORY, (int64_t)(l.session_bytes + l.tables_bytes), -made);
	if (code == 0) {
		ch->doorbell = e->make_doorbell(e->arg);
		if (ch->events)
			ch->socket = e->copy(e->arg, c->socket);
		if (ch->doorbell < 0 || (ch->events && ch->socket < 0))
			code = refusal_because(r, FAULT_BROKER_MEMORY, sizeof(uint64_t),
					       ch->doorbell < 0 ? -ch->doorbell : -ch->socket);
	}
	if (code)
		client_free_session(c);
	return code;
}

/* Everything that can be refused, in the order of the codes. */
static int admit(struct client *c, const void *message, size_t bytes, const struct packet_origin *origin,
		 struct refusal *r)
{
	struct control *control = c->control;
	const struct session_edge *e = &control->edge;
	char why[sizeof(r->text)];
	int code;

	c->pidfd = e->pidfd(e->arg, &c->peer, c->socket, origin, why, sizeof(why));
	if (c->pidfd < 0)
		return refusal_text(r, FAULT_NO_PIDFD, c->peer.pid, 0, why);
	if (c->peer.pid == 0 && control->pool->mps)
		return refusal_text(r, FAULT_NO_PIDFD, 0, 0,
				    "the worker is in a pid namespace that the broker cannot see: under the "
				    "Multi-Process Service its work could not be ended after its death");
	if (control->stop_at)
		return refusal_set(r, FAULT_STOPPING, 0, 0);
	c->handshake = calloc(1, sizeof(*c->handshake));
	if (!c->handshake)
		return refusal_set(r, FAULT_BROKER_MEMORY, sizeof(*c->handshake), 0);
	code = handshake_check(c->handshake, message, bytes, control->pool, r);
	if (code)
		return code;
	if (control->device_lost)
		return refusal_set(r, FAULT_DEVICE_LOST, 0, 0);
	if (c->handshake->hello.flags & WIRE_HELLO_JOIN)
		return members_join(c, r);
	if (admin_drained(&control->admin, c->handshake->hello.model))
		return refusal_set(r, FAULT_DRAINED, 0, 0);
	if ((c->handshake->hello.flags & WIRE_HELLO_JOINABLE) && !members_open(c))
		return refusal_because(r, FAULT_BROKER_MEMORY, WIRE_KEY, errno);
	code = places_session(&control->places, c->peer.uid, &c->counted, r);
	return code ? code : make_channel(c, r);
}

/* To @c, of the session of @first: itself, or the one it has joined. */
static bool send_welcome(struct client *c, const struct client *first)
{
	const struct session_edge *e = &c->control->edge;
	const struct session_memory *m = &first->channel->memory;
	int fds[WIRE_MAX_FDS] = { [WIRE_FD_SESSION] = m->session_fd,
				  [WIRE_FD_TABLES] = m->tables_fd,
				  [WIRE_FD_DOORBELL] = first->channel->doorbell,
				  [WIRE_FD_POOLS] = c->control->pool->fd };
	uint64_t offsets[WIRE_MAX_GROUPS] = { 0 };
	struct wire_welcome w;

	for (uint32_t i = 0; i < m->layout.n_groups; i++)
		offsets[i] = first->room.tables[i]->offset;
	welcome_fill(&w, first->handshake, &m->layout, c->control->pool, offsets);
	w.session_id = first->channel->id;
	w.session_generation = first->channel->generation;
	if (first->joinable)
		memcpy(w.key, first->key, sizeof(w.key));
	w.spin_ns = c->control->config->spin_us * NS_PER_US;
	w.scrub = c->control->config->scrub;
	w.beside = c->control->ring->options.beside;
	memcpy(w.boot_id, c->control->boot_id, sizeof(w.boot_id));
	return e->send(e->arg, c->socket, &(struct iovec){ &w, sizeof(w) }, 1, fds, w.n_fds);
}

void attach_hello(struct client *c, const void *message, size_t bytes, const struct packet_origin *origin)
{
	const struct session_edge *e = &c->control->edge;
	struct refusal r;

	c->deadline = 0;
	if (admit(c, message, bytes, origin, &r) != 0) {
		client_refuse(c, &r);
		client_settle(c);
		return;
	}
	if (e->watch(e->arg, &c->pidfd_source, c->pidfd, EPOLLIN, client_on_pidfd, c) < 0) {
		client_free_session(c);
		client_refuse_reason(c, FAULT_NO_PIDFD, c->peer.pid, 0);
		members_gone(c, "could not be watched");
		client_settle(c);
		return;
	}
	charge_release(&c->half_open);
	c->connection = CONNECTION_OPEN;
	if (c->first) {
		client_watch_gpu(c);
		if (!send_welcome(c, c->first))
			client_connection_ended(c, "left before it was welcomed");
		return;
	}
	c->session = SESSION_ATTACHING;
	client_post(c, MAIL_ATTACH);
}

void attach_done(struct client *c, int code)
{
	const struct session_edge *e = &c->control->edge;
	struct refusal r;
	bool ok;

	if (code) {
		refusal_text(&r, FAULT_BROKER_MEMORY, 0, 0,
			     "the broker has no memory to keep account of another session");
		client_refuse(c, &r);
		client_free_session(c);
		c->session = SESSION_NONE;
		client_settle(c);
		return;
	}
	c->session = SESSION_LIVE;
	session_settle(c->channel->session);
	ok = c->connection == CONNECTION_OPEN && send_welcome(c, c);
	attach_log(e, c->channel, &c->peer, c->control->pool);
	if (!c->joinable) {
		e->close(e->arg, &c->channel->memory.session_fd);
		e->close(e->arg, &c->channel->memory.tables_fd);
		free(c->handshake);
		c->handshake = NULL;
	}
	client_watch_gpu(c);
	if (!ok)
		client_connection_ended(c, "left before it was welcomed");
	if (c->process == PROCESS_TOLD)
		client_post(c, MAIL_PROCESS_GONE);
}
