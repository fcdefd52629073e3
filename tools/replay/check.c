/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - what the grammar alone cannot say
 *
 * Walks the file once as if it ran: which names are known, which workers live,
 * which are stopped. Whether a command is right at its place is the broker's to
 * say; but a statement that nobody could answer is told here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

#include "check.h"
#include "forms.h"
#include "page_shape.h"

/* Largest pool that pages= may ask for, in bytes of a half: far more than any machine has. */
#define MAX_HALF (1ull << 44)

struct name *name_find(struct names *names, const char *worker, const char *text)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->list[i].text, text) && (!worker || !strcmp(names->list[i].worker, worker)))
			return &names->list[i];
	return NULL;
}

struct name *name_put(struct names *names, const char *worker, const char *text, int line)
{
	struct name *n = name_find(names, worker, text);

	if (!n) {
		n = reallocarray(names->list, names->n + 1, sizeof(*n));
		if (!n)
			return NULL;
		names->list = n;
		n += names->n++;
	}
	*n = (struct name){ .text = text, .worker = worker, .line = line };
	return n;
}

/* Names of @worker have no meaning any more. */
static void names_forget(struct names *names, const char *worker)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->list[i].worker, worker))
			names->list[i--] = names->list[--names->n];
}

/* ---- what is not supported yet -------------------------------------------- */

static int check_supported(struct walk *w)
{
	if (w->at->kind == ST_BROKER && statement_number(w->at, KEY_BACKEND, BACKEND_HOST) == BACKEND_AUTO)
		return FAIL(w, "not supported yet: backend=%s", statement_value(w->at, KEY_BACKEND)->text);
	return 0;
}

/* ---- broker and models -------------------------------------------------------- */

static int check_broker(struct walk *w)
{
	static const char *const own[] = { "name=", "socket=", "size=", "pool=", "device=" };
	const struct value *pages = statement_value(w->at, KEY_PAGES), *bytes = statement_value(w->at, KEY_BYTES);

	if (w->at != w->script->statements)
		return FAIL(w, "a second broker: a scenario has one, in its first statement");
	if (!pages == !bytes)
		return FAIL(w, "broker needs either pages= or bytes=");
	for (size_t i = 0; i < w->at->n_extra; i++)
		for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
			if (!strncmp(w->at->extra[i], own[k], strlen(own[k])))
				return FAIL(w, "\"%s\" cannot be given: it is chosen for the private broker",
					    w->at->extra[i]);
	w->page_tokens = (uint32_t)statement_number(w->at, KEY_PAGE_TOKENS, SCRIPT_PAGE_TOKENS);
	return 0;
}

/* What list @key says of group @i: one value may stand for all. */
static int64_t of_group(const struct statement *st, enum key key, size_t i, int64_t otherwise)
{
	const struct value *v = statement_value(st, key);

	return v ? v->list[v->n == 1 ? 0 : i] : otherwise;
}

static struct page_key page_of(const struct statement *st, uint32_t page_tokens, const struct script_group *g)
{
	const struct wire_group group = { .page_tokens = page_tokens,
					  .layers = (uint32_t)g->layers,
					  .kv_heads = (uint32_t)g->kv_heads,
					  .k_head_dim = (uint32_t)g->head_dim,
					  .v_head_dim = (uint32_t)g->head_dim,
					  .dtype = (uint32_t)statement_number(st, KEY_DTYPE, 0) + 1,
					  .k_bytes = (uint32_t)g->k_bytes,
					  .v_bytes = (uint32_t)g->v_bytes,
					  .extra_bytes = (uint32_t)g->extra_bytes,
					  .align = (uint32_t)statement_number(st, KEY_ALIGN, 0),
					  .form = (uint32_t)g->form,
					  .order = (uint32_t)g->order };
	struct page_shape shape;

	return (struct page_key){ shape_find(&group, &shape) ? shape.page_bytes : 0, g->form == WIRE_JOINED };
}

