/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_edge.c - what the control thread asks of the virtual kernel */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "kernel.h"
#include "quota.h"
#include "sim.h"
#include "worker.h"

bool kernel_starved(const struct world *w)
{
	return w->kernel.starved && w->now - w->kernel.starved < 1000000;
}

static struct kfile *file_of(struct world *w, int fd)
{
	struct kfile *f =
		fd >= KERNEL_FIRST && fd < KERNEL_FIRST + KERNEL_FILES ? w->kernel.files[fd - KERNEL_FIRST] : NULL;

	if (!f)
		world_break(w, "the broker used descriptor %d, which is not open", fd);
	return f;
}

/* The lowest number that is free, or -EMFILE. */
static int file_open(struct world *w, struct kfile file)
{
	struct kernel *k = &w->kernel;
	struct kfile *f;
	int i = 0;

	if (k->n_files >= k->limit) {
		k->starved = w->now;
		return -EMFILE;
	}
	while (k->files[i])
		i++;
	f = malloc(sizeof(*f));
	*f = file;
	STAILQ_INSERT_HEAD(&k->all_files, f, link);
	k->files[i] = f;
	k->n_files++;
	return KERNEL_FIRST + i;
}

int kernel_listen(struct world *w, bool admin)
{
	return file_open(w, (struct kfile){ .kind = KFILE_LISTENING, .admin = admin });
}

static uint64_t edge_now(void *arg)
{
	return ((struct world *)arg)->now;
}

/* A violation is said once a session. */
static void edge_say(void *arg, uint32_t uid, enum log_level level, const char *text)
{
	struct world *w = arg;
	uint32_t id, generation;

	world_trace(w, "log: %s", text);
	if (sscanf(text, "session %u.%u", &id, &generation) != 2 || id > GPU_WATCH_PLACES ||
	    !strstr(text, "until its process ends"))
		return;
	if (w->kernel.kicked[id] == generation)
		world_break(w, "session %u.%u was ended twice for a violation", id, generation);
	w->kernel.kicked[id] = generation;
}

/* ---- descriptors -------------------------------------------------------------------------- */

static int edge_watch(void *arg, struct source *s, int fd, uint32_t events, void (*event)(void *owner, uint32_t events),
		      void *owner)
{
	struct world *w = arg;

	*s = (struct source){ .fd = fd, .event = event, .owner = owner };
	if (fd == mailbox_fd(w->ring->outbox))
		w->kernel.mail = s;
	else if (fd == w->watch.told)
		w->kernel.gone = s;
	else if (fd >= 0 && file_of(w, fd))
		file_of(w, fd)->source = s;
	return 0;
}

static void edge_unwatch(void *arg, struct source *s)
{
	struct world *w = arg;

	if (s->fd >= KERNEL_FIRST && file_of(w, s->fd))
		file_of(w, s->fd)->source = NULL;
	s->fd = -1;
}

static void socket_closed(struct world *w, struct connection *c)
{
	if (!c->heard && !c->admin)
		quota_check_hung_up(w, c);
	c->closed_there = true;
	if (c->news)
		c->news(c->arg);
}

static void edge_close(void *arg, int *fd)
{
	struct world *w = arg;
	struct kfile *f = *fd >= 0 ? file_of(w, *fd) : NULL;

	if (f) {
		if (f->source)
			world_break(w, "the broker closed descriptor %d, which it still watches", *fd);
		w->kernel.files[*fd - KERNEL_FIRST] = NULL;
		w->kernel.n_files--;
		if (f->kind == KFILE_SOCKET)
			socket_closed(w, f->connection);
	}
	*fd = -1;
}

static int edge_spare(void *arg)
{
	int fd = file_open(arg, (struct kfile){ .kind = KFILE_SPARE });

	return fd < 0 ? -1 : fd;
}

static int edge_accept(void *arg, int fd)
{
	struct world *w = arg;
	bool admin = file_of(w, fd)->admin;
	struct connection *c = STAILQ_FIRST(&w->kernel.backlog[admin]);
	int r;

	if (!c)
		return -EAGAIN;
	r = file_open(w, (struct kfile){ .kind = KFILE_SOCKET, .connection = c });
	if (r < 0)
		return r;
	STAILQ_REMOVE_HEAD(&w->kernel.backlog[admin], waiting);
	c->accepted = true;
	c->since = w->now;
	return r;
}

