/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "names.h"
#include "status_page.h"

const char *text_duration(char buf[TEXT_SIZE], int64_t ms)
{
	int64_t s = ms / 1000;

	if (ms < 1000)
		snprintf(buf, TEXT_SIZE, "%" PRId64 " ms", ms);
	else if (s < 60)
		snprintf(buf, TEXT_SIZE, "%" PRId64 ".%" PRId64 " s", s, ms % 1000 / 100);
	else if (s < 3600)
		snprintf(buf, TEXT_SIZE, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(buf, TEXT_SIZE, "%" PRId64 "h%02" PRId64 "m", s / 3600, s % 3600 / 60);
	else
		snprintf(buf, TEXT_SIZE, "%" PRId64 "d%02" PRId64 "h", s / 86400, s % 86400 / 3600);
	return buf;
}

const char *text_op(uint32_t op)
{
	NAMES(names, WIRE_OP_COUNT, WIRE_OP_NAMES);

	return NAME_OF(names, op);
}

const char *text_session_state(uint32_t state)
{
	NAMES(names, STATUS_SESSION_STATE_COUNT, STATUS_SESSION_STATE_NAMES);

	return NAME_OF(names, state);
}

const char *text_event(uint32_t kind)
{
	NAMES(names, STATUS_EVENT_KIND_COUNT, STATUS_EVENT_KIND_NAMES);

	return NAME_OF(names, kind);
}

const char *text_group_kind(uint32_t kind)
{
	NAMES(names, WIRE_GROUP_KIND_COUNT, WIRE_GROUP_KIND_NAMES);

	return NAME_OF(names, kind);
}

const char *text_form(uint32_t form)
{
	NAMES(names, WIRE_FORM_COUNT, WIRE_FORM_NAMES);

	return NAME_OF(names, form);
}

const char *text_reason(char buf[TEXT_SIZE], uint32_t reason)
{
	const char *name = fault_reason_name(reason);

	if (!name) {
		snprintf(buf, TEXT_SIZE, "reason-%" PRIu32, reason);
		return buf;
	}
	snprintf(buf, TEXT_SIZE, "%s", name);
	for (char *c = buf; *c; c++)
		*c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
	return buf;
}

const char *text_stay(uint32_t stay)
{
	static const char *const names[] = { STAY_NAMES };

	_Static_assert(sizeof(names) / sizeof(names[0]) == STAY_COUNT, "a name each");
	return stay < STAY_COUNT ? names[stay] : "unknown";
}
