/* SPDX-License-Identifier: Apache-2.0 */
/* stay.h - why an extent does not come empty for those who lack pages (spec section 13) */
#ifndef SWAKV_STAY_H
#define SWAKV_STAY_H

/* What the first page in it says that must stay, or what is lacking for all of them. */
enum stay {
	STAY_NOT,
	STAY_FIXED,       /* it is of a group that is not movable, or nobody knows whose it is */
	STAY_MANAGED,     /* its session manages it, and is not asked for any */
	STAY_UNORDERED,   /* its request is on a stream without order, or its session is poisoned */
	STAY_PINNED,      /* its request is pinned */
	STAY_NO_COPY,     /* its request began on a stream that has no operation to copy with */
	STAY_IDLE,        /* its request does not step */
	STAY_QUARANTINED, /* some are in quarantine */
	STAY_NO_ROOM,     /* there is no other place for them */
	STAY_UNSEEN,      /* there were too many to look at, or they are being given out */
	STAY_COUNT
};
#define STAY_NAMES                                                                                                     \
	"-", "not-movable", "managed", "unordered", "pinned", "no-copy", "idle", "quarantined", "no-room", "not-seen"

#endif
