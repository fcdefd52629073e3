/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle.h - phases and transitions of a request (spec section 3), as they travel and are shown */
#ifndef SWAKV_LIFECYCLE_H
#define SWAKV_LIFECYCLE_H

enum phase {
	PHASE_NONE,      /* no such request (any more) */
	PHASE_ADMITTED,  /* begun, nothing prefilled */
	PHASE_EXECUTING, /* prefilled: decodes and compactions may follow */
	PHASE_FINISHING, /* only finish or abandon are left */
	PHASE_COUNT
};
#define PHASE_NAMES "none", "admitted", "executing", "finishing"

/* What lies between a prepare and its complete: at most one a request. */
enum transition {
	TRANSITION_NONE,
	TRANSITION_PREFILL,
	TRANSITION_STEP,
	TRANSITION_COMPACT,
	TRANSITION_EXTEND, /* a step that is not one token for every sequence */
	TRANSITION_COUNT
};
#define TRANSITION_NAMES "none", "prefill", "decode", "compaction", "extend"

/* "admitted", ...; "unknown" outside the list. Static. */
const char *phase_name(int phase);
/* "none", "prefill", "decode", "compaction", "extend"; "unknown" outside the list. Static. */
const char *transition_name(int transition);

#endif
