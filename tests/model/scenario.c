/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c - commands as text: one line each for a log, and as a scenario file */
#include "world.h"

#include <inttypes.h>

#include <swakv/error.h>

#include "page_shape.h"

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
	"rewind",
	"reserve",
	"compact_begin",
	"compact_complete",
	"finish",
	"abandon",
	"shutdown",
	"limit",
	"pass",
	"withdraw",
	"trim",
	"query",
	"take",
	"give",
	"offer",
	"pin",
	"press",
	"turn",
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
		print_list(out, "counts", c->counts, c->n_counts);
		break;
	case OP_TURN:
		for (uint32_t i = 0; i < c->n; i++)
			fprintf(out, " {what=%u request=%d tokens=%d accepted=%d fence=%s}", c->entries[i].what,
				c->entries[i].request, c->entries[i].tokens, c->entries[i].accepted,
				fence_names[c->entries[i].fence]);
		print_list(out, "counts", c->counts, c->n_counts);
		fprintf(out, " request=%d value=%" PRId64 " stream=%u flags=%u", c->request, c->value, c->stream,
			c->flags);
		print_list(out, "slots", c->list, (uint32_t)c->new_batch);
		break;
	case OP_TAKE:
		fprintf(out, " group=%" PRId64 " min=%d max=%d wait=%d flags=%u", c->value, c->list[0], c->list[1],
			c->new_batch, c->flags);
		break;
	case OP_GIVE:
		fprintf(out, " group=%" PRId64 " pages=%d from=%d wrong=%u", c->value, c->list[0], c->list[1],
			c->flags);
		for (uint32_t i = 0; i < c->n; i++)
			fprintf(out, " {stream=%d fence=%s}", c->entries[i].request, fence_names[c->entries[i].fence]);
		break;
	case OP_OFFER:
		fprintf(out, " group=%" PRId64 " pages=%d", c->value, c->list[0]);
		break;
	case OP_PRESS:
		break;
	case OP_PASS:
	case OP_WITHDRAW:
	case OP_TRIM:
		fprintf(out, " value=%" PRId64, c->value);
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
		print_list(out, "list", c->list, c->op == OP_QUERY ? 3 : c->op == OP_LIMIT ? 2 : c->n);
	}
	fputc('\n', out);
}

/* ---- scenario files -------------------------------------------------------------------- */

/* The groups of a model have one page size in a scenario, and a broker cuts halves to 16 bytes and lends whole extents.
 */
static bool exact(const struct setup *s)
{
	for (uint32_t i = 0; i < s->n_models; i++) {
		const struct ref_model *m = &s->models[i];

		for (uint32_t g = 0; g < m->n_groups; g++)
			if (m->groups[g].page_tokens != m->groups[0].page_tokens)
				return false;
	}
	return s->half % REF_GRAIN == 0 && s->half % s->extent == 0;
}

/* Heads of K and V have one size in a scenario, and groups one dtype. */
static bool has_heads(const struct ref_model *m)
{
	for (uint32_t g = 0; g < m->n_groups; g++)
		if (m->groups[g].dtype != m->groups[0].dtype || m->groups[g].k_head_dim != m->groups[g].v_head_dim)
			return false;
	return true;
}

#define WRITE_GROUPS(out, m, key, field)                                                                               \
	for (uint32_t g_ = 0; g_ < (m)->n_groups; g_++)                                                                \
	fprintf(out, "%s%u", g_ ? "," : " " key "=", (m)->groups[g_].field)

static void write_bytes(FILE *out, const struct ref_model *m)
{
	for (uint32_t v = 0; v < 2; v++)
		for (uint32_t g = 0; g < m->n_groups; g++) {
			const struct wire_group *group = &m->groups[g];

			fprintf(out, "%s%u",
				g   ? ","
				: v ? " v_bytes="
				    : " k_bytes=",
				group->kv_heads * (v ? group->v_head_dim : group->k_head_dim) *
					element_bytes(group->dtype));
		}
}