static void fill_groups(struct script_model *m)
{
	const struct statement *st = m->statement;
	const struct value *groups = statement_value(st, KEY_GROUPS);

	for (size_t i = 0; i < m->n_groups; i++) {
		struct script_group *g = &m->groups[i];

		g->full = groups && groups->list[i] == VALUE_NONE;
		g->window = groups ? groups->list[i] : statement_number(st, KEY_WINDOW, 0);
		if (g->full)
			g->window = 0;
		g->layers = of_group(st, KEY_LAYERS, i, SCRIPT_LAYERS);
		g->k_bytes = of_group(st, KEY_K_BYTES, i, 0);
		g->v_bytes = of_group(st, KEY_V_BYTES, i, 0);
		g->extra_bytes = of_group(st, KEY_EXTRA_BYTES, i, 0);
		g->kv_heads = of_group(st, KEY_KV_HEADS, i, g->k_bytes ? 0 : SCRIPT_KV_HEADS);
		g->head_dim = of_group(st, KEY_HEAD_DIM, i, g->k_bytes ? 0 : SCRIPT_HEAD_DIM);
		g->form = of_group(st, KEY_FORM, i, WIRE_SPLIT);
		g->order = of_group(st, KEY_ORDER, i, WIRE_ORDER_K_V_EXTRA);
		g->page = page_of(st, m->page_tokens, g);
	}
}

static int check_model(struct walk *w)
{
	static const enum key lists[] = { KEY_LAYERS,  KEY_KV_HEADS,    KEY_HEAD_DIM, KEY_K_BYTES,
					  KEY_V_BYTES, KEY_EXTRA_BYTES, KEY_FORM,     KEY_ORDER };
	const struct value *groups = statement_value(w->at, KEY_GROUPS);
	size_t n_groups = groups ? groups->n : 1;
	struct script *s = w->script;
	struct script_model *m;

	if (!groups == !statement_value(w->at, KEY_WINDOW))
		return FAIL(w, "model needs either window= or groups=");
	if (n_groups > SCRIPT_MAX_GROUPS)
		return FAIL(w, "groups has %zu values: a model has 1 to %d layer groups", n_groups, SCRIPT_MAX_GROUPS);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct value *v = statement_value(w->at, lists[i]);

		if (v && v->n != n_groups && v->n != 1)
			return FAIL(w, "%s has %zu values for %zu layer groups", key_name(lists[i]), v->n, n_groups);
	}
	if (statement_value(w->at, KEY_CEILING) &&
	    statement_number(w->at, KEY_FLOOR, 0) > statement_number(w->at, KEY_CEILING, 0))
		return FAIL(w, "floor=%s is above ceiling=%s", statement_value(w->at, KEY_FLOOR)->text,
			    statement_value(w->at, KEY_CEILING)->text);
	if (script_model_find(s, w->at->model))
		return FAIL(w, "model %s was declared in line %d already", w->at->model,
			    script_model_find(s, w->at->model)->statement->line);
	m = &s->models[s->n_models++];
	*m = (struct script_model){ .name = w->at->model, .statement = w->at, .n_groups = n_groups };
	m->page_tokens = (uint32_t)statement_number(w->at, KEY_PAGE_TOKENS, w->page_tokens);
	fill_groups(m);
	return 0;
}

/* ---- workers ------------------------------------------------------------------ */

static int check_attach(struct walk *w)
{
	const struct script_model *m = script_model_find(w->script, statement_value(w->at, KEY_MODEL)->text);
	struct name *worker = name_find(&w->workers, NULL, w->at->worker);

	if (!m)
		return FAIL(w, "no model %s was declared above", statement_value(w->at, KEY_MODEL)->text);
	if (worker && !worker->end_line)
		return FAIL(w, "worker %s was attached in line %d already", w->at->worker, worker->line);
	worker = name_put(&w->workers, NULL, w->at->worker, w->at->line);
	if (!worker)
		return FAIL(w, "out of memory");
	worker->model = m;
	/* Its requests and pages of a life before are another session's. */
	names_forget(&w->requests, w->at->worker);
	names_forget(&w->pages, w->at->worker);
	if (w->at->error)
		worker->end_line = w->at->line;
	return 0;
}

static bool is_command(const struct statement *st)
{
	return st->kind >= ST_BEGIN && st->kind <= ST_SHUTDOWN && st->kind != ST_SIGNAL;
}