void kernel_stop_listening(struct world *w, struct listener *l)
{
	bool admin = file_of(w, l->fd)->admin;
	struct connection *c;

	w->kernel.listening[admin] = false;
	while ((c = STAILQ_FIRST(&w->kernel.backlog[admin]))) { /* whoever waits is hung up on */
		STAILQ_REMOVE_HEAD(&w->kernel.backlog[admin], waiting);
		c->closed_there = true;
		if (c->news)
			c->news(c->arg);
	}
	file_of(w, l->fd)->source = NULL;
	edge_close(w, &l->fd);
}

static void edge_stop_listening(void *arg, struct listener *l)
{
	kernel_stop_listening(arg, l);
}

/* ---- a connection ---------------------------------------------------------------------------- */

static int edge_peer(void *arg, struct peer *p, int socket)
{
	const struct connection *c = file_of(arg, socket)->connection;

	*p = (struct peer){ .pid = c->process->pid, .uid = c->uid, .gid = c->uid };
	return 0;
}

static bool edge_allowed(void *arg, const struct peer *p, int socket, const struct config *c)
{
	return peer_allowed(p, -1, c); /* no group is listed: the socket is not asked */
}

static ssize_t edge_receive(void *arg, int socket, void *buf, size_t size, struct packet_origin *origin)
{
	struct world *w = arg;
	struct connection *c = file_of(w, socket)->connection;
	struct said s = c->said[0];

	*origin = (struct packet_origin){ .fd = -1 };
	if (c->n_said == 0) {
		errno = EAGAIN;
		return c->closed_here ? 0 : -1;
	}
	c->n_said--;
	memmove(c->said, c->said + 1, c->n_said * sizeof(*c->said));
	memcpy(buf, s.data, s.bytes < size ? s.bytes : size);
	origin->pid = s.pid;
	c->heard = true;
	w->kernel.current = c;
	return (ssize_t)s.bytes;
}

static void answer(struct world *w, struct connection *c, const void *bytes, size_t n)
{
	if (c->admin)
		memcpy(c->answer, bytes, n < sizeof(c->answer) ? n : sizeof(c->answer));
	else
		memcpy(&c->welcome, bytes, sizeof(c->welcome));
	c->answered = true;
	c->answer_bytes = n;
}

static bool edge_send(void *arg, int socket, const struct iovec *parts, uint32_t n_parts, const int *fds,
		      uint32_t n_fds)
{
	struct world *w = arg;
	struct connection *c = file_of(w, socket)->connection;

	if (c->closed_here)
		return false;
	answer(w, c, parts[0].iov_base, parts[0].iov_len);
	if (n_fds > 0) {
		c->shared = file_of(w, fds[WIRE_FD_SESSION])->shared;
		c->shared->mapped++; /* what is under way keeps it */
		c->doorbell = file_of(w, fds[WIRE_FD_DOORBELL]);
		quota_check_welcome(w, c);
	}
	if (c->news)
		c->news(c->arg);
	return true;
}

static void edge_send_last(void *arg, int socket, const void *buf, size_t size)
{
	struct world *w = arg;
	struct connection *c = file_of(w, socket)->connection;

	answer(w, c, buf, size);
	quota_check_refusal(w, c);
}

static void edge_end_sending(void *arg, int socket)
{
	struct world *w = arg;
	struct connection *c = file_of(w, socket)->connection;

	c->told_end = true;
	if (c->news)
		c->news(c->arg);
}

/* ---- its process --------------------------------------------------------------------------------- */

static int edge_pidfd(void *arg, const struct peer *p, int socket, const struct packet_origin *hello, char *why,
		      size_t size)
{
	struct world *w = arg;
	int fd;

	snprintf(why, size, "no pidfd");
	if (hello->pid != p->pid)
		return -1;
	fd = file_open(w, (struct kfile){ .kind = KFILE_PIDFD,
					  .process = file_of(w, socket)->connection->process,
					  .connection = file_of(w, socket)->connection });
	return fd < 0 ? -1 : fd;
}

static int edge_kill(void *arg, int pidfd)
{
	struct world *w = arg;
	struct process *p = file_of(w, pidfd)->process;

	if (p->exited)
		return -ESRCH;
	if (p->worker->process == p)
		worker_die(p->worker);
	else
		members_kill_process(p->worker, p);
	return 0;
}

static void edge_gpu_begin(void *arg, uint32_t place, pid_t pid)
{
	struct world *w = arg;

	w->kernel.gpu[place] = (struct kernel_gpu){ .pid = pid };
}

static void edge_gpu_ended(void *arg, uint32_t place)
{
	struct world *w = arg;

	w->kernel.gpu[place].ended = true;
}