static void write_shapes(FILE *out, const struct ref_model *m)
{
	static const char *const dtypes[] = { "?", WIRE_DTYPE_NAMES }, *const forms[] = { WIRE_FORM_NAMES },
				 *const orders[] = { WIRE_ORDER_NAMES };

	WRITE_GROUPS(out, m, "layers", layers);
	if (has_heads(m)) {
		fprintf(out, " dtype=%s", dtypes[m->groups[0].dtype]);
		WRITE_GROUPS(out, m, "kv_heads", kv_heads);
		WRITE_GROUPS(out, m, "head_dim", k_head_dim);
	} else {
		write_bytes(out, m);
	}
	for (uint32_t g = 0; g < m->n_groups; g++)
		fprintf(out, "%s%s", g ? "," : " form=", forms[m->groups[g].form]);
	for (uint32_t g = 0; g < m->n_groups; g++)
		fprintf(out, "%s%s", g ? "," : " order=", orders[m->groups[g].order]);
	WRITE_GROUPS(out, m, "extra_bytes", extra_bytes);
}

static void write_model(FILE *out, uint32_t index, const struct ref_model *m)
{
	fprintf(out, "model m%u max_batch=%d max_seq=%" PRId64 " page_tokens=%u groups=", index, m->max_batch,
		m->max_seq, m->groups[0].page_tokens);
	for (uint32_t g = 0; g < m->n_groups; g++) {
		if (m->groups[g].kind == WIRE_GROUP_FULL)
			fprintf(out, "%sfull", g ? "," : "");
		else
			fprintf(out, "%s%" PRId64, g ? "," : "", m->groups[g].window);
	}
	write_shapes(out, m);
	if (m->max_advance)
		fprintf(out, " max_advance=%" PRId64, m->max_advance);
	if (m->in_flight)
		fprintf(out, " in_flight=%u", m->in_flight);
	fprintf(out, " max_rewind=%u chunk=%s\n", m->max_rewind, m->chunk_mapped ? "mapped" : "retained");
}

static void write_setup(FILE *out, const struct setup *s, const struct command *list, uint32_t n)
{
	bool used[WORLD_MODELS] = { false };

	for (uint32_t i = 0; i < n; i++)
		if (list[i].op == OP_ATTACH)
			used[(uint64_t)list[i].value % s->n_models] = true;
	if (!exact(s))
		fprintf(out, "# not quite the same pool or models: those cannot be said in this grammar\n");
	fprintf(out, "broker backend=host bytes=%" PRIu64 " extent=%" PRIu64 " min_page_bytes=%d\n", 2 * s->half,
		s->extent, REF_GRAIN);
	for (uint32_t i = 0; i < s->n_models; i++)
		if (used[i])
			write_model(out, i, &s->models[i]);
}

static const char *fence_word(uint32_t fence)
{
	return fence == FENCE_DONE ? "done" : fence == FENCE_FAILED ? "fail" : "pending";
}

static bool known(const struct world *w, const struct command *c, int32_t label)
{
	return label >= 0 && w->labels[label].session == c->session;
}

/* Counts that the entries of a step list together. */
static int64_t listed(const struct command *c)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		int64_t value = c->op == OP_STEP_PREPARE ? c->entries[i].tokens : c->entries[i].accepted;

		n += value < 0 ? -value : 0;
	}
	return n;
}

static bool sayable(const struct world *w, const struct command *c)
{
	if (c->op >= OP_TAKE || c->op == OP_MODEL || c->op == OP_QUERY || c->op == OP_TRIM || c->op == OP_LIMIT ||
	    c->op == OP_PASS)
		return false;
	if (c->op == OP_STEP_PREPARE || c->op == OP_STEP_COMPLETE)
		return c->n > 0 && c->n_counts == listed(c);
	if (c->op > OP_BEGIN && c->op <= OP_ABANDON)
		return known(w, c, c->request) && c->fence <= FENCE_FAILED;
	return true;
}

