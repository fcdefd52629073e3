/* SPDX-License-Identifier: Apache-2.0 */
/* show_moves.c - see show_moves.h */
#include "show_moves.h"

#include <inttypes.h>

#include "json_put.h"
#include "size.h"
#include "text.h"
#include "view.h"

/* ---- JSON ------------------------------------------------------------------------------- */

json_t *stays_json(const uint32_t *of)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < STAY_COUNT; i++)
		if (of[i])
			json_put(object, text_stay(i), of[i]);
	return object;
}

json_t *moves_json(const struct status_snapshot *snap)
{
	json_t *object = json_object();
	int64_t extents = 0, to_move = 0;

	for (uint32_t i = 0; i < snap->n_classes; i++)
		extents += snap->classes[i].emptying;
	for (uint32_t i = 0; i < snap->n_sessions; i++)
		to_move += snap->sessions[i].to_move;
	json_put(object, "pages", (int64_t)snap->moved_pages);
	json_put(object, "bytes", (int64_t)snap->moved_bytes);
	json_put(object, "no_place", (int64_t)snap->unplaced);
	json_put(object, "emptying_extents", extents);
	json_put(object, "to_move", to_move);
	return object;
}

/* ---- table ------------------------------------------------------------------------------ */

/* "; passed over: 2 idle, 1 pinned" */
static void write_stays(FILE *out, const uint32_t *stays)
{
	const char *before = "; passed over: ";

	for (uint32_t i = 0; i < STAY_COUNT; i++) {
		if (!stays[i])
			continue;
		fprintf(out, "%s%" PRIu32 " %s", before, stays[i], text_stay(i));
		before = ", ";
	}
}

static bool any_stays(const uint32_t *stays)
{
	uint32_t any = 0;

	for (uint32_t i = 0; i < STAY_COUNT; i++)
		any |= stays[i];
	return any;
}

void moves_write(FILE *out, const struct view *v, const struct status_snapshot *s)
{
	const char *before = "\n";
	char a[TEXT_SIZE];

	if (s->moved_pages || s->unplaced) {
		fprintf(out, "%smoves      %" PRIu64 " pages (%s) have moved; %" PRIu64 " times there was no place\n",
			before, s->moved_pages, size_text(s->moved_bytes, a), s->unplaced);
		before = "";
	}
	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *c = &s->classes[i];

		if (!c->emptying && !any_stays(c->stays))
			continue;
		fprintf(out, "%semptying   %" PRIu32 " extents of class %" PRIu32, before, c->emptying, i);
		write_stays(out, c->stays);
		fputc('\n', out);
		before = "";
	}
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		const struct status_session *x = &s->sessions[i];

		if (!view_has_session(v, s, i) || (!x->to_move && !any_stays(x->stays)))
			continue;
		fprintf(out, "%sto move    %" PRId64 " pages of session %u (%s)", before, x->to_move, x->id, x->model);
		write_stays(out, x->stays);
		fputc('\n', out);
		before = "";
	}
}

void session_moves_write(FILE *out, const struct status_session *x)
{
	if (!x->to_move && !any_stays(x->stays))
		return;
	fprintf(out, "  moves       %" PRId64 " pages are to move", x->to_move);
	write_stays(out, x->stays);
	fputc('\n', out);
}
