/* SPDX-License-Identifier: Apache-2.0 */
#include "page_sizes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct page_size_user {
	LIST_ENTRY(page_size_user) link;
	uid_t uid;
	uint32_t n; /* uses */
	struct charge charge;
};

struct page_size {
	LIST_ENTRY(page_size) link;
	struct page_key key;
	bool kept;                        /* for a section: it never goes */
	struct page_sizes_unsaid *unsaid; /* it is one of these; NULL and not kept: common */
	LIST_HEAD(, page_size_user) users;
};

static bool is_common(const struct page_size *size)
{
	return !size->kept && !size->unsaid;
}

static struct page_size *size_find(const struct page_sizes *s, struct page_key key)
{
	struct page_size *size;

	LIST_FOREACH (size, &s->sizes, link)
		if (page_key_equal(size->key, key))
			return size;
	return NULL;
}

static struct page_size *size_new(struct page_sizes *s, struct page_key key)
{
	struct page_size *size = calloc(1, sizeof(*size));

	if (!size)
		return NULL;
	size->key = key;
	LIST_INIT(&size->users);
	LIST_INSERT_HEAD(&s->sizes, size, link);
	return size;
}

/* Goes when nobody uses it. */
static void size_drop(struct page_sizes *s, struct page_size *size)
{
	if (size->kept || !LIST_EMPTY(&size->users))
		return;
	if (size->unsaid)
		size->unsaid->n_left++;
	else
		s->n_common--;
	LIST_REMOVE(size, link);
	free(size);
}

/* A section whose layers are said. */
static int keep_said(struct page_sizes *s, const struct model *m, uint64_t half_bytes)
{
	struct geometry g[WIRE_MAX_GROUPS];

	if (model_check(m, half_bytes, g, NULL) != 0)
		return 0; /* it cannot attach as it stands there */
	for (uint32_t i = 0; i < m->n_groups && s->n_kept < ENGINE_MAX_CLASSES; i++) {
		struct page_size *size = size_find(s, geometry_key(&g[i]));

		if (size)
			continue;
		size = size_new(s, geometry_key(&g[i]));
		if (!size)
			return -ENOMEM;
		size->kept = true;
		s->n_kept++;
	}
	return 0;
}

static void keep_unsaid(struct page_sizes *s, const char *model)
{
	uint32_t n = PAGE_SIZES_UNSAID;

	if (n > ENGINE_MAX_CLASSES - s->n_kept)
		n = ENGINE_MAX_CLASSES - s->n_kept;
	s->unsaid[s->n_unsaid++] = (struct page_sizes_unsaid){ model, n };
	s->n_kept += n;
}

int page_sizes_init(struct page_sizes *s, struct ledger *l, const struct config *c, uint64_t half_bytes)
{
	int r = 0;

	*s = (struct page_sizes){ .ledger = l };
	LIST_INIT(&s->sizes);
	for (uint32_t i = 0; r == 0 && i < c->n_models; i++)
		if (!c->models[i].limits_only)
			r = keep_said(s, &c->models[i].model, half_bytes);
	for (uint32_t i = 0; r == 0 && i < c->n_models; i++)
		if (c->models[i].limits_only)
			keep_unsaid(s, c->models[i].name);
	s->max_common = ENGINE_MAX_CLASSES - s->n_kept;
	return r;
}

void page_sizes_deinit(struct page_sizes *s)
{
	struct page_size *size;

	while ((size = LIST_FIRST(&s->sizes))) {
		LIST_REMOVE(size, link);
		free(size);
	}
}

static struct page_sizes_unsaid *unsaid_of(struct page_sizes *s, const char *model)
{
	for (uint32_t i = 0; i < s->n_unsaid; i++)
		if (s->unsaid[i].n_left > 0 && !strcmp(s->unsaid[i].model, model))
			return &s->unsaid[i];
	return NULL;
}

/* Nobody uses that size yet: from what is kept for the model, or a common one. */
static enum ledger_verdict size_add(struct page_sizes *s, const char *model, struct page_key key,
				    struct page_size **out)
{
	struct page_sizes_unsaid *unsaid = unsaid_of(s, model);

	if (!unsaid && s->n_common >= s->max_common)
		return LEDGER_ALL_TAKEN;
	*out = size_new(s, key);
	if (!*out)
		return LEDGER_NO_MEMORY;
	(*out)->unsaid = unsaid;
	if (unsaid)
		unsaid->n_left--;
	else
		s->n_common++;
	return LEDGER_CHARGED;
}

static enum ledger_verdict user_get(struct page_sizes *s, struct page_size *size, uid_t uid,
				    struct page_size_user **out)
{
	enum ledger_verdict v = LEDGER_CHARGED;
	struct page_size_user *u;

	LIST_FOREACH (u, &size->users, link)
		if (u->uid == uid)
			break;
	if (!u) {
		u = calloc(1, sizeof(*u));
		if (!u)
			return LEDGER_NO_MEMORY;
		u->uid = uid;
		if (is_common(size))
			v = ledger_charge(s->ledger, uid, LEDGER_PAGE_SIZES, 1, &u->charge);
		if (v != LEDGER_CHARGED) {
			free(u);
			return v;
		}
		LIST_INSERT_HEAD(&size->users, u, link);
	}
	*out = u;
	return v;
}

enum ledger_verdict page_size_use(struct page_sizes *s, uid_t uid, const char *model, struct page_key key,
				  struct page_size_use *out)
{
	struct page_size *size = size_find(s, key);
	enum ledger_verdict v = size ? LEDGER_CHARGED : size_add(s, model, key, &size);
	struct page_size_user *u;

	*out = (struct page_size_use){ 0 };
	if (v != LEDGER_CHARGED)
		return v;
	v = user_get(s, size, uid, &u);
	if (v != LEDGER_CHARGED) {
		size_drop(s, size);
		return v;
	}
	u->n++;
	*out = (struct page_size_use){ .sizes = s, .size = size, .user = u };
	return LEDGER_CHARGED;
}

void page_size_leave(struct page_size_use *use)
{
	struct page_size_user *u = use->user;

	if (!u)
		return;
	if (--u->n == 0) {
		charge_release(&u->charge);
		LIST_REMOVE(u, link);
		free(u);
		size_drop(use->sizes, use->size);
	}
	*use = (struct page_size_use){ 0 };
}