/* The statement takes a count for each sequence; a request that has ended since counts as one. */
static void write_counts(FILE *out, const struct world *w, const struct command *c, const char *key, uint32_t entry,
			 int32_t value, const int32_t **counts)
{
	const struct ref_session *s = &w->sessions[c->session];
	uint64_t handle = w->labels[c->entries[entry].request].handle;
	int32_t n = value < 0 ? -value : 1;

	for (int i = 0; i < REF_REQUESTS && value >= 0; i++)
		if (s->requests[i].live && s->requests[i].handle == handle)
			n = s->requests[i].n_seqs;
	fprintf(out, " %s=", key);
	for (int32_t i = 0; i < n; i++)
		fprintf(out, "%s%d", i ? "," : "", value < 0 ? *(*counts)++ : value);
}

static void write_steps(FILE *out, const struct world *w, const struct command *c)
{
	const int32_t *counts = c->counts;

	for (uint32_t i = 0; i < c->n; i++) {
		bool prepare = c->op == OP_STEP_PREPARE;
		int32_t value = prepare ? c->entries[i].tokens : c->entries[i].accepted;
		/* a step of one token may be said and completed as an extend, too */
		const char *call = (prepare && value == 1) ? "decode" : "extend";

		if (!known(w, c, c->entries[i].request) || c->entries[i].fence > FENCE_FAILED) {
			fprintf(out, "%s# an entry that cannot be said", i ? "\n" : "");
			counts += value < 0 ? -value : 0;
			continue;
		}
		fprintf(out, "%s%s_%s w%u r%d", i ? "\n" : "", call, prepare ? "prepare" : "complete", c->session,
			c->entries[i].request);
		if (value != (prepare ? 1 : 0))
			write_counts(out, w, c, prepare ? "tokens" : "accepted", i, value, &counts);
		if (!prepare)
			fprintf(out, " fence=%s", fence_word(c->entries[i].fence));
		if (w->entry_codes[i])
			fprintf(out, " -> error=%s", swakv_error_name(w->entry_codes[i]));
	}
}

static void write_call(FILE *out, const struct command *c)
{
	fprintf(out, "%s w%u r%d", op_names[c->op], c->session, c->request);
	if (c->op == OP_BEGIN) {
		print_list(out, "slots", c->list, c->n);
		if (c->value)
			fprintf(out, " max_tokens=%" PRId64, c->value);
		if (c->new_batch > 0)
			fprintf(out, " wait=%d", c->new_batch);
	} else if (c->op == OP_PREFILL_PREPARE) {
		print_list(out, "lens", c->list, c->n);
	} else if (c->op == OP_RESERVE) {
		fprintf(out, " max_tokens=%" PRId64, c->value);
	} else if (c->op == OP_REWIND) {
		print_list(out, "tokens", c->list, c->n);
	} else if (c->op == OP_COMPACT_BEGIN) {
		print_list(out, "map", c->list, c->n);
		fprintf(out, " new=%d%s", c->new_batch, c->flags ? " rows=move" : "");
	} else if (c->op == OP_PREFILL_COMPLETE || c->op == OP_COMPACT_COMPLETE) {
		fprintf(out, " fence=%s", fence_word(c->fence));
	}
}

static void write_command(FILE *out, const struct world *w, const struct command *c)
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
		fprintf(out, "# more work on stream %u of w%u", c->stream, c->session);
		break;
	case OP_REACH:
		fprintf(out, "signal w%u # stream %u only, and not the last %" PRId64 " values", c->session, c->stream,
			c->value);
		break;
	case OP_STEP_PREPARE:
	case OP_STEP_COMPLETE:
		write_steps(out, w, c);
		return;
	case OP_SHUTDOWN:
		fprintf(out, "shutdown w%u", c->session);
		break;
	default:
		write_call(out, c);
	}
	if (w->code)
		fprintf(out, " -> error=%s", swakv_error_name(w->code));
	if (c->op == OP_BEGIN && c->stream)
		fprintf(out, " # on stream %u", c->stream);
	if (c->op == OP_BEGIN && (c->flags & 1))
		fprintf(out, " # its steps may overlap");
}

