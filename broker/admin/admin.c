/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.c - see admin.h
 *
 * Credentials are judged before anything is read: who may not administer is
 * told so in the greeting and holds no place. What concerns connections and
 * processes is done here; what concerns page state goes as a job to the ring
 * thread and is answered when it comes back, so that an answer also says that
 * the ring thread lives. A connection keeps its place until its job is back,
 * also when its peer has left: jobs are bounded by places.
 *
 * Draining is kept here for new sessions, by name, and told to the ring thread
 * for those that are attached, and for the status page. A session whose attach was posted before the
 * order is in the ring thread's list when the order comes, so none slips through.
 */
#include "admin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin_request.h"
#include "cleanup.h"
#include "clock.h"
#include "config/saved_limits.h"
#include "control.h"
#include "process/process.h"
#include "session/client_order.h"
#include "session/peer.h"
#include "status_page.h"

enum admin_state {
	ADMIN_ASKING,  /* greeted; its request has not come */
	ADMIN_WORKING, /* its job is at the ring thread */
	ADMIN_ENDED    /* freed at the end of the turn */
};

struct admin_connection {
	TAILQ_ENTRY(admin_connection) link;
	struct admin *admin;
	struct peer peer;
	char name[PEER_NAME]; /* of its process, for people */
	struct charge charge;
	enum admin_state state;
	int socket;
	struct source source;
	uint64_t deadline; /* of the request, 0: none */
	struct admin_job job;
};

bool admin_drained(const struct admin *a, const char *model)
{
	return drained_has(&a->drained, model);
}

/* ---- connections ---------------------------------------------------------------- */

static void hang_up(struct admin_connection *c)
{
	const struct session_edge *e = &c->admin->control->edge;

	e->unwatch(e->arg, &c->source);
	e->drop(e->arg, &c->socket);
	c->deadline = 0;
	if (c->state != ADMIN_WORKING)
		c->state = ADMIN_ENDED;
}

/* With @n_fds descriptors at @fds, which stay the caller's. */
static void answer_with(struct admin_connection *c, const int *fds, uint32_t n_fds)
{
	struct admin_reply *r = &c->job.reply;
	const struct admin *a = c->admin;
	const struct session_edge *e = &a->control->edge;
	struct iovec parts[3] = { { .iov_base = r, .iov_len = sizeof(*r) } };

	if (r->code)
		r->n_sessions = 0;
	if (r->code == 0 && c->job.request.op == ADMIN_LIST)
		r->n_names = a->drained.n;
	parts[1] = (struct iovec){ c->job.sessions, r->n_sessions * sizeof(c->job.sessions[0]) };
	parts[2] = (struct iovec){ (void *)(uintptr_t)a->drained.models, r->n_names * sizeof(a->drained.models[0]) };
	r->magic = ADMIN_MAGIC;
	r->size = sizeof(*r);
	r->version = ADMIN_VERSION;
	r->op = c->job.request.op;
	r->pid = a->pid;
	r->drained = a->drained.all;
	r->n_drained = a->drained.n;
	r->age_ns = e->now(e->arg) - a->started_ns;
	snprintf(r->version_text, sizeof(r->version_text), "%s", SWAKV_VERSION);
	if (c->socket >= 0)
		e->send(e->arg, c->socket, parts, 3, fds, n_fds); /* or it has left already */
	c->state = ADMIN_ENDED;
	hang_up(c);
}

static void answer(struct admin_connection *c)
{
	answer_with(c, NULL, 0);
}

/* Without the ring thread, which may be what somebody wants to see. */
static void answer_with_page(struct admin_connection *c)
{
	AUTO_CLOSE int fd = status_writer_share(c->admin->control->status);
	struct admin_reply *r = &c->job.reply;

	if (fd < 0) {
		r->code = SWAKV_EBUSY;
		snprintf(r->text, sizeof(r->text), "the status page cannot be handed over now: %s", strerror(-fd));
	}
	answer_with(c, &fd, fd >= 0);
}

