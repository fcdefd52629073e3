/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - answers HTTP clients, of whatever kind, in one thread */
#ifndef SWAKV_EXPORTER_SERVER_H
#define SWAKV_EXPORTER_SERVER_H

#include <stdbool.h>

#include "answers.h"

struct server;

struct server_options {
	unsigned int connections; /* at a time, at most: who comes then takes the place of the oldest */
	bool local;               /* only requests that name this machine are answered */
};

/* Serves on @listener, which becomes its own, also when it fails. NULL: with errno. @a is borrowed. */
struct server *server_new(int listener, struct answers *a, const struct server_options *o);
/* NULL is ignored. Returns NULL. */
struct server *server_free(struct server *s);
/* Becomes readable when server_turn() has something to do; so does time, in at most server_patience() ms (-1: none). */
int server_descriptor(const struct server *s);
int server_patience(struct server *s);
void server_turn(struct server *s);

#endif