/* The worker exists, and can do what is asked of it. */
static int check_worker(struct walk *w, struct name **out)
{
	struct name *worker = name_find(&w->workers, NULL, w->at->worker);
	enum statement_kind kind = w->at->kind;

	*out = worker;
	if (!worker)
		return FAIL(w, "no worker %s was attached above", w->at->worker);
	/* A command to a session that has ended is answered: gone. */
	if (worker->end_line && !is_command(w->at) && !(kind == ST_DETACH && w->at->error))
		return FAIL(w, "worker %s has ended in line %d", w->at->worker, worker->end_line);
	if (worker->stopped && kind != ST_KILL && kind != ST_CONT)
		return FAIL(w, "worker %s is stopped since line %d: cont or kill it first", w->at->worker,
			    worker->line);
	if (!worker->stopped && kind == ST_CONT)
		return FAIL(w, "worker %s is not stopped", w->at->worker);
	return 0;
}

static void note_worker(struct walk *w, struct name *worker)
{
	switch (w->at->kind) {
	case ST_DETACH:
	case ST_KILL:
		if (!w->at->error)
			worker->end_line = w->at->line;
		worker->stopped = false;
		break;
	case ST_STOP:
		worker->stopped = true;
		worker->line = w->at->line;
		break;
	case ST_CONT:
		worker->stopped = false;
		break;
	default:
		break;
	}
}

static int check_request(struct walk *w)
{
	struct name *r = name_find(&w->requests, w->at->worker, w->at->request);

	if (w->at->kind == ST_BEGIN || w->at->kind == ST_QUEUE) {
		if (w->at->error && r)
			return 0; /* the name keeps what it means */
		if (r && !r->end_line)
			return FAIL(w, "request %s of worker %s was begun in line %d already", w->at->request,
				    w->at->worker, r->line);
		r = name_put(&w->requests, w->at->worker, w->at->request, w->at->line);
		if (!r)
			return FAIL(w, "out of memory");
		if (w->at->error)
			r->end_line = w->at->line;
		return 0;
	}
	if (!r)
		return FAIL(w, "no request %s of worker %s was begun above", w->at->request, w->at->worker);
	if (w->at->kind == ST_ADMITTED && w->at->error)
		r->end_line = w->at->line;
	/* A request whose completion failed has ended too. */
	if (!w->at->error && (w->at->kind == ST_FINISH || w->at->kind == ST_ABANDON ||
			      statement_number(w->at, KEY_FENCE, FENCE_DONE) == FENCE_FAIL))
		r->end_line = w->at->line;
	return 0;
}

/* ---- values that must fit what was declared -------------------------------------- */

static int check_place(struct walk *w, const struct script_model *m)
{
	int64_t group = statement_number(w->at, KEY_GROUP, 0);
	int64_t max_batch = statement_number(m->statement, KEY_MAX_BATCH, 0);
	const struct value *slot = w->at->kind == ST_EXPECT_STATE ? NULL : statement_value(w->at, KEY_SLOT);

	if (group >= (int64_t)m->n_groups)
		return FAIL(w, "group=%lld: model %s has %zu", (long long)group, m->name, m->n_groups);
	if (slot && (slot->number < 0 || slot->number >= max_batch))
		return FAIL(w, "slot=%lld: model %s has slots 0 to %lld", (long long)slot->number, m->name,
			    (long long)max_batch - 1);
	return 0;
}

/* Without model= the pages of all groups of all models must be alike, for then there is one class. */
static int check_one_class(struct walk *w)
{
	const struct script *s = w->script;

	for (size_t i = 0; i < s->n_models; i++)
		for (size_t g = 0; g < s->models[i].n_groups; g++) {
			const struct page_key *page = &s->models[i].groups[g].page,
					      *first = &s->models[0].groups[0].page;
			const char *what = page->bytes == first->bytes ? "form" : "size";

			if (page_key_equal(*page, *first))
				continue;
			if (i == 0)
				return FAIL(w,
					    "the groups of model %s have pages of different %s: say model= and group=",
					    s->models[0].name, what);
			return FAIL(w, "models %s and %s have pages of different %s: say model=", s->models[0].name,
				    s->models[i].name, what);
		}
	return 0;
}

static int check_counts(struct walk *w)
{
	const struct value *name = statement_value(w->at, KEY_MODEL);
	const struct script *s = w->script;

	if (name) {
		const struct script_model *m = script_model_find(s, name->text);

		return m ? check_place(w, m) : FAIL(w, "no model %s was declared above", name->text);
	}
	if (statement_value(w->at, KEY_GROUP))
		return FAIL(w, "group= needs model=");
	if (s->n_models == 0)
		return FAIL(w, "no model was declared above: there is no page to count");
	return check_one_class(w);
}

