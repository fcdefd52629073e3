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
 * FORGOTTEN the last from it.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach_log.h"
#include "cleanup.h"
#include "clock.h"
#include "handshake.h"
#include "log/log.h"
#include "packet.h"
#include "peer.h"
#include "process/process.h"

enum connection_state { CONNECTION_HELLO, CONNECTION_OPEN, CONNECTION_ENDED };
enum process_state { PROCESS_ALIVE, PROCESS_EXITED, PROCESS_TOLD };
enum session_state {
	SESSION_NONE,
	SESSION_ATTACHING, /* the ring thread is asked to take it */
	SESSION_LIVE,
	SESSION_ENDED, /* takes no more commands; its pages wait */
	SESSION_FORGETTING,
	SESSION_GONE
};

struct client {
	TAILQ_ENTRY(client) link;
	struct control *control;
	struct peer peer;
	char name[PEER_NAME]; /* of its process, for people */
	enum connection_state connection;
	enum process_state process;
	enum session_state session;
	bool closed;      /* the worker said close: it unmaps before its connection ends */
	uint64_t overdue; /* as the channel's, when it was last reported */
	bool graced;      /* it has ended, and the grace is over */
	bool left_gpu;    /* it has ended, and NVML does not list it any more */
	bool memory_told; /* the ring thread was told that its session memory has lost pages */
	bool settled;     /* on the done list: freed at the end of the turn */
	int socket;
	int pidfd;
	struct source socket_source;
	struct source pidfd_source;
	uint64_t deadline; /* of the hello, or of the grace after the process's end; 0: none */
	struct channel *channel;
	struct charge half_open;
	struct charge counted; /* as a session */
	struct charge lingering;
	struct room room;
	struct handshake *handshake; /* until the welcome is sent */
};

/* ---- ends --------------------------------------------------------------------- */

static void free_session(struct client *c)
{
	if (!c->channel)
		return;
	room_give(&c->room);
	gpu_watch_end(c->control->watch, c->channel->id - 1);
	channel_stop(c->channel);
	session_memory_deinit(&c->channel->memory);
	close_fd(&c->channel->doorbell);
	c->control->by_id[c->channel->id - 1] = NULL;
	free(c->channel);
	c->channel = NULL;
}

static void close_connection(struct client *c)
{
	dispatcher_remove(&c->control->dispatcher, &c->socket_source);
	close_fd(&c->socket);
	charge_release(&c->half_open);
	c->connection = CONNECTION_ENDED;
}

static bool holds_pool(const struct client *c)
{
	if (c->control->pool->export_kind !=
	    WIRE_EXPORT_CUDA_IPC) /* what a descriptor names outlives its last mapping */
		return false;
	return c->session != SESSION_NONE && c->process != PROCESS_TOLD &&
	       !(c->closed && c->connection == CONNECTION_ENDED);
}

/* Moves the client to the done list when nothing of it is left. */
static void settle(struct client *c)
{
	/* Mail taken in the middle of an event may have settled it already. */
	if (c->settled || c->connection != CONNECTION_ENDED ||
	    (c->session != SESSION_NONE && c->session != SESSION_GONE) || holds_pool(c))
		return;
	c->settled = true;
	dispatcher_remove(&c->control->dispatcher, &c->pidfd_source);
	close_fd(&c->pidfd);
	charge_release(&c->counted);
	charge_release(&c->lingering);
	TAILQ_REMOVE(&c->control->clients, c, link);
	TAILQ_INSERT_TAIL(&c->control->done, c, link);
}

static void post(struct client *c, enum mail_kind kind)
{
	mailbox_post_spsc(c->control->ring->inbox, kind, c->channel, 0);
}

/* True while the ring thread may be told about the session. */
static bool tellable(const struct client *c)
{
	return c->session == SESSION_LIVE || c->session == SESSION_ENDED;
}

