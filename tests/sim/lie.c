/* SPDX-License-Identifier: Apache-2.0 */
/* lie.c - words, positions and commands that lie */
#include "clock.h"
#include "ring/channel.h"
#include "worker.h"

/* The broker knows that the line was armed up to @armed. */
static bool has_seen(const struct worker *v, uint32_t stream, uint64_t armed)
{
	const struct channel *c = v->connection->doorbell->who;

	return c && c->armed[stream] >= armed;
}

void lie(struct worker *v)
{
	uint32_t stream = (uint32_t)rng_between(&v->world->rng, 0, v->model->n_streams - 1);
	struct wire_line *line = v->gpu.streams[stream].line;
	struct ring_control *control = rng_one_in(&v->world->rng, 2) ? v->commands.control : v->replies.control;

	struct wire_fence fence = { 0 };
	struct message m;

	world_trace(v->world, "worker %u lies", v->number);
	switch (rng_between(&v->world->rng, 0, 4)) {
	case 0:
		store_release(&line->word,
			      load_acquire(&line->armed) + (uint64_t)rng_between(&v->world->rng, 1, 1 << 20));
		message_begin(&m, WIRE_OP_FINISH, 1); /* the broker looks at the lines before it asks what this is */
		message_add(&m, &fence, sizeof(fence));
		/* Else the broker may not come to it, or the device may write another value before. */
		v->must_be_ended = message_send(v, &m, 0) && v->n_nops == 0 && v->state == WORKER_LIVE &&
				   gpu_idle(&v->gpu, stream);
		break;
	case 1: /* where the broker cannot know better, nobody could see through it */
		if (gpu_idle(&v->gpu, stream) || has_seen(v, stream, load_acquire(&line->armed)))
			store_release(&line->armed, load_acquire(&line->armed) - 1);
		break;
	case 2:
		store_release(&control->tail, (uint32_t)rng_next(&v->world->rng));
		break;
	case 3:
		store_release(&control->head, (uint32_t)rng_next(&v->world->rng));
		break;
	default: {
		uint64_t slot[RING_EXPRESS + 1];

		for (int i = 0; i <= RING_EXPRESS; i++)
			slot[i] = rng_next(&v->world->rng);
		if (ring_producer_space_spsc(&v->commands, 1) > 0)
			ring_producer_queue_spsc(&v->commands, slot);
	}
	}
	worker_ring(v, true);
	/* Caught or not, it does nothing sensible any more, and ends. */
	if (v->must_be_ended) /* and is so before it ends by itself */
		worker_exit_at(v, v->world->now + 10 * NS_PER_MS);
	worker_retire(v, 50 * NS_PER_MS);
}
