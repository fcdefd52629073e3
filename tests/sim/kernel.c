/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - see kernel.h; connections and processes are here, the edge is in kernel_edge.c */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "front.h"
#include "sim.h"

void kernel_init(struct world *w)
{
	struct kernel *k = &w->kernel;

	k->limit = KERNEL_FILES;
	STAILQ_INIT(&k->backlog[0]);
	STAILQ_INIT(&k->backlog[1]);
	STAILQ_INIT(&k->all_files);
	STAILQ_INIT(&k->connections);
	STAILQ_INIT(&k->processes);
	STAILQ_INIT(&k->old_processes);
	STAILQ_INIT(&k->memories);
	STAILQ_INIT(&k->old_memories);
	k->listening[0] = k->listening[1] = true;
}

void kernel_free(struct world *w)
{
	struct kernel *k = &w->kernel;
	struct kfile *f;
	struct connection *c;
	struct process *p;
	struct shared *s;

	while ((f = STAILQ_FIRST(&k->all_files))) {
		STAILQ_REMOVE_HEAD(&k->all_files, link);
		free(f);
	}
	while ((c = STAILQ_FIRST(&k->connections))) {
		STAILQ_REMOVE_HEAD(&k->connections, link);
		free(c);
	}
	STAILQ_CONCAT(&k->old_processes, &k->processes);
	while ((p = STAILQ_FIRST(&k->old_processes))) {
		STAILQ_REMOVE_HEAD(&k->old_processes, link);
		free(p);
	}
	STAILQ_CONCAT(&k->old_memories, &k->memories);
	while ((s = STAILQ_FIRST(&k->old_memories))) {
		STAILQ_REMOVE_HEAD(&k->old_memories, link);
		free(s->session);
		free(s->tables);
		free(s);
	}
}

/* ---- processes ----------------------------------------------------------------------- */

static bool pid_taken(const struct kernel *k, pid_t pid)
{
	const struct process *p;

	STAILQ_FOREACH (p, &k->processes, link)
		if (p->pid == pid && !p->exited)
			return true;
	return false;
}

struct process *process_new(struct world *w, struct worker *v)
{
	struct process *p = calloc(1, sizeof(*p));

	p->pid = 2;
	while (pid_taken(&w->kernel, p->pid))
		p->pid++;
	p->worker = v;
	STAILQ_INSERT_HEAD(&w->kernel.processes, p, link);
	return p;
}

static void retire(struct kernel *k, struct process *p)
{
	if (!p->exited || p->on_gpu || p->old)
		return;
	p->old = true;
	STAILQ_REMOVE(&k->processes, p, process, link);
	STAILQ_INSERT_HEAD(&k->old_processes, p, link);
}

void process_off_gpu(struct world *w, struct process *p)
{
	p->on_gpu = false;
	retire(&w->kernel, p);
}

void process_exit(struct world *w, struct process *p)
{
	struct connection *c;

	p->exited = true;
	STAILQ_FOREACH (c, &w->kernel.connections, link)
		if (c->process == p)
			c->closed_here = true;
	retire(&w->kernel, p);
	front_poke(w);
}

/* ---- connections ---------------------------------------------------------------------- */

struct connection *connection_new(struct world *w, struct process *p, uid_t uid, bool admin)
{
	struct connection *c;

	if (!w->kernel.listening[admin])
		return NULL;
	c = calloc(1, sizeof(*c));
	c->process = p;
	c->uid = uid;
	c->admin = admin;
	STAILQ_INSERT_HEAD(&w->kernel.connections, c, link);
	STAILQ_INSERT_TAIL(&w->kernel.backlog[admin], c, waiting);
	front_poke(w);
	return c;
}

void connection_say(struct world *w, struct connection *c, pid_t pid, const void *message, size_t bytes)
{
	struct said *s = &c->said[c->n_said];

	if (c->n_said == KERNEL_SAID || c->closed_here || c->closed_there)
		return;
	c->n_said++;
	s->pid = pid;
	s->bytes = bytes;
	memcpy(s->data, message, bytes < sizeof(s->data) ? bytes : sizeof(s->data));
	front_poke(w);
}

void connection_close(struct world *w, struct connection *c)
{
	c->closed_here = true;
	front_poke(w);
}

void shared_release(struct shared *s)
{
	if (--s->mapped > 0)
		return;
	free(s->session);
	free(s->tables);
	s->session = s->tables = NULL;
}

/* ---- what is ready ------------------------------------------------------------------------ */

static bool is_ready(const struct kernel *k, const struct kfile *f)
{
	switch (f->kind) {
	case KFILE_LISTENING:
		return !STAILQ_EMPTY(&k->backlog[f->admin]);
	case KFILE_SOCKET:
		return f->connection->n_said > 0 || f->connection->closed_here;
	case KFILE_PIDFD:
		return f->process->exited;
	default:
		return false;
	}
}

uint32_t kernel_ready(const struct world *w, struct source *out[KERNEL_FILES + 2])
{
	const struct kernel *k = &w->kernel;
	uint32_t n = 0;

	if (k->mail_ready)
		out[n++] = k->mail;
	if (k->gone_ready)
		out[n++] = k->gone;
	for (uint32_t i = 0; i < KERNEL_FILES; i++)
		if (k->files[i] && k->files[i]->source && is_ready(k, k->files[i]))
			out[n++] = k->files[i]->source;
	return n;
}

/* ---- the GPU --------------------------------------------------------------------------------- */

static bool listed(const struct kernel *k, pid_t pid)
{
	const struct process *p;

	STAILQ_FOREACH (p, &k->processes, link)
		if (p->pid == pid && p->on_gpu)
			return true;
	return false;
}

void kernel_look_at_gpu(struct world *w)
{
	struct kernel *k = &w->kernel;

	for (uint32_t i = 0; i < w->plan.config.max_sessions; i++) {
		struct kernel_gpu *g = &k->gpu[i];
		bool there;

		if (!g->pid || g->gone)
			continue;
		there = listed(k, g->pid);
		if (!g->ended)
			g->seen |= there;
		else if (g->seen && !there)
			g->gone = k->gone_ready = true;
	}
	if (k->gone_ready)
		front_poke(w);
}