static void expect_row(FILE *out, const struct ref_session *s, uint32_t session, uint32_t g, const struct ref_seq *q)
{
	const int32_t *device = s->slots[q->slot].lines[g].device;
	int32_t mapped = 0;

	/* a row with cleared pages that go out with the next prepare differs from the host's */
	for (int32_t c = 0; c < s->groups[g].width; c++)
		if (q->parts[g].row[c] != device[c])
			return;
	fprintf(out, "expect row w%u slot=%d group=%u mapped=", session, q->slot, g);
	for (int32_t c = 0; c < s->groups[g].width; c++)
		if (device[c] >= 0)
			fprintf(out, "%s%d", mapped++ ? "," : "", c);
	fprintf(out, "%s\n", mapped ? "" : "none");
}

/* What the model says of a sequence at the end. */
static void expect_sequence(FILE *out, const struct ref_session *s, uint32_t session, int32_t label,
			    const struct ref_request *r, int32_t seq, uint32_t g)
{
	const struct ref_seq *q = &r->seqs[seq];
	int32_t bound = ref_in_row(s, q, g);
	int64_t begin, end;

	ref_retiring_range(s, r, q, g, &begin, &end);
	for (int64_t c = begin; c < end; c++)
		bound -= q->parts[g].row[c] >= 0;
	ref_shown_range(s, r, q, g, &begin, &end);
	fprintf(out, "expect state w%u r%d seq=%d group=%u endpoint=%" PRId64 " begin=%" PRId64 " end=%" PRId64,
		session, label, seq, g, q->endpoint, begin, end);
	fprintf(out, " bound=%d reserved=%d staged=%d slot=%d", bound, q->parts[g].n_free, q->parts[g].n_staged,
		q->slot);
	if (q->pending_endpoint >= 0)
		fprintf(out, " pending=%" PRId64 "\n", q->pending_endpoint);
	else
		fprintf(out, " pending=none\n");
	expect_row(out, s, session, g, q);
}

static void write_expectations(FILE *out, struct world *w)
{
	for (int32_t i = 0; i < WORLD_COMMANDS; i++) {
		uint32_t session = w->labels[i].session;
		struct ref_request *r =
			w->labels[i].handle ? ref_find(&w->sessions[session], w->labels[i].handle) : NULL;

		for (int32_t j = 0; r && j < r->n_seqs; j++)
			for (uint32_t g = 0; g < w->sessions[session].n_groups; g++)
				if (w->sessions[session].groups[g].page_tokens ==
				    w->sessions[session].groups[0].page_tokens)
					expect_sequence(out, &w->sessions[session], session, i, r, j, g);
	}
	for (uint32_t i = 0; i < REF_SESSIONS; i++) {
		for (uint32_t g = 0; exact(&w->setup) && g < w->sessions[i].n_groups; g++) {
			const struct ref_class *c = ref_tally(&w->pool, w->sessions[i].groups[g].class_index);

			fprintf(out,
				"expect free=%" PRId64 " leased=%" PRId64 " quarantined=%" PRId64
				" model=m%u group=%u\n",
				c->available, c->n[REF_LEASED], c->n[REF_QUARANTINED], w->sides[i].model, g);
		}
	}
	fprintf(out, "expect disjoint\n");
}

void scenario_write(FILE *out, const struct setup *setup, const struct command *list, uint32_t n, const char *why)
{
	struct world *w = world_new(setup);

	fprintf(out, "# of the random test: %s\n", why);
	write_setup(out, setup, list, n);
	for (uint32_t i = 0; i < n && w; i++) {
		/* an engine that crashes here leaves what came before */
		fflush(out);
		world_run(w, &list[i]);
		if (sayable(w, &list[i])) {
			write_command(out, w, &list[i]);
			fputc('\n', out);
		} else {
			fprintf(out, "# not to be said in this grammar: ");
			command_print(out, setup, &list[i]);
		}
	}
	if (w)
		write_expectations(out, w);
}
