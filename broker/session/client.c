/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - see client.h
 *
 * Three things end independently of one another, and each has its own state:
 * the connection, the process, and the session. The connection's end stops
 * commands; the process's end (its pidfd turns readable, and on a GPU a grace
 * has passed) proves that nothing of it runs; the session ends when the ring
 * thread has given back its pages. Only then do its memory and its device table
 * go back, in two steps: FORGET is the last mail to the ring thread about it,
 * FORGOTTEN the last from it. This file is what each event does to the three.
 */
#include "client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "attach.h"
#include "clock.h"
#include "members.h"
#include "turn_away.h"

/* ---- ends --------------------------------------------------------------------- */

void client_watch_gpu(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	if (c->control->pool->backend != WIRE_BACKEND_CUDA || c->process != PROCESS_ALIVE)
		return;
	c->gpu = 1 + registry_watch(&c->control->registry);
	e->gpu_begin(e->arg, c->gpu - 1, c->peer.pid);
}

void client_unwatch_gpu(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	if (!c->gpu)
		return;
	e->gpu_end(e->arg, c->gpu - 1);
	registry_unwatch(&c->control->registry, c->gpu - 1);
	c->gpu = 0;
}

void client_free_session(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	if (!c->channel)
		return;
	room_give(&c->room);
	client_unwatch_gpu(c);
	channel_stop(c->channel);
	e->free_memory(e->arg, &c->channel->memory);
	e->close(e->arg, &c->channel->doorbell);
	e->drop(e->arg, &c->channel->socket);
	registry_forget(&c->control->registry, c->channel->id);
	free(c->channel);
	c->channel = NULL;
}

static void client_close_connection(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	e->unwatch(e->arg, &c->socket_source);
	if (c->socket >= 0)
		e->end_sending(e->arg,
			       c->socket); /* the channel may still have it open, and its close may take a while */
	e->drop(e->arg, &c->socket);
	charge_release(&c->half_open);
	c->connection = CONNECTION_ENDED;
}

bool client_holds_pool(const struct client *c)
{
	if (c->control->pool->export_kind !=
	    WIRE_EXPORT_CUDA_IPC) /* what a descriptor names outlives its last mapping */
		return false;
	return (c->session != SESSION_NONE || c->first) && c->process != PROCESS_TOLD &&
	       !(c->closed && c->connection == CONNECTION_ENDED);
}

/* Moves the client to the done list when nothing of it is left. */
void client_settle(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	/* Mail taken in the middle of an event may have settled it already. */
	if (c->settled || c->connection != CONNECTION_ENDED ||
	    (c->session != SESSION_NONE && c->session != SESSION_GONE) || client_holds_pool(c) || c->first ||
	    c->n_members)
		return;
	c->settled = true;
	e->unwatch(e->arg, &c->pidfd_source);
	e->close(e->arg, &c->pidfd);
	charge_release(&c->counted);
	charge_release(&c->lingering);
	registry_done(&c->control->registry, c);
}

void client_post(struct client *c, enum mail_kind kind)
{
	mailbox_post_spsc(c->control->ring->inbox, kind, c->channel, 0);
}

/* True while the ring thread may be told about the session. */
static bool client_tellable(const struct client *c)
{
	return c->session == SESSION_LIVE || c->session == SESSION_ENDED;
}

/* Once a session, whatever is seen first of its end. */
static void note_death(struct client *c, const char *how)
{
	if (c->session != SESSION_LIVE)
		return;
	session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO,
		    "session %u.%u: death: %s %s; its pages are quarantined", c->channel->id, c->channel->generation,
		    c->name, how);
	c->session = SESSION_ENDED;
	members_end(c);
}

void client_connection_ended(struct client *c, const char *how)
{
	client_close_connection(c);
	note_death(c, how);
	if (client_tellable(c))
		mailbox_post_spsc(c->control->ring->inbox, MAIL_SOCKET_ENDED, c->channel, c->cut);
	client_settle(c);
}

