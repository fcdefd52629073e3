/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c - commands as text: one line each for a log, and as a scenario file */
#include "world.h"

#include <inttypes.h>

#include <swakv/error.h>

static const char *const op_names[OP_COUNT] = {
	"attach",
	"model",
	"end",
	"reclaim",
	"arm",
	"reach",
	"begin",
	"prefill_prepare",
	"prefill_complete",
	"step_prepare",
	"step_complete",
	"compact_begin",
	"compact_complete",
	"finish",
	"abandon",
	"shutdown",
	"query",
};
static const char *const fence_names[FENCE_COUNT] = { "done",   "new",        "armed",       "old",         "point",
						      "failed", "wrong-line", "never-armed", "no-such-kind" };

const char *command_name(enum op op)
{
	return op_names[op];
}

static void print_list(FILE *out, const char *key, const int32_t *list, uint32_t n)
{
	fprintf(out, " %s=", key);
	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%s%d", i ? "," : "", list[i]);
}

void command_print(FILE *out, const struct setup *setup, const struct command *c)
{
	fprintf(out, "%s session=%u", op_names[c->op], c->session);
	switch (c->op) {
	case OP_ATTACH:
		fprintf(out, " model=%" PRId64, c->value % setup->n_models);
		break;
	case OP_STEP_PREPARE:
	case OP_STEP_COMPLETE:
		for (uint32_t i = 0; i < c->n; i++)
			fprintf(out, " {request=%d tokens=%d accepted=%d fence=%s}", c->entries[i].request,
				c->entries[i].tokens, c->entries[i].accepted, fence_names[c->entries[i].fence]);
		break;
	case OP_SHUTDOWN:
		for (uint32_t i = 0; i < c->n; i++)
			fprintf(out, " fence=%s", fence_names[c->list[i]]);
		break;
	case OP_ARM:
	case OP_REACH:
		fprintf(out, " stream=%u behind=%" PRId64, c->stream, c->value);
		break;
	default:
		fprintf(out, " request=%d value=%" PRId64 " stream=%u flags=%u new=%d fence=%s", c->request, c->value,
			c->stream, c->flags, c->new_batch, fence_names[c->fence]);
		print_list(out, "list", c->list, c->op == OP_QUERY ? 2 : c->n);
	}
	fputc('\n', out);
}

/* ---- scenario files -------------------------------------------------------------------- */

static void write_setup(FILE *out, const struct setup *s)
{
	static const char *const dtypes[] = { "?", "f16", "bf16", "f32", "fp8" };

	fprintf(out, "# extents of %" PRIu64 " bytes in halves of %" PRIu64 "\n", s->extent, s->half);
	fprintf(out, "broker backend=host bytes=%" PRIu64 "\n", 2 * s->half);
	for (uint32_t i = 0; i < s->n_models; i++) {
		const struct ref_model *m = &s->models[i];
		const struct wire_group *g = &m->group;

		fprintf(out,
			"model m%u window=%" PRId64 " max_batch=%d max_seq=%" PRId64
			" page_tokens=%u layers=%u kv_heads=%u head_dim=%u dtype=%s\n",
			i, g->window, m->max_batch, m->max_seq, g->page_tokens, g->layers, g->kv_heads,
			g->k_head_dim > g->v_head_dim ? g->k_head_dim : g->v_head_dim, dtypes[g->dtype]);
	}
}

static const char *fence_word(uint32_t fence)
{
	return fence == FENCE_DONE ? "done" : fence == FENCE_FAILED ? "fail" : "pending";
}

static bool sayable(const struct world *w, const struct command *c)
{
	if (c->op == OP_MODEL || c->op == OP_QUERY || c->fence > FENCE_FAILED)
		return false;
	if (c->op != OP_BEGIN && c->op >= OP_PREFILL_PREPARE && c->op <= OP_ABANDON && c->op != OP_STEP_PREPARE &&
	    c->op != OP_STEP_COMPLETE)
		return c->request >= 0 && w->labels[c->request].session == c->session;
	if (c->op == OP_STEP_PREPARE || c->op == OP_STEP_COMPLETE)
		return c->n == 1 && c->entries[0].request >= 0 && c->entries[0].tokens == 1 &&
		       c->entries[0].fence <= FENCE_FAILED && c->entries[0].accepted >= 0 &&
		       c->entries[0].accepted <= 1;
	return true;
}

static void write_call(FILE *out, const struct command *c)
{
	uint32_t s = c->session;

	switch (c->op) {
	case OP_BEGIN:
		fprintf(out, "begin w%u r%d", s, c->request);
		print_list(out, "slots", c->list, c->n);
		if (c->value)
			fprintf(out, " max_tokens=%" PRId64, c->value);
		break;
	case OP_PREFILL_PREPARE:
		fprintf(out, "prefill_prepare w%u r%d", s, c->request);
		print_list(out, "lens", c->list, c->n);
		break;
	case OP_PREFILL_COMPLETE:
	case OP_COMPACT_COMPLETE:
		fprintf(out, "%s w%u r%d fence=%s", op_names[c->op], s, c->request, fence_word(c->fence));
		break;
	case OP_STEP_PREPARE:
		fprintf(out, "decode_prepare w%u r%d", s, c->entries[0].request);
		break;
	case OP_STEP_COMPLETE:
		fprintf(out, "decode_complete w%u r%d fence=%s", s, c->entries[0].request,
			fence_word(c->entries[0].fence));
		break;
	case OP_COMPACT_BEGIN:
		fprintf(out, "compact_begin w%u r%d", s, c->request);
		print_list(out, "map", c->list, c->n);
		fprintf(out, " new=%d%s", c->new_batch, c->flags ? " rows=move" : "");
		break;
	default:
		fprintf(out, "%s w%u r%d", op_names[c->op], s, c->request);
	}
}

static void write_command(FILE *out, const struct command *c)
{
	switch (c->op) {
	case OP_ATTACH:
		fprintf(out, "attach w%u model=m%" PRId64, c->session, c->value);
		break;
	case OP_END:
		fprintf(out, "detach w%u", c->session);
		break;
	case OP_RECLAIM:
		fprintf(out, "kill w%u", c->session);
		break;
	case OP_ARM:
		fprintf(out, "# work on stream %u of w%u", c->stream, c->session);
		break;
	case OP_REACH:
		fprintf(out, "signal w%u # stream %u, all but %" PRId64, c->session, c->stream, c->value);
		break;
	case OP_SHUTDOWN:
		fprintf(out, "shutdown w%u", c->session);
		break;
	default:
		write_call(out, c);
	}
}

void scenario_write(FILE *out, const struct setup *setup, const struct command *list, uint32_t n, const char *why)
{
	struct world *w = world_new(setup);

	fprintf(out, "# found by the random test: %s\n", why);
	write_setup(out, setup);
	for (uint32_t i = 0; i < n && w; i++) {
		bool agreed = world_run(w, &list[i]);

		if (!sayable(w, &list[i])) {
			fprintf(out, "# not to be said in this grammar: ");
			command_print(out, setup, &list[i]);
			continue;
		}
		write_command(out, &list[i]);
		if (w->code)
			fprintf(out, " -> error=%s", swakv_error_name(w->code));
		if (list[i].op == OP_BEGIN && list[i].stream)
			fprintf(out, " # on stream %u", list[i].stream);
		fprintf(out, "%s\n", agreed ? "" : " # here");
	}
	fprintf(out, "expect disjoint\n");
	world_free(w);
}