/* Once a session, whatever is seen first of its end. */
static void note_death(struct client *c, const char *how)
{
	if (c->session != SESSION_LIVE)
		return;
	log_caused(c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: death: %s %s; its pages are quarantined",
		   c->channel->id, c->channel->generation, c->name, how);
	c->session = SESSION_ENDED;
}

static void connection_ended(struct client *c, const char *how)
{
	close_connection(c);
	note_death(c, how);
	if (tellable(c))
		post(c, MAIL_SOCKET_ENDED);
	settle(c);
}

static void process_gone(struct client *c)
{
	c->deadline = 0;
	c->process = PROCESS_TOLD;
	if (tellable(c))
		post(c, MAIL_PROCESS_GONE);
	settle(c);
}

static void on_pidfd(void *owner, uint32_t events)
{
	struct client *c = owner;
	uint32_t grace = c->control->pool->backend == WIRE_BACKEND_CUDA ? c->control->config->reclaim_grace_ms : 0;

	(void)events;
	dispatcher_remove(&c->control->dispatcher, &c->pidfd_source);
	c->process = PROCESS_EXITED;
	control_take_mail(c->control); /* what it said before it ended */
	note_death(c, "has ended");
	if (!grace) {
		process_gone(c);
		return;
	}
	if (tellable(c))
		log_caused(c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: %s has ended; its pages return in %u ms%s",
			   c->channel->id, c->channel->generation, c->name, grace,
			   c->peer.pid ? ", or when NVML no longer lists it" : ": NVML cannot tell without its pid");
	if (c->channel)
		gpu_watch_ended(c->control->watch, c->channel->id - 1);
	c->deadline = clock_ns() + grace * NS_PER_MS;
}

/* ---- refusal ------------------------------------------------------------------ */

/* The last word to whoever @p is; its socket is still to be closed. */
static void turn_away(struct control *control, int socket, const struct peer *p, const struct refusal *r)
{
	struct wire_welcome w;
	char name[PEER_NAME];

	welcome_refuse(&w, r, control->boot_id);
	packet_send_last(socket, &w, sizeof(w));
	log_refusal(p->uid, "refused %s uid %u: %s", peer_name(p, name), p->uid, r->text);
	add_relaxed(&control->ring->refused_attaches, 1);
	add_relaxed(&control->ring->refused_attaches_by[r->fault.reason], 1);
}

static void refuse(struct client *c, const struct refusal *r)
{
	turn_away(c->control, c->socket, &c->peer, r);
	close_connection(c);
}

static void refuse_reason(struct client *c, enum fault_reason reason, int64_t got, int64_t want)
{
	struct refusal r;

	refusal_set(&r, reason, got, want);
	refuse(c, &r);
}

/* ---- attach ------------------------------------------------------------------- */

/* As refusal_set(), with what the system said; open files that have run out are the reason themselves. */
static int refusal_because(struct refusal *r, enum fault_reason reason, int64_t got, int error)
{
	int code = refusal_set(r, error == EMFILE ? FAULT_BROKER_FILES : reason, got, 0);
	size_t n = strlen(r->text);

	if (error != EMFILE)
		snprintf(r->text + n, sizeof(r->text) - n, ": %s", process_error(error));
	return code;
}

/* Gives the channel the lowest free index. There is one: it is counted. */
static void take_id(struct client *c)
{
	struct control *control = c->control;
	uint32_t i = 0;

	while (control->by_id[i])
		i++;
	control->by_id[i] = c;
	c->channel->id = i + 1;
	c->channel->generation = ++control->generation[i];
	c->channel->tag = ++control->next_tag & 0xffff;
}