static bool edge_gpu_gone(void *arg, uint32_t place)
{
	const struct world *w = arg;

	return w->kernel.gpu[place].gone;
}

static void edge_gpu_end(void *arg, uint32_t place)
{
	struct world *w = arg;

	w->kernel.gpu[place] = (struct kernel_gpu){ 0 };
}

/* ---- its session ----------------------------------------------------------------------------------- */

static unsigned char *zeroed(uint64_t bytes)
{
	unsigned char *p = aligned_alloc(CACHELINE, (bytes + CACHELINE - 1) / CACHELINE * CACHELINE);

	if (!p)
		abort();
	return memset(p, 0, bytes);
}

static int edge_make_memory(void *arg, struct session_memory *m, const struct session_layout *l)
{
	struct world *w = arg;
	struct shared *s = calloc(1, sizeof(*s));

	*m = (struct session_memory){ .layout = *l, .session_fd = -1, .tables_fd = -1 };
	s->layout = *l;
	s->connection = w->kernel.current;
	m->session_fd = file_open(w, (struct kfile){ .kind = KFILE_MEMORY, .shared = s });
	m->tables_fd = m->session_fd < 0 ? -EMFILE : file_open(w, (struct kfile){ .kind = KFILE_MEMORY, .shared = s });
	if (m->tables_fd < 0) {
		STAILQ_INSERT_HEAD(&w->kernel.old_memories, s, link);
		edge_close(w, &m->session_fd);
		m->session_fd = m->tables_fd = -1;
		return -EMFILE;
	}
	STAILQ_INSERT_HEAD(&w->kernel.memories, s, link);
	m->session = s->session = zeroed(l->session_bytes);
	m->tables = s->tables = zeroed(l->tables_bytes);
	s->broker = true;
	s->mapped = 1;
	return 0;
}

static void edge_free_memory(void *arg, struct session_memory *m)
{
	struct world *w = arg;
	struct shared *s;

	edge_close(w, &m->session_fd);
	edge_close(w, &m->tables_fd);
	STAILQ_FOREACH (s, &w->kernel.memories, link) {
		if (!m->session || s->session != m->session)
			continue;
		members_check_forgotten(s->connection->process->worker, s);
		if (s->connection->shared == s)
			worker_check_forgotten(s->connection->process->worker, s);
		s->broker = false;
		STAILQ_REMOVE(&w->kernel.memories, s, shared, link);
		STAILQ_INSERT_HEAD(&w->kernel.old_memories, s, link);
		shared_release(s);
		break;
	}
	m->session = m->tables = NULL;
}

static int edge_make_doorbell(void *arg)
{
	return file_open(arg, (struct kfile){ .kind = KFILE_BELL });
}

static int edge_copy(void *arg, int socket)
{
	return file_open(arg, (struct kfile){ .kind = KFILE_COPY, .noticed = file_of(arg, socket)->connection });
}

/* A byte is there for it to read, as long as it has room: one is enough. */
void kernel_notify(struct world *w, int socket)
{
	struct kfile *f = file_of(w, socket);

	if (!f || f->kind != KFILE_COPY) {
		world_break(w, "descriptor %d, which is no socket, was notified", socket);
		return;
	}
	if (f->noticed->noticed)
		world_break(w, "a worker was sent a second byte before it asked for one");
	f->noticed->noticed = true;
	w->notices++;
	worker_noticed(f->noticed->process->worker);
}

struct session_edge kernel_edge(struct world *w)
{
	return (struct session_edge){
		.arg = w,
		.now = edge_now,
		.say = edge_say,
		.watch = edge_watch,
		.unwatch = edge_unwatch,
		.close = edge_close,
		.drop = edge_close,
		.spare = edge_spare,
		.accept = edge_accept,
		.stop_listening = edge_stop_listening,
		.peer = edge_peer,
		.allowed = edge_allowed,
		.receive = edge_receive,
		.send = edge_send,
		.send_last = edge_send_last,
		.end_sending = edge_end_sending,
		.pidfd = edge_pidfd,
		.kill = edge_kill,
		.gpu_begin = edge_gpu_begin,
		.gpu_ended = edge_gpu_ended,
		.gpu_gone = edge_gpu_gone,
		.gpu_end = edge_gpu_end,
		.make_memory = edge_make_memory,
		.free_memory = edge_free_memory,
		.make_doorbell = edge_make_doorbell,
		.copy = edge_copy,
	};
}
