/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - who has how much of what there is only so much of
 *
 * A user is charged by a value, which whoever was given the thing keeps beside
 * it, and which un-charges itself when it is released: nothing is counted
 * anywhere else. Control thread only.
 */
#ifndef SWAKV_BROKER_LEDGER_H
#define SWAKV_BROKER_LEDGER_H

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum ledger_item {
	LEDGER_HALF_OPEN,  /* connections that have not said hello */
	LEDGER_SESSIONS,   /* whose pages are not back */
	LEDGER_LINGERING,  /* whose pages are back, and that leave a connection or a mapping */
	LEDGER_TABLES,     /* bytes of the table area */
	LEDGER_PAGE_SIZES, /* that no [model] section keeps */
	LEDGER_ADMINS,     /* connections of administrators */
	LEDGER_N_ITEMS
};

struct ledger_limit {
	uint64_t all; /* of all users together */
	uint64_t one; /* of each */
};

struct account; /* one user's part */

struct ledger {
	struct ledger_limit limits[LEDGER_N_ITEMS]; /* the owner's to set */
	uint64_t used[LEDGER_N_ITEMS];
	LIST_HEAD(account_list, account) accounts; /* of those who have anything */
};

/* So much of an item, of one user. All zero: nothing. */
struct charge {
	struct ledger *ledger;
	struct account *account;
	enum ledger_item item;
	uint64_t amount;
};

enum ledger_verdict {
	LEDGER_CHARGED,
	LEDGER_ALL_TAKEN,   /* there is no more for anybody */
	LEDGER_SHARE_TAKEN, /* there is no more for this user */
	LEDGER_NO_MEMORY,
};

void ledger_init(struct ledger *l);
/* Charges @uid with @amount more of @item: *@out, which is not to be moved to another ledger; all zero otherwise. */
enum ledger_verdict ledger_charge(struct ledger *l, uid_t uid, enum ledger_item item, uint64_t amount,
				  struct charge *out);
/* Un-charges and zeroes it. Safe to repeat. */
void charge_release(struct charge *c);
/* What @uid is charged with of @item. */
uint64_t ledger_of(const struct ledger *l, uid_t uid, enum ledger_item item);

#endif
