/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_broker.h - a broker whose every word the test chooses
 *
 * It makes the memory of one session, greets, and then answers what the test
 * tells it to. Calls with a ticket can be driven from one thread; for
 * synchronous ones fake_serve() answers on a thread of its own.
 */
#ifndef SWAKV_TESTS_FAKE_BROKER_H
#define SWAKV_TESTS_FAKE_BROKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "fault.h"
#include "ring.h"
#include "wire.h"

enum {
	FAKE_BATCH = 4,
	FAKE_WIDTH = 4, /* 64 tokens in pages of 16 */
	FAKE_PAGES = 16,
	FAKE_PAGE_BYTES = 256,
	FAKE_HALF_REST = 128, /* bytes of a half that are no page */
	FAKE_FULL_WIDTH = 2,  /* of the second group: 64 tokens in pages of 32 */
	FAKE_FULL_PAGES = 8,
	FAKE_FULL_BYTES = 512,
	FAKE_STREAMS = 2,
	FAKE_SLOTS = 64,
	FAKE_MESSAGE = 32,
};

struct fake_command {
	struct wire_command head;
	unsigned char payload[FAKE_MESSAGE * RING_SLOT];
};

/* Of a hello: or answers unread, or whether it has come or not. */
enum fake_haste { FAKE_READS, FAKE_DOES_NOT_READ, FAKE_DOES_NOT_WAIT };

struct fake {
	char dir[64];
	char path[96];
	int listener;
	int sock; /* of the attached client */
	int fds[WIRE_MAX_FDS];
	uint32_t n_fds;
	uint32_t send_fds;                 /* how many of them go with the welcome */
	size_t send_bytes;                 /* of the welcome */
	int client_pidfd;                  /* that came with the hello, -1: none */
	bool mute;                         /* accepts, and says nothing */
	uint32_t turn_away, n_turned_away; /* the first so many who connect are left without an answer */
	enum fake_haste haste;
	void (*twist)(struct fake *f); /* changes the welcome before it is sent */
	int choice;                    /* for the twist */
	struct wire_hello hello;
	struct wire_welcome welcome;
	unsigned char *memory;
	unsigned char *tables;
	unsigned char *pool;
	struct wire_line *lines;
	struct wire_wait *wait;
	int32_t *cells; /* host table */
	struct wire_row_head *rows;
	int32_t *device;      /* device table, in the pool */
	int32_t *full_device; /* of the second group */
	struct ring_consumer_spsc commands;
	struct ring_producer_spsc replies;
	pthread_t greeter;
	pthread_t server;
	bool serving;
	shm_u32 stop;
	/* how the server answers; NULL: success with an empty delivery */
	void (*serve)(struct fake *f, const struct fake_command *c);
};

/* Makes the socket and the memory. */
void fake_open(struct fake *f);
/* Before an attach: the model has a second layer group, full, with a table half as wide. */
void fake_add_group(struct fake *f);
/* Ends everything, the server too. Safe to repeat. */
void fake_close(struct fake *f);

/* Attaches a session to @f; what the options leave out is filled in. Returns the result of the attach. */
int fake_try_attach(struct fake *f, struct swakv_attach_options *o, swakv_session **s, char *why, size_t size);
/* As above; must succeed. */
swakv_session *fake_attach(struct fake *f, struct swakv_attach_options *o);
/* Serves, so that the close is answered, and closes both. */
void fake_end(struct fake *f, swakv_session *s);

/* The next command; fails the test when none comes. */
void fake_take(struct fake *f, uint16_t op, struct fake_command *c);
bool fake_has_command(struct fake *f);
/* Gives back the slots of what was taken while `hold` was set. */
void fake_answer(struct fake *f, const struct fake_command *c, uint64_t value, uint32_t n, const void *payload,
		 size_t len);
void fake_refuse(struct fake *f, const struct fake_command *c, enum fault_reason reason, int64_t got, int64_t want);
/* A delivery: @faults, @updates, @rows and @scrubs as in the wire format. */
struct fake_delivery {
	uint32_t flags;
	const struct wire_entry_fault *faults;
	uint32_t n_faults;
	const struct wire_update *updates;
	uint32_t n_updates;
	const struct wire_row *rows;
	uint32_t n_rows;
	const struct wire_scrub *scrubs;
	uint32_t n_scrubs;
};
void fake_deliver(struct fake *f, const struct fake_command *c, const struct fake_delivery *d);
/* Closes the connection, as a broker that dies does. */
void fake_die(struct fake *f);

/* Answers every command on a thread of its own until fake_close(). */
void fake_serve(struct fake *f);

/* A host row as the broker would write it, with its version. */
void fake_row(struct fake *f, uint32_t row, const int32_t k[FAKE_WIDTH], uint32_t version);

/* Begins a request of @n slots and answers it. */
swakv_request *fake_begin(struct fake *f, swakv_session *s, uint32_t stream, const int32_t *slots, uint32_t n);
/* Prepares a prefill of @r by hand, answered with @d, and collects. */
int fake_prefill(struct fake *f, swakv_session *s, swakv_request *r, const struct fake_delivery *d);

#endif