static int check_label(struct walk *w)
{
	const struct value *as = statement_value(w->at, KEY_AS);

	if (w->at->kind == ST_REMEMBER)
		return name_put(&w->labels, NULL, w->at->label, w->at->line) ? 0 : FAIL(w, "out of memory");
	if (as && !name_find(&w->labels, NULL, as->text))
		return FAIL(w, "nothing was remembered as %s above", as->text);
	return 0;
}

/* Pages that a worker has taken, or waits for, stand under a name for as long as it lives. */
static int check_pages(struct walk *w)
{
	switch (w->at->kind) {
	case ST_TAKE:
	case ST_QUEUE_TAKE:
		return name_put(&w->pages, w->at->worker, w->at->label, w->at->line) ? 0 : FAIL(w, "out of memory");
	case ST_TAKEN:
	case ST_GIVE:
	case ST_EXPECT_TAKEN:
		if (!name_find(&w->pages, w->at->worker, w->at->label))
			return FAIL(w, "no pages %s of worker %s were taken above", w->at->label, w->at->worker);
		return 0;
	default:
		return 0;
	}
}

static int check_statement(struct walk *w)
{
	struct name *worker = NULL;
	int r = check_supported(w);

	if (r)
		return r;
	if (w->at == w->script->statements && w->at->kind != ST_BROKER)
		return FAIL(w, "the first statement must be broker");
	if (w->at->kind == ST_PREFILL && statement_number(w->at, KEY_FENCE, FENCE_DONE) != FENCE_DONE)
		return FAIL(w, "fence=%s: prefill takes done only; use prefill_prepare and prefill_complete",
			    statement_value(w->at, KEY_FENCE)->text);
	switch (w->at->kind) {
	case ST_BROKER:
		return check_broker(w);
	case ST_MODEL:
		return check_model(w);
	case ST_ATTACH:
		return check_attach(w);
	case ST_EXPECT_COUNTS:
		return check_counts(w);
	case ST_EXPECT_DISJOINT:
		return 0;
	default:
		break;
	}
	if ((r = check_worker(w, &worker)) || (w->at->request && (r = check_request(w))) ||
	    (w->at->kind == ST_TURN && (r = check_turn(w))) || (r = check_place(w, worker->model)) ||
	    (r = check_label(w)) || (r = check_pages(w)))
		return r;
	note_worker(w, worker);
	return 0;
}

static int check_pool(struct walk *w)
{
	const struct script *s = w->script;
	int64_t pages;

	w->at = s->statements;
	pages = statement_number(w->at, KEY_PAGES, 0);
	if (pages == 0)
		return 0;
	if (s->n_models == 0)
		return FAIL(w, "pages=%lld: no model follows that says how large a page is", (long long)pages);
	if (s->models[0].groups[0].page.bytes == 0 || s->models[0].groups[0].page.bytes > MAX_HALF / (uint64_t)pages)
		return FAIL(w, "pages=%lld: pages of model %s cannot make up a pool", (long long)pages,
			    s->models[0].name);
	return 0;
}

int script_check(struct script *s, struct script_error *e)
{
	struct walk w = { .script = s, .error = e };
	int r = 0;

	if (s->n_statements == 0)
		return script_fail(e, 1, "the file has no statement: the first must be broker");
	s->n_models = 0;
	s->models = calloc(s->n_statements, sizeof(*s->models)); /* at most so many: they must not move */
	if (!s->models)
		return script_fail(e, 1, "out of memory");
	for (size_t i = 0; i < s->n_statements && r == 0; i++) {
		w.at = &s->statements[i];
		r = check_statement(&w);
	}
	if (r == 0)
		r = check_pool(&w);
	free(w.workers.list);
	free(w.requests.list);
	free(w.labels.list);
	free(w.pages.list);
	return r;
}

const struct script_model *script_model_find(const struct script *s, const char *name)
{
	for (size_t i = 0; i < s->n_models; i++)
		if (!strcmp(s->models[i].name, name))
			return &s->models[i];
	return NULL;
}
