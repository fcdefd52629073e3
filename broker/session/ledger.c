/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

struct account {
	LIST_ENTRY(account) link;
	uid_t uid;
	uint32_t n_charges;
	uint64_t used[LEDGER_N_ITEMS];
};

void ledger_init(struct ledger *l)
{
	memset(l, 0, sizeof(*l));
	LIST_INIT(&l->accounts);
}

static struct account *account_find(const struct ledger *l, uid_t uid)
{
	struct account *a;

	LIST_FOREACH (a, &l->accounts, link)
		if (a->uid == uid)
			return a;
	return NULL;
}

static struct account *account_get(struct ledger *l, uid_t uid)
{
	struct account *a = account_find(l, uid);

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->uid = uid;
	LIST_INSERT_HEAD(&l->accounts, a, link);
	return a;
}

static void account_drop(struct account *a)
{
	if (a->n_charges > 0)
		return;
	LIST_REMOVE(a, link);
	free(a);
}

enum ledger_verdict ledger_charge(struct ledger *l, uid_t uid, enum ledger_item item, uint64_t amount,
				  struct charge *out)
{
	const struct ledger_limit *limit = &l->limits[item];
	struct account *a;

	*out = (struct charge){ 0 };
	if (amount > limit->all || l->used[item] > limit->all - amount)
		return LEDGER_ALL_TAKEN;
	if (amount > limit->one || ledger_of(l, uid, item) > limit->one - amount)
		return LEDGER_SHARE_TAKEN;
	a = account_get(l, uid);
	if (!a)
		return LEDGER_NO_MEMORY;
	a->n_charges++;
	a->used[item] += amount;
	l->used[item] += amount;
	*out = (struct charge){ .ledger = l, .account = a, .item = item, .amount = amount };
	return LEDGER_CHARGED;
}

void charge_release(struct charge *c)
{
	if (!c->ledger)
		return;
	c->ledger->used[c->item] -= c->amount;
	c->account->used[c->item] -= c->amount;
	c->account->n_charges--;
	account_drop(c->account);
	*c = (struct charge){ 0 };
}

uint64_t ledger_of(const struct ledger *l, uid_t uid, enum ledger_item item)
{
	const struct account *a = account_find(l, uid);

	return a ? a->used[item] : 0;
}