static int make_channel(struct client *c, struct refusal *r)
{
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
		.attached_ns = clock_ns(),
		.model = h->model,
		.memory = { .session_fd = -1, .tables_fd = -1 },
		.doorbell = -1,
		.owner = c,
	};
	memcpy(ch->model_name, h->hello.model, sizeof(ch->model_name));
	memcpy(ch->geometry, h->geometry, sizeof(ch->geometry));
	c->channel = ch;
	take_id(c);
	code = room_take(&c->room, &c->control->places, c->peer.uid, ch->model_name, &l, h->geometry, r);
	made = code == 0 ? session_memory_init(&ch->memory, &l) : 0;
	if (code == 0 && made == 0 && !channel_make(ch))
		made = -ENOMEM;
	if (made < 0)
		code = refusal_because(r, FAULT_BROKER_MEMORY, (int64_t)(l.session_bytes + l.tables_bytes), -made);
	if (code == 0) {
		ch->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (ch->doorbell < 0)
			code = refusal_because(r, FAULT_BROKER_MEMORY, sizeof(uint64_t), errno);
	}
	if (code)
		free_session(c);
	return code;
}

/* Everything that can be refused, in the order of the codes. */
static int admit(struct client *c, const void *message, size_t bytes, const struct packet_origin *origin,
		 struct refusal *r)
{
	struct control *control = c->control;
	char why[sizeof(r->text)];
	int code;

	c->pidfd = peer_pidfd(&c->peer, c->socket, origin, why, sizeof(why));
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
	if (admin_drained(&control->admin, c->handshake->hello.model))
		return refusal_set(r, FAULT_DRAINED, 0, 0);
	code = places_session(&control->places, c->peer.uid, &c->counted, r);
	return code ? code : make_channel(c, r);
}

static void take_hello(struct client *c, const void *message, size_t bytes, const struct packet_origin *origin)
{
	struct refusal r;

	c->deadline = 0;
	if (admit(c, message, bytes, origin, &r) != 0) {
		refuse(c, &r);
		settle(c);
		return;
	}
	if (dispatcher_add(&c->control->dispatcher, &c->pidfd_source, c->pidfd, EPOLLIN, on_pidfd, c) < 0) {
		free_session(c);
		refuse_reason(c, FAULT_NO_PIDFD, c->peer.pid, 0);
		settle(c);
		return;
	}
	charge_release(&c->half_open);
	c->connection = CONNECTION_OPEN;
	c->session = SESSION_ATTACHING;
	post(c, MAIL_ATTACH);
}

static bool send_welcome(struct client *c)
{
	const struct session_memory *m = &c->channel->memory;
	int fds[WIRE_MAX_FDS] = { [WIRE_FD_SESSION] = m->session_fd,
				  [WIRE_FD_TABLES] = m->tables_fd,
				  [WIRE_FD_DOORBELL] = c->channel->doorbell,
				  [WIRE_FD_POOLS] = c->control->pool->fd };
	uint64_t offsets[WIRE_MAX_GROUPS] = { 0 };
	struct wire_welcome w;

	for (uint32_t i = 0; i < m->layout.n_groups; i++)
		offsets[i] = c->room.tables[i]->offset;
	welcome_fill(&w, c->handshake, &m->layout, c->control->pool, offsets);
	w.session_id = c->channel->id;
	w.session_generation = c->channel->generation;
	w.spin_ns = c->control->config->spin_us * NS_PER_US;
	w.scrub = c->control->config->scrub;
	memcpy(w.boot_id, c->control->boot_id, sizeof(w.boot_id));
	return packet_send(c->socket, &w, sizeof(w), fds, w.n_fds);
}

static void attached(struct client *c, int code)
{
	struct refusal r;
	bool ok;

	if (code) {
		refusal_text(&r, FAULT_BROKER_MEMORY, 0, 0,
			     "the broker has no memory to keep account of another session");
		refuse(c, &r);
		free_session(c);
		c->session = SESSION_NONE;
		settle(c);
		return;
	}
	c->session = SESSION_LIVE;
	ok = c->connection == CONNECTION_OPEN && send_welcome(c);
	session_memory_close_fds(&c->channel->memory);
	attach_log(c->channel, &c->peer, c->control->pool->half_bytes);
	free(c->handshake);
	c->handshake = NULL;
	if (c->control->pool->backend == WIRE_BACKEND_CUDA && c->process == PROCESS_ALIVE)
		gpu_watch_begin(c->control->watch, c->channel->id - 1, c->peer.pid);
	if (!ok)
		connection_ended(c, "left before it was welcomed");
	if (c->process == PROCESS_TOLD)
		post(c, MAIL_PROCESS_GONE);
}

