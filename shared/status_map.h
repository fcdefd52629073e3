/* SPDX-License-Identifier: Apache-2.0 */
/* status_map.h - parts of the status page: the pool extent by extent, and what happened last */
#ifndef SWAKV_STATUS_MAP_H
#define SWAKV_STATUS_MAP_H

#include <stdint.h>

#include "extent.h"

enum {
	STATUS_MAX_EXTENTS = EXTENT_MOST, /* listed; those beyond are not */
	STATUS_MAX_EVENTS = 256,          /* a power of two */
	STATUS_EVENT_TEXT = 64
};
#define STATUS_NO_CLASS UINT8_MAX

enum status_extent_flag {
	STATUS_EXTENT_EMPTYING = 1, /* what lives in it is to move (spec section 13) */
	STATUS_EXTENT_CLAIMED = 2,  /* kept for a request that has waited long */
	STATUS_EXTENT_SHARED = 4,   /* of the pages that were looked at, not all were last bound by one session */
};

/* One extent of both halves. A page that lies in several is counted in each of them, as far as it is live. */
struct status_extent {
	uint32_t live;        /* pages leased or in quarantine */
	uint32_t quarantined; /* of these */
	uint32_t free;
	uint16_t session;   /* id of the one that bound pages in it last, as far as is known; 0: it is not */
	uint8_t page_class; /* index into classes, STATUS_NO_CLASS: no class has it */
	uint8_t flags;      /* enum status_extent_flag */
};

enum status_event_kind {
	STATUS_EVENT_ATTACHED = 1,
	STATUS_EVENT_CLOSED,      /* by its client */
	STATUS_EVENT_DEATH,       /* its process died, or its connection was lost */
	STATUS_EVENT_ENDED,       /* by the broker; the text says why */
	STATUS_EVENT_POISONED,    /* work of it failed */
	STATUS_EVENT_RECLAIMED,   /* proof came: its last pages are free */
	STATUS_EVENT_DRAINED,     /* by an administrator: a model, or, without a name, all */
	STATUS_EVENT_DRAIN_ENDED, /* that no longer */
	STATUS_EVENT_LIMITED,     /* by an administrator: a model's floor or ceiling; the text says which */
	STATUS_EVENT_DEVICE_LOST,
	STATUS_EVENT_KIND_COUNT
};
#define STATUS_EVENT_KIND_NAMES                                                                                        \
	"none", "attached", "closed", "death", "ended", "poisoned", "reclaimed", "drained", "drain-ended", "limited",  \
		"device-lost"

struct status_event {
	uint64_t at_ns;               /* CLOCK_MONOTONIC */
	uint32_t kind;                /* enum status_event_kind */
	uint32_t session, generation; /* 0: of no session */
	int32_t pid;
	uint32_t uid;
	uint32_t reserved;
	int64_t pages; /* that went to quarantine, or came back from there */
	char model[STATUS_EVENT_TEXT];
	char text[STATUS_EVENT_TEXT];
};

/* Event number @k, counted from 0, stands in this place of the ring. */
static inline uint32_t status_event_place(uint64_t k)
{
	return (uint32_t)(k & (STATUS_MAX_EVENTS - 1));
}
/* The first that is still there when there have been @ever. */
static inline uint64_t status_event_first(uint64_t ever)
{
	return ever > STATUS_MAX_EVENTS ? ever - STATUS_MAX_EVENTS : 0;
}

#endif