/* Nothing of the process can run any more, on the GPU neither. */
static void client_process_gone(struct client *c)
{
	c->deadline = 0;
	c->process = PROCESS_TOLD;
	members_gone(c, "has ended");
	if (client_tellable(c)) /* the session ends, and its pages wait for the others */
		client_post(c, c->n_members ? MAIL_SOCKET_ENDED : MAIL_PROCESS_GONE);
	client_settle(c);
}

void client_last_member_gone(struct client *c)
{
	if (client_tellable(c) && c->process == PROCESS_TOLD)
		client_post(c, MAIL_PROCESS_GONE);
	client_settle(c);
}

void client_on_pidfd(void *owner, uint32_t events)
{
	struct client *c = owner;
	const struct session_edge *e = &c->control->edge;
	uint32_t grace = c->control->pool->backend == WIRE_BACKEND_CUDA ? c->control->config->reclaim_grace_ms : 0;

	(void)events;
	e->unwatch(e->arg, &c->pidfd_source);
	c->process = PROCESS_EXITED;
	control_take_mail(c->control); /* what it said before it ended */
	note_death(c, "has ended");
	if (!grace) {
		client_process_gone(c);
		return;
	}
	if (client_tellable(c))
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO,
			    "session %u.%u: %s has ended; its pages return in %u ms%s%s", c->channel->id,
			    c->channel->generation, c->name, grace,
			    c->peer.pid ? ", or when NVML no longer lists it" : ": NVML cannot tell without its pid",
			    c->n_members ? ", and once its other processes have ended" : "");
	if (c->gpu)
		e->gpu_ended(e->arg, c->gpu - 1);
	c->deadline = e->now(e->arg) + grace * NS_PER_MS;
}

/* ---- refusal ------------------------------------------------------------------ */

void client_refuse(struct client *c, const struct refusal *r)
{
	turn_away(c->control, c->socket, &c->peer, r);
	client_close_connection(c);
}

void client_refuse_reason(struct client *c, enum fault_reason reason, int64_t got, int64_t want)
{
	struct refusal r;

	refusal_set(&r, reason, got, want);
	client_refuse(c, &r);
}

/* ---- events ------------------------------------------------------------------- */

void client_on_socket(void *owner, uint32_t events)
{
	struct client *c = owner;
	const struct session_edge *e = &c->control->edge;
	unsigned char message[sizeof(struct wire_hello)];
	struct packet_origin origin;
	ssize_t n = e->receive(e->arg, c->socket, message, sizeof(message), &origin);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		control_take_mail(c->control); /* a close that it said before comes first */
		if (c->connection != CONNECTION_ENDED)
			client_connection_ended(c, "lost its connection");
	} else if (c->connection == CONNECTION_HELLO) {
		attach_hello(c, message, (size_t)n, &origin);
	} else if (c->first) { /* nothing else is said: its streams are idle, and nothing is mapped any more */
		e->unwatch(e->arg, &c->pidfd_source);
		c->process = PROCESS_TOLD;
		members_gone(c, "has left");
		client_connection_ended(c, "");
	} else {
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
			    "session %u.%u: protocol violation: %s sent a message after the hello",
			    c->channel ? c->channel->id : 0, c->channel ? c->channel->generation : 0, c->name);
		c->cut = true;
		client_connection_ended(c, "was disconnected");
	}
	e->drop(e->arg, &origin.fd);
}

static void reclaimed(struct client *c, int64_t pages)
{
	const char *why = c->process != PROCESS_TOLD ? "all its streams are idle"
			  : c->joined                ? "all its processes have ended"
			  : c->left_gpu              ? "its process has ended, and NVML no longer lists it"
			  : c->graced                ? "its process has ended, and the grace period is over"
						     : "its process has ended";

	session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: reclaimed %" PRId64 " pages: %s",
		    c->channel->id, c->channel->generation, pages, why);
	c->session = SESSION_FORGETTING;
	client_post(c, MAIL_FORGET);
}

