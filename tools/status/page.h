/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the page of a broker: opened by its name or, where that means nothing here, passed by the broker itself */
#ifndef SWAKV_TOOLS_PAGE_H
#define SWAKV_TOOLS_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "admin_wire.h"
#include "ask.h"
#include "status_page.h"

struct page {
	struct status_reader reader; /* valid when `error` is 0; else as status_reader_open() leaves it */
	int error;                   /* of status_reader_open() or, of one that was passed, status_reader_adopt() */
	uint64_t now_ns;             /* CLOCK_MONOTONIC, before anything of the page was read */
	bool asked;                  /* the broker was asked for it: `answer` says how that went */
	enum ctl_exit answer;
	pid_t pid;            /* then: of the broker, 0: it is not seen from here */
	char name[WIRE_NAME]; /* then: that it goes by, "": it did not greet */
	char why[256];        /* then: why there is no page */
};

/*
 * Opens the page of @instance; where there is none of that name, or it may not be read, and its socket is there, asks
 * at that. With @socket, the path of a broker's workers' socket, it is asked there, whatever its name.
 */
void page_open(struct page *p, const char *instance, const char *socket);
/* Safe to repeat. */
void page_close(struct page *p);

#endif
