/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - worlds and commands from a seed */
#ifndef SWAKV_TEST_GENERATE_H
#define SWAKV_TEST_GENERATE_H

#include "rng.h"
#include "world.h"

/* How the commands of one world are chosen. */
struct mood {
	uint32_t late;    /* 0: completes are DONE; else one word in so many is written before it is waited for */
	uint32_t most;    /* values of a line that are left unwritten */
	uint32_t fail;    /* one completion in so many fails */
	uint32_t stop;    /* one request in so many ends in a step with which pages move, a quarter as many because that
			     fails */
	uint32_t wrong;   /* one command in so many is wrong */
	uint32_t ending;  /* one command in so many ends a request that could go on */
	uint32_t compact; /* one command in so many compacts */
	uint32_t death;   /* one command in so many ends a session */
	uint32_t extend;  /* one step in so many is an extend */
	uint32_t limit;   /* one command in so many sets limits of a model */
	uint32_t wait;    /* one begin in so many may wait */
	uint32_t rewind;  /* one command in so many takes tokens back */
	uint32_t turn;    /* one step in so many is a turn; 0: none */
	uint32_t moves;  /* one command in so many decides which extents are to come empty; 0: groups are not movable */
	uint32_t begin;  /* one command in so many begins a request beside others; 0: none does */
	uint32_t brief;  /* one begin in so many is of short sequences; 0: none */
	bool scene;      /* it goes act by act, and most of this changes with them: see struct act */
	uint32_t manage; /* one command in so many is about pages that the session manages itself; 0: none */
};

/* @moves: a world whose pages are to move often, see struct act. */
void generate_setup(struct rng *r, struct setup *setup, struct mood *mood, bool moves);
/* The next command for @w as it is now; @label names the request of a begin. */
void generate_command(struct rng *r, const struct mood *mood, struct world *w, int32_t label, struct command *c);

#endif