static void ask_ring(struct admin_connection *c)
{
	c->state = ADMIN_WORKING;
	c->deadline = 0;
	c->job.owner = c;
	mailbox_post_job_spsc(c->admin->control->ring->inbox, MAIL_ADMIN, &c->job);
}

/* The session that the request names; NULL with a code and sentence in the reply. */
static struct client *find_session(struct admin_connection *c)
{
	const struct admin_request *q = &c->job.request;
	struct admin_reply *r = &c->job.reply;
	struct client *client = registry_find(&c->admin->control->registry, q->session);

	if (client && (q->generation == 0 || client_generation(client) == q->generation))
		return client;
	r->code = SWAKV_EGONE;
	if (client)
		snprintf(r->text, sizeof(r->text),
			 "session %" PRIu32 ".%" PRIu32 " has gone; there is %" PRIu32 ".%" PRIu32, q->session,
			 q->generation, q->session, client_generation(client));
	else if (q->generation)
		snprintf(r->text, sizeof(r->text), "there is no session %" PRIu32 ".%" PRIu32 ": see swakv-ctl list",
			 q->session, q->generation);
	else
		snprintf(r->text, sizeof(r->text), "there is no session %" PRIu32 ": see swakv-ctl list", q->session);
	return NULL;
}

static void act_on_session(struct admin_connection *c)
{
	struct admin_reply *r = &c->job.reply;
	struct client *client = find_session(c);

	if (!client)
		return;
	r->affected_pid = client_pid(client);
	r->code = c->job.request.op == ADMIN_KILL ? client_kill(client, r->text, sizeof(r->text))
						  : client_disconnect(client, r->text, sizeof(r->text));
	r->n_affected = r->code == 0;
}

static void drain(struct admin_connection *c)
{
	const struct admin_request *q = &c->job.request;
	struct admin_reply *r = &c->job.reply;

	r->code = q->flags & ADMIN_OFF ? drained_remove(&c->admin->drained, q->model, r->text, sizeof(r->text))
				       : drained_add(&c->admin->drained, q->model, r->text, sizeof(r->text));
	c->job.drained = c->admin->drained;
}

/* True when all that is to be done here is done, and the answer with it. */
static bool act(struct admin_connection *c)
{
	struct control *control = c->admin->control;
	struct admin_reply *r = &c->job.reply;

	switch (c->job.request.op) {
	case ADMIN_DRAIN:
		drain(c);
		return r->code != 0;
	case ADMIN_DISCONNECT:
	case ADMIN_KILL:
		act_on_session(c);
		return true;
	case ADMIN_STOP:
		snprintf(r->text, sizeof(r->text), "stopping");
		return true;
	default:
		if (!control->stop_at)
			return false;
		r->code = SWAKV_EGONE;
		snprintf(r->text, sizeof(r->text), "the broker is stopping");
		return true;
	}
}

static void log_request(const struct admin_connection *c)
{
	const struct admin_request *q = &c->job.request;
	const struct admin_reply *r = &c->job.reply;

	if (q->op == ADMIN_PING || q->op == ADMIN_LIST)
		return;
	session_say(&c->admin->control->edge, c->peer.uid, LOG_LEVEL_INFO, "administrator: %s uid %u: %s%s: %s",
		    c->name, c->peer.uid, admin_op_name(q->op), r->code ? " refused" : "", r->text);
}

static void take_request(struct admin_connection *c, const void *message, size_t bytes)
{
	struct admin_reply *r = &c->job.reply;

	r->code = admin_request_check(&c->job.request, message, bytes, r->text, sizeof(r->text));
	if (r->code) {
		session_say(&c->admin->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
			    "administrator: %s uid %u: refused: %s", c->name, c->peer.uid, r->text);
		answer(c);
		return;
	}
	if (c->job.request.op == ADMIN_STATUS) {
		answer_with_page(c);
		return;
	}
	if (!act(c)) {
		if (c->job.request.op == ADMIN_DRAIN)
			log_request(c);
		ask_ring(c);
		return;
	}
	log_request(c);
	answer(c);
	if (c->job.request.op == ADMIN_STOP)
		control_stop(c->admin->control);
}

