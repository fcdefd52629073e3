/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - what a worker says first, or should */
#include <string.h>

#include "worker.h"

static void make_hello(const struct worker *v, struct wire_hello *h)
{
	const struct model *m = v->model;

	*h = (struct wire_hello){
		.magic = WIRE_MAGIC,
		.size = sizeof(*h),
		.version_min = WIRE_VERSION_MIN,
		.version_max = WIRE_VERSION_MAX,
		.size_welcome = sizeof(struct wire_welcome),
		.size_command = sizeof(struct wire_command),
		.size_reply = sizeof(struct wire_reply),
		.size_ring_control = sizeof(struct ring_control),
		.flags = (m->chunk_mapped ? WIRE_HELLO_CHUNK_MAPPED : 0u) | (v->joinable ? WIRE_HELLO_JOINABLE : 0u) |
			 (v->events ? WIRE_HELLO_EVENTS : 0u),
		.n_groups = m->n_groups,
		.n_streams = m->n_streams,
		.max_batch = (uint32_t)m->max_batch,
		.max_seq = m->max_seq,
		.max_advance = m->max_advance,
		.in_flight = m->in_flight,
		.max_rewind = m->max_rewind,
	};
	h->model[0] = 'm';
	h->model[1] = (char)('0' + v->model_index);
	memcpy(h->groups, m->groups, m->n_groups * sizeof(m->groups[0]));
}

void hello_join(const struct worker *v, struct wire_hello *h)
{
	const struct wire_welcome *w = &v->connection->welcome;

	make_hello(v, h);
	h->flags = (h->flags & WIRE_HELLO_CHUNK_MAPPED) | WIRE_HELLO_JOIN;
	h->join = (struct wire_token){ .session_id = w->session_id, .session_generation = w->session_generation };
	memcpy(h->join.key, w->key, sizeof(h->join.key));
}

void hello_say(struct worker *v)
{
	struct world *w = v->world;
	size_t bytes = sizeof(struct wire_hello);
	pid_t sender = v->process->pid;
	struct wire_hello h;

	make_hello(v, &h);
	if (v->connection->lies)
		switch (rng_between(&w->rng, 0, 3)) {
		case 0:
			bytes = (size_t)rng_between(&w->rng, 1, (int64_t)bytes - 1);
			break;
		case 1:
			h.reserved[0] = 1;
			break;
		case 2:
			h.max_batch = 0;
			break;
		default:
			sender++; /* another holds the socket, too */
		}
	connection_say(w, v->connection, sender, &h, bytes);
	if (!v->connection->lies && world_fault(w, SIM_FORGED)) /* twice: that ends the session */
		connection_say(w, v->connection, sender, &h, bytes);
}