/* ---- events ------------------------------------------------------------------- */

static void on_socket(void *owner, uint32_t events)
{
	struct client *c = owner;
	unsigned char message[sizeof(struct wire_hello) + 1]; /* one more tells a longer one */
	struct packet_origin origin;
	ssize_t n = packet_receive(c->socket, message, sizeof(message), &origin);
	AUTO_CLOSE int sent = origin.fd;

	(void)events;
	(void)sent;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		control_take_mail(c->control); /* a close that it said before comes first */
		if (c->connection != CONNECTION_ENDED)
			connection_ended(c, "lost its connection");
	} else if (c->connection == CONNECTION_HELLO) {
		take_hello(c, message, (size_t)n, &origin);
	} else {
		log_caused(c->peer.uid, LOG_LEVEL_WARNING,
			   "session %u.%u: protocol violation: %s sent a message after the hello",
			   c->channel ? c->channel->id : 0, c->channel ? c->channel->generation : 0, c->name);
		connection_ended(c, "was disconnected");
	}
}

void client_turn_away(struct control *control)
{
	struct refusal r;
	struct peer peer;
	int fd;

	close_fd(&control->spare);
	fd = accept4(control->listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0 && peer_read(&peer, fd) == 0) {
		refusal_set(&r, FAULT_BROKER_FILES, 0, 0);
		turn_away(control, fd, &peer, &r);
	}
	close_fd(&fd);
	control_keep_spare(control);
}

/* Who may connect, before it takes any place. 0, or a code with *@r filled. */
static int let_in(struct control *control, int socket, const struct peer *p, struct charge *half_open,
		  struct refusal *r)
{
	if (!peer_allowed(p, socket, control->config))
		return refusal_set(r, FAULT_CREDENTIALS, p->uid, 0);
	return places_half_open(&control->places, p->uid, half_open, r);
}

/* On success the socket and the charge are the client's. */
static int take_client(struct control *control, int *fd, const struct peer *p, struct charge *half_open)
{
	struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct client){ .control = control,
			      .peer = *p,
			      .socket = *fd,
			      .pidfd = -1,
			      .socket_source.fd = -1,
			      .pidfd_source.fd = -1,
			      .half_open = *half_open,
			      .deadline = clock_ns() + control->config->hello_timeout_ms * NS_PER_MS };
	peer_name(p, c->name);
	r = dispatcher_add(&control->dispatcher, &c->socket_source, *fd, EPOLLIN | EPOLLRDHUP, on_socket, c);
	if (r < 0) {
		free(c);
		return r;
	}
	steal_fd(fd);
	*half_open = (struct charge){ 0 };
	TAILQ_INSERT_TAIL(&control->clients, c, link);
	return 0;
}