/* What the limits of the model are now, those in percent that were just given so. */
static void save_limit(struct admin_connection *c)
{
	const struct admin_request *q = &c->job.request;
	struct admin_reply *r = &c->job.reply;
	struct saved_limit limit = { .floor = { r->floor, false }, .ceiling = { r->ceiling, false } };
	struct config_error e;
	size_t at = strlen(r->text);

	memcpy(limit.name, q->model, sizeof(limit.name));
	if (q->flags & ADMIN_FLOOR_PERCENT)
		limit.floor = (struct config_size){ q->floor, true };
	if (q->flags & ADMIN_CEILING_PERCENT)
		limit.ceiling = (struct config_size){ q->ceiling, true };
	if (saved_limits_write(c->admin->control->config, &limit, &e) == 0) {
		snprintf(r->text + at, sizeof(r->text) - at, "; saved");
		return;
	}
	r->code = SWAKV_ESYSTEM;
	snprintf(r->text, sizeof(r->text),
		 "the limits of \"%s\" hold until this broker ends, and are not saved: %.300s", q->model, e.text);
}

void admin_done(struct admin_job *job)
{
	if (job->request.flags & ADMIN_SAVE && job->reply.code == 0)
		save_limit(job->owner);
	if (job->request.op == ADMIN_LIMIT && job->request.flags)
		log_request(job->owner);
	answer(job->owner);
}

static void on_socket(void *owner, uint32_t events)
{
	struct admin_connection *c = owner;
	const struct session_edge *e = &c->admin->control->edge;
	unsigned char message[sizeof(struct admin_request)];
	struct packet_origin origin;
	ssize_t n = e->receive(e->arg, c->socket, message, sizeof(message), &origin);

	(void)events;
	e->drop(e->arg, &origin.fd); /* nobody asked for one */
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && c->state == ADMIN_ASKING)
		take_request(c, message, (size_t)n);
	else
		hang_up(c); /* it has left, or says more than it should */
}

/* ---- accept ----------------------------------------------------------------------- */

/* Charges @p with a connection. 0, or a code with the sentence in @why. */
static int take_place(struct admin *a, const struct peer *p, struct charge *charge, char *why, size_t size)
{
	struct ledger *l = &a->control->places.ledger;

	if (!peer_administers(p, a->control->config)) {
		snprintf(why, size,
			 "uid %u may not administer this broker: only root, its own user and those of admin_uid may",
			 p->uid);
		return SWAKV_EDENIED;
	}
	if (ledger_charge(l, p->uid, LEDGER_ADMINS, 1, charge) == LEDGER_CHARGED)
		return 0;
	snprintf(why, size,
		 "uid %u has %" PRIu64 " of the %d connections that administrators share, a user's half: close one",
		 p->uid, ledger_of(l, p->uid, LEDGER_ADMINS), ADMIN_MAX_CONNECTIONS);
	return SWAKV_EBUSY;
}

/* False: it was told why not, or it has left; then nothing is charged. */
static bool greet(struct admin *a, int fd, const struct peer *p, struct charge *charge)
{
	const struct control *control = a->control;
	const struct session_edge *e = &control->edge;
	struct admin_greeting g = {
		.magic = ADMIN_MAGIC,
		.size = sizeof(g),
		.version = ADMIN_VERSION,
		.size_request = sizeof(struct admin_request),
		.size_reply = sizeof(struct admin_reply),
		.size_session = sizeof(struct admin_session),
	};
	char name[PEER_NAME];

	memcpy(g.boot_id, control->boot_id, sizeof(g.boot_id));
	snprintf(g.name, sizeof(g.name), "%s", control->config->name);
	g.code = take_place(a, p, charge, g.text, sizeof(g.text));
	if (g.code)
		session_say(e, p->uid, LOG_LEVEL_WARNING, "administrator: refused %s uid %u: %s", peer_name(p, name),
			    p->uid, g.code == SWAKV_EDENIED ? "not on the list" : "too many connections");
	if (e->send(e->arg, fd, &(struct iovec){ &g, sizeof(g) }, 1, NULL, 0) && g.code == 0)
		return true;
	charge_release(charge);
	return false;
}