void client_mail(struct client *c, const struct mail *m)
{
	switch (m->kind) {
	case MAIL_ATTACHED:
		attach_done(c, (int)m->value);
		break;
	case MAIL_CLOSED:
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: detached: %s",
			    c->channel->id, c->channel->generation, c->name);
		c->session = SESSION_ENDED;
		c->closed = true;
		members_end(c);
		break;
	case MAIL_KICKED:
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
			    "session %u.%u: %s: %s: %s; its pages are quarantined until its process ends",
			    c->channel->id, c->channel->generation,
			    m->value == VIOLATION_MEMORY_LOST ? "ended" : "protocol violation", c->name,
			    violation_name((int)m->value));
		c->session = SESSION_ENDED;
		members_end(c);
		if (c->connection != CONNECTION_ENDED)
			client_connection_ended(c, "");
		break;
	case MAIL_RECLAIMED:
		reclaimed(c, m->value);
		break;
	case MAIL_FORGOTTEN:
		client_free_session(c);
		c->session = SESSION_GONE;
		if (places_linger(&c->control->places, c->peer.uid, &c->lingering))
			charge_release(&c->counted);
		client_settle(c);
		break;
	default: /* the other direction's */
		break;
	}
}

/* ---- what is looked after ---------------------------------------------------------- */

void client_stop(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	if (c->connection == CONNECTION_HELLO) {
		client_refuse_reason(c, FAULT_STOPPING, 0, 0);
		client_settle(c);
	} else if (c->connection == CONNECTION_OPEN) {
		e->end_sending(e->arg, c->socket); /* it reads the end; its own end is still seen here */
	}
}

void client_left_gpu(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	if (c->process != PROCESS_EXITED || !c->gpu || !e->gpu_gone(e->arg, c->gpu - 1))
		return;
	c->left_gpu = true;
	client_process_gone(c);
}

void client_memory_lost(struct client *c)
{
	if (!client_tellable(c) || c->memory_told || !load_relaxed(&c->channel->memory.lost))
		return;
	c->memory_told = true;
	client_post(c, MAIL_MEMORY_LOST);
}

void client_report_overdue(struct client *c)
{
	const struct channel *ch = c->channel;
	uint64_t overdue;

	if (!ch || c->session == SESSION_NONE)
		return;
	overdue = load_relaxed(&ch->overdue);
	if (overdue == c->overdue)
		return;
	if (overdue)
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
			    "session %u.%u: %s: a completion point of stream %u has been open for more than %u s: a "
			    "kernel that does not end, or a mark that is missing? Its pages wait",
			    ch->id, ch->generation, c->name, (uint32_t)overdue - 1, c->control->config->watchdog_s);
	else if (c->session == SESSION_LIVE)
		session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_INFO,
			    "session %u.%u: %s: its completion points are on time again", ch->id, ch->generation,
			    c->name);
	c->overdue = overdue;
}

void client_deadline_passed(struct client *c)
{
	if (c->process == PROCESS_EXITED) {
		c->graced = true;
		client_process_gone(c);
		return;
	}
	session_say(&c->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
		    "refused %s uid %u: it did not say hello within %u ms", c->name, c->peer.uid,
		    c->control->config->hello_timeout_ms);
	add_relaxed(&c->control->ring->refused_attaches, 1);
	client_close_connection(c);
	client_settle(c);
}

void client_drop(struct client *c)
{
	const struct session_edge *e = &c->control->edge;

	client_close_connection(c);
	e->unwatch(e->arg, &c->pidfd_source);
	e->close(e->arg, &c->pidfd);
	client_unwatch_gpu(c);
	client_free_session(c);
	charge_release(&c->counted);
	charge_release(&c->lingering);
	registry_done(&c->control->registry, c);
}
