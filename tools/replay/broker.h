/* SPDX-License-Identifier: Apache-2.0 */
/* broker.h - the private broker of one scenario, and what it shows */
#ifndef SWAKV_REPLAY_BROKER_H
#define SWAKV_REPLAY_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "private_broker.h"
#include "script.h"
#include "status_page.h"

struct broker {
	struct private_broker process;
	uint64_t half_bytes;
	struct status_reader status;
	struct status_snapshot *snapshot; /* the last one read */
};

/* What the private broker is made of follows from @s. Makes its folder. 0 or a negative errno. */
int broker_init(struct broker *b, const struct script *s);
/* True when the file has keys or limits that only the broker can judge. */
bool broker_has_keys(const struct script *s);
/* Asks the broker what it thinks of them. 0, or -EINVAL with *@e filled in. */
int broker_check_keys(struct broker *b, const struct script *s, struct script_error *e);
/* Starts it and waits until it is ready. 0, or a negative errno with a sentence in @why. */
int broker_start(struct broker *b, const struct script *s, char *why, size_t size);
/* Ends it, and removes its folder unless @keep. Safe to repeat. */
void broker_deinit(struct broker *b, bool keep);

/* Reads the current snapshot to b->snapshot. 0 or a negative errno. */
int broker_read_status(struct broker *b);
/* The class of pages like @page in b->snapshot, NULL: no session has made it yet. */
const struct status_class *broker_class(const struct broker *b, struct page_key page);
/* The session in b->snapshot, NULL: it is not there (any more). */
const struct status_session *broker_session(const struct broker *b, uint32_t id, uint32_t generation);

#endif