static int take_connection(void *owner, int *fd, const struct peer *p)
{
	struct admin *a = owner;
	const struct session_edge *e = &a->control->edge;
	struct charge charge = { 0 };
	struct admin_connection *c;
	int r;

	if (!greet(a, *fd, p, &charge))
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c) {
		charge_release(&charge);
		return -ENOMEM;
	}
	c->admin = a;
	c->charge = charge;
	c->peer = *p;
	peer_name(p, c->name);
	c->deadline = e->now(e->arg) + a->control->config->hello_timeout_ms * NS_PER_MS;
	r = e->watch(e->arg, &c->source, *fd, EPOLLIN | EPOLLRDHUP, on_socket, c);
	if (r < 0) {
		charge_release(&c->charge);
		free(c);
		return r;
	}
	c->socket = *fd;
	*fd = -1;
	TAILQ_INSERT_TAIL(&a->connections, c, link);
	a->n_connections++;
	return 0;
}

static bool full(const void *owner)
{
	const struct admin *a = owner;

	return a->n_connections == ADMIN_MAX_CONNECTIONS;
}

/* One that may be called to help gets the last descriptor as any other. */
static const struct acceptor_owner admin_calls = {
	.who = "administrator: ",
	.take = take_connection,
	.take_last = take_connection,
	.full = full,
};

/* ---- life --------------------------------------------------------------------------- */

void admin_init(struct admin *a, struct control *control)
{
	*a = (struct admin){ .control = control, .started_ns = control->edge.now(control->edge.arg), .pid = getpid() };
	acceptor_init(&a->acceptor, &admin_calls, a, &control->edge, &control->spare);
	TAILQ_INIT(&a->connections);
}

int admin_serve(struct admin *a, struct listener *listener)
{
	return acceptor_serve(&a->acceptor, listener);
}

void admin_stop(struct admin *a)
{
	acceptor_close(&a->acceptor);
}

static void free_connection(struct admin_connection *c)
{
	TAILQ_REMOVE(&c->admin->connections, c, link);
	c->admin->n_connections--;
	charge_release(&c->charge);
	free(c);
}

void admin_deinit(struct admin *a)
{
	struct admin_connection *c;

	admin_stop(a);
	while ((c = TAILQ_FIRST(&a->connections))) {
		hang_up(c); /* NOLINT(clang-analyzer-unix.Malloc): it loses sight of the one that was removed */
		free_connection(c);
	}
}

uint64_t admin_next_deadline(const struct admin *a)
{
	const struct admin_connection *c;
	uint64_t next = acceptor_next_deadline(&a->acceptor);

	TAILQ_FOREACH (c, &a->connections, link)
		if (c->deadline && (next == 0 || c->deadline < next))
			next = c->deadline;
	return next;
}

void admin_deadlines(struct admin *a, uint64_t now)
{
	struct admin_connection *c, *next;

	TAILQ_FOREACH_SAFE(c, &a->connections, link, next)
	{
		if (c->deadline && now >= c->deadline) {
			session_say(&a->control->edge, c->peer.uid, LOG_LEVEL_WARNING,
				    "administrator: %s uid %u: no request within %u ms", c->name, c->peer.uid,
				    a->control->config->hello_timeout_ms);
			hang_up(c);
		}
		if (c->state == ADMIN_ENDED)
			free_connection(c);
	}
	acceptor_again(&a->acceptor, now);
}