int client_accept(struct control *control)
{
	AUTO_CLOSE int fd = accept4(control->listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct charge half_open = { 0 };
	struct refusal refusal;
	struct peer peer;
	int r;

	if (fd < 0)
		return errno == ECONNABORTED || errno == EINTR ? 0 : -errno;
	r = peer_read(&peer, fd);
	if (r < 0) {
		log_refusal(LOG_NOBODY, "refused a connection: the kernel does not say who owns it: %s", strerror(-r));
		add_relaxed(&control->ring->refused_attaches, 1);
		return 0;
	}
	if (let_in(control, fd, &peer, &half_open, &refusal) != 0) {
		turn_away(control, fd, &peer, &refusal);
		return 0;
	}
	r = take_client(control, &fd, &peer, &half_open);
	charge_release(&half_open);
	if (r < 0) {
		refusal_because(&refusal, FAULT_BROKER_MEMORY, sizeof(struct client), -r);
		turn_away(control, fd, &peer, &refusal);
	}
	return 0;
}

static void reclaimed(struct client *c, int64_t pages)
{
	const char *why = c->process != PROCESS_TOLD ? "all its streams are idle"
			  : c->left_gpu              ? "its process has ended, and NVML no longer lists it"
			  : c->graced                ? "its process has ended, and the grace is over"
						     : "its process has ended";

	log_caused(c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: reclaimed %" PRId64 " pages: %s", c->channel->id,
		   c->channel->generation, pages, why);
	c->session = SESSION_FORGETTING;
	post(c, MAIL_FORGET);
}

void client_mail(struct client *c, const struct mail *m)
{
	switch (m->kind) {
	case MAIL_ATTACHED:
		attached(c, (int)m->value);
		break;
	case MAIL_CLOSED:
		log_caused(c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: detached: %s", c->channel->id,
			   c->channel->generation, c->name);
		c->session = SESSION_ENDED;
		c->closed = true;
		break;
	case MAIL_KICKED:
		log_caused(c->peer.uid, LOG_LEVEL_WARNING,
			   "session %u.%u: %s: %s: %s; its pages are quarantined until its process ends",
			   c->channel->id, c->channel->generation,
			   m->value == VIOLATION_MEMORY_LOST ? "ended" : "protocol violation", c->name,
			   violation_name((int)m->value));
		c->session = SESSION_ENDED;
		if (c->connection != CONNECTION_ENDED)
			connection_ended(c, "");
		break;
	case MAIL_RECLAIMED:
		reclaimed(c, m->value);
		break;
	case MAIL_FORGOTTEN:
		free_session(c);
		c->session = SESSION_GONE;
		if (places_linger(&c->control->places, c->peer.uid, &c->lingering))
			charge_release(&c->counted);
		settle(c);
		break;
	default: /* the other direction's */
		break;
	}
}

/* ---- by an administrator's order -------------------------------------------------- */

pid_t client_pid(const struct client *c)
{
	return c->peer.pid;
}

uint32_t client_generation(const struct client *c)
{
	return c->channel->generation;
}

int client_disconnect(struct client *c, char *why, size_t size)
{
	const struct channel *ch = c->channel;
	char *end = why + snprintf(why, size, "session %u.%u of %s ", ch->id, ch->generation, c->name);

	size -= (size_t)(end - why);
	if (c->session != SESSION_LIVE || c->connection != CONNECTION_OPEN) {
		snprintf(end, size, "%s",
			 c->session == SESSION_ATTACHING ? "is still attaching: try again"
							 : "has ended already; its pages wait for proof");
		return SWAKV_EGONE;
	}
	snprintf(end, size,
		 "was disconnected; its pages return when all its streams are idle or its process has ended");
	connection_ended(c, "was disconnected by an administrator");
	return 0;
}

int client_kill(struct client *c, char *why, size_t size)
{
	const struct channel *ch = c->channel;

	if (c->process != PROCESS_ALIVE) {
		snprintf(why, size, "session %u.%u: its process (%s) has ended already", ch->id, ch->generation,
			 c->name);
		return SWAKV_EGONE;
	}
	if (!c->peer.pid) { /* signals do not go there */
		snprintf(why, size,
			 "session %u.%u: its process is in another pid namespace, from which the broker may not kill "
			 "it: disconnect the session instead",
			 ch->id, ch->generation);
		return SWAKV_EDENIED;
	}
	if (syscall(SYS_pidfd_send_signal, c->pidfd, SIGKILL, NULL, 0) < 0) {
		snprintf(why, size, "session %u.%u: the broker may not kill its process %d: %s", ch->id, ch->generation,
			 c->peer.pid, strerror(errno));
		return SWAKV_EDENIED;
	}
	snprintf(why, size, "session %u.%u: its process %d was killed; its pages return when that has ended", ch->id,
		 ch->generation, c->peer.pid);
	return 0;
}

/* ---- all of them ---------------------------------------------------------------- */

void client_stop_all(struct control *control)
{
	struct client *c, *next;

	TAILQ_FOREACH_SAFE(c, &control->clients, link, next)
	{
		if (c->connection == CONNECTION_HELLO) {
			refuse_reason(c, FAULT_STOPPING, 0, 0);
			settle(c);
		} else if (c->connection == CONNECTION_OPEN) {
			shutdown(c->socket, SHUT_WR); /* it reads the end; its own end is still seen here */
		}
	}
}

bool client_any_importer(const struct control *control)
{
	const struct client *c;

	TAILQ_FOREACH (c, &control->clients, link)
		if (holds_pool(c))
			return true;
	return false;
}

uint64_t client_next_deadline(const struct control *control)
{
	const struct client *c;
	uint64_t next = 0;

	TAILQ_FOREACH (c, &control->clients, link)
		if (c->deadline && (next == 0 || c->deadline < next))
			next = c->deadline;
	return next;
}

void client_gone(struct control *control)
{
	struct client *c, *next;

	TAILQ_FOREACH_SAFE(c, &control->clients, link, next)
	{
		if (c->process != PROCESS_EXITED || !c->channel || !gpu_watch_gone(control->watch, c->channel->id - 1))
			continue;
		c->left_gpu = true;
		process_gone(c);
	}
}

static void report_overdue(struct client *c, uint64_t overdue)
{
	const struct channel *ch = c->channel;

	if (overdue == c->overdue)
		return;
	if (overdue)
		log_caused(c->peer.uid, LOG_LEVEL_WARNING,
			   "session %u.%u: %s: a completion point of stream %u has been open for more than %u s: a "
			   "kernel that does not end, or a mark that is missing? Its pages wait",
			   ch->id, ch->generation, c->name, (uint32_t)overdue - 1, c->control->config->watchdog_s);
	else if (c->session == SESSION_LIVE)
		log_caused(c->peer.uid, LOG_LEVEL_INFO, "session %u.%u: %s: its completion points are on time again",
			   ch->id, ch->generation, c->name);
	c->overdue = overdue;
}

void client_memory_lost(struct control *control)
{
	struct client *c;

	TAILQ_FOREACH (c, &control->clients, link) {
		if (!tellable(c) || c->memory_told || !load_relaxed(&c->channel->memory.lost))
			continue;
		c->memory_told = true;
		post(c, MAIL_MEMORY_LOST);
	}
}

void client_report_overdue(struct control *control)
{
	struct client *c;

	TAILQ_FOREACH (c, &control->clients, link)
		if (c->channel && c->session != SESSION_NONE)
			report_overdue(c, load_relaxed(&c->channel->overdue));
}

void client_deadlines(struct control *control, uint64_t now)
{
	struct client *c, *next;

	TAILQ_FOREACH_SAFE(c, &control->clients, link, next)
	{
		if (c->deadline == 0 || now < c->deadline)
			continue;
		if (c->process == PROCESS_EXITED) {
			c->graced = true;
			process_gone(c);
			continue;
		}
		log_refusal(c->peer.uid, "refused %s uid %u: it did not say hello within %u ms", c->name, c->peer.uid,
			    control->config->hello_timeout_ms);
		add_relaxed(&control->ring->refused_attaches, 1);
		close_connection(c);
		settle(c);
	}
}

void client_drop(struct client *c)
{
	close_connection(c);
	dispatcher_remove(&c->control->dispatcher, &c->pidfd_source);
	close_fd(&c->pidfd);
	free_session(c);
	charge_release(&c->counted);
	charge_release(&c->lingering);
	TAILQ_REMOVE(&c->control->clients, c, link);
	TAILQ_INSERT_TAIL(&c->control->done, c, link);
}

void client_free_done(struct control *control)
{
	struct client *c;

	while ((c = TAILQ_FIRST(&control->done))) {
		TAILQ_REMOVE(&control->done, c, link);
		free(c->handshake);
		free(c);
	}
}
