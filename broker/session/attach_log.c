/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_log.c - see attach_log.h
 *
 * What a worker will run into is better told when it attaches than at every
 * begin, or by wrong results.
 */
#include "attach_log.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
/* "9", or "9+64" of several groups. */
static void private_pages_text(const struct channel *ch, char *buf, size_t size)
{
	size_t at = 0;

	for (uint32_t i = 0; i < ch->model.n_groups && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%" PRId32, i ? "+" : "", ch->geometry[i].private_pages);
}

static void log_attached(const struct session_edge *e, const struct channel *ch, const struct peer *peer)
{
	char pages[16 * WIRE_MAX_GROUPS], name[PEER_NAME];

	private_pages_text(ch, pages, sizeof(pages));
	session_say(e, ch->uid, LOG_LEVEL_INFO,
		    "session %u.%u: attached: %s uid %u model \"%s\", %s pages a sequence, %" PRId32 " slots", ch->id,
		    ch->generation, peer_name(peer, name), peer->uid, ch->model_name, pages, ch->model.max_batch);
}

/* A sequence of max_seq tokens that this pool could never hold. */
static void warn_small(const struct session_edge *e, const struct channel *ch, const struct backend_pool *pool)
{
	uint64_t bytes = 0;

	if (model_fits(&ch->model, ch->geometry, pool->half_bytes, pool->extent_bytes))
		return;
	for (uint32_t i = 0; i < ch->model.n_groups; i++)
		bytes += (uint64_t)ch->geometry[i].private_pages * page_key_whole(geometry_key(&ch->geometry[i]));
	session_say(e, ch->uid, LOG_LEVEL_WARNING,
		    "session %u.%u: a sequence of %" PRId64 " tokens needs %" PRIu64
		    " bytes of K and V, in whole extents of %" PRIu64 " for each page size, the pool has %" PRIu64
		    ": begin will answer never unless max_tokens is lower",
		    ch->id, ch->generation, ch->model.max_seq, bytes, 2 * pool->extent_bytes, 2 * pool->half_bytes);
}

/* Where a kernel that multiplies page id and stride in 32 bits would read elsewhere. */
static void log_wide(const struct session_edge *e, const struct channel *ch)
{
	for (uint32_t i = 0; i < ch->model.n_groups; i++)
		if (ch->geometry[i].wide)
			session_say(e, ch->uid, LOG_LEVEL_INFO,
				    "session %u.%u: group %u: its %" PRId32 " pages of %" PRIu64
				    " bytes need 64-bit element offsets in every kernel",
				    ch->id, ch->generation, i, ch->geometry[i].num_pages, ch->geometry[i].page_bytes);
}

/* Limits are of a name, so two models of one name get in each other's way. */
static void warn_redeclared(const struct session_edge *e, const struct channel *ch)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < ch->model.n_groups; i++)
		bytes += (uint64_t)ch->geometry[i].private_pages * page_key_whole(geometry_key(&ch->geometry[i]));
	if (ch->declared_otherwise)
		session_say(
			e, ch->uid, LOG_LEVEL_WARNING,
			"session %u.%u: model \"%s\" was declared with another geometry before: a sequence of max_seq "
			"took %" PRIu64 " bytes, and takes %" PRIu64
			" now. Its floor is kept in the pages of this declaration from now on; if it is another "
			"model, give it another name",
			ch->id, ch->generation, ch->model_name, ch->declared_otherwise, bytes);
}

void attach_log(const struct session_edge *e, const struct channel *ch, const struct peer *peer,
		const struct backend_pool *pool)
{
	log_attached(e, ch, peer);
	warn_small(e, ch, pool);
	warn_redeclared(e, ch);
	log_wide(e, ch);
}
