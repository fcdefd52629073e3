/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lifecycle.h"
#include "names.h"

static const struct {
	int32_t code;
	const char *name;
	const char *sentence;
} reasons[] = {
#define FAULT_ROW(name, code, text) { code, #name, text },
	FAULT_REASONS(FAULT_ROW)
#undef FAULT_ROW
};

static const struct {
	const char *name;
	const char *text;
} codes[] = {
	{ "ok", "success" },
	{ "denied", "not allowed for this user" },
	{ "gone", "the session or the broker has ended" },
	{ "poisoned", "a completion failed; pages are in quarantine until shutdown resolves it" },
	{ "phase", "not possible in this phase of the request" },
	{ "invalid", "an argument is wrong; nothing was changed" },
	{ "busy", "the slot or handle is in use" },
	{ "pending", "behind an open completion point; retry later" },
	{ "never", "cannot fit this pool" },
	{ "nopages", "no pages free now" },
	{ "limit", "a length limit was reached" },
	{ "nomem", "out of memory" },
	{ "system", "a system call failed" },
	{ "version", "library and broker speak different protocol versions" },
	{ "forked", "used in a child of the process that attached; attach again in the child" },
	{ "timedout", "the broker did not answer in time" },
	{ "device", "the GPU driver or a stream callback failed" },
	{ "again", "no answer yet" },
	{ "unsupported", "not supported by this build or this broker" },
};
_Static_assert(sizeof(codes) / sizeof(codes[0]) == 1 - SWAKV_EUNSUPPORTED, "a name and a text for each code");

const char *swakv_error_name(int code)
{
	size_t i = (size_t) - (int64_t)code;

	return code <= 0 && i < sizeof(codes) / sizeof(codes[0]) ? codes[i].name : "unknown";
}

const char *swakv_error_text(int code)
{
	size_t i = (size_t) - (int64_t)code;

	return code <= 0 && i < sizeof(codes) / sizeof(codes[0]) ? codes[i].text : "unknown error code";
}

const char *phase_name(int phase)
{
	NAMES(names, PHASE_COUNT, PHASE_NAMES);

	return NAME_OF(names, phase);
}

const char *transition_name(int transition)
{
	NAMES(names, TRANSITION_COUNT, TRANSITION_NAMES);

	return NAME_OF(names, transition);
}

int fault_set(struct fault *f, enum fault_reason reason, int32_t seq, int64_t got, int64_t want)
{
	if (f)
		*f = (struct fault){
			.code = reasons[reason].code, .reason = reason, .seq = seq, .got = got, .want = want
		};
	return reasons[reason].code;
}

int fault_in_flight(struct fault *f, int code, uint32_t open, uint32_t declared)
{
	if (f)
		f->more =
			(open < UINT16_MAX ? open : UINT16_MAX) << 16 | (declared < UINT16_MAX ? declared : UINT16_MAX);
	return code;
}

const char *fault_reason_name(uint32_t reason)
{
	return reason < FAULT_REASON_COUNT ? reasons[reason].name : NULL;
}

/* Writes what the conversion @c stands for in @f to @buf. */
static void fault_value(const struct fault *f, char c, char *buf, size_t size)
{
	switch (c) {
	case 's':
	case 'G':
		if (f->seq >= 0)
			snprintf(buf, size, "%s %" PRId32 ": ", c == 's' ? "sequence" : "group", f->seq);
		else
			buf[0] = '\0';
		break;
	case 'o':
		snprintf(buf, size, "%" PRIu32, f->more >> 16);
		break;
	case 'd':
		snprintf(buf, size, "%" PRIu32, f->more & UINT16_MAX);
		break;
	case 'g':
		snprintf(buf, size, "%" PRId64, f->got);
		break;
	case 'w':
		snprintf(buf, size, "%" PRId64, f->want);
		break;
	case 'u':
		snprintf(buf, size, "%" PRIu64, (uint64_t)f->got);
		break;
	case 'U':
		snprintf(buf, size, "%" PRIu64, (uint64_t)f->want);
		break;
	case 'x':
		snprintf(buf, size, "%" PRIx64, (uint64_t)f->got);
		break;
	case 'p':
		snprintf(buf, size, "%s", phase_name((int)f->got));
		break;
	case 't':
		snprintf(buf, size, "%s", transition_name((int)f->got));
		break;
	case 'a':
		snprintf(buf, size, "%s %s", strchr("aeiou", transition_name((int)f->got)[0]) ? "an" : "a",
			 transition_name((int)f->got));
		break;
	case 'T':
		snprintf(buf, size, "%s", transition_name((int)f->want));
		break;
	default:
		snprintf(buf, size, "%%%c", c);
	}
}

size_t fault_format(const struct fault *f, char *buf, size_t size)
{
	const char *text;
	size_t len = 0;
	char value[64];

	if (size == 0)
		return 0;
	/* The record may come from another version: an unknown reason still has a code. */
	text = f->reason > 0 && f->reason < FAULT_REASON_COUNT ? reasons[f->reason].sentence
							       : swakv_error_text(f->code);
	for (; *text && len + 1 < size; text++) {
		if (*text != '%' || !text[1]) {
			buf[len++] = *text;
			continue;
		}
		fault_value(f, *++text, value, sizeof(value));
		for (const char *v = value; *v && len + 1 < size; v++)
			buf[len++] = *v;
	}
	buf[len] = '\0';
	return len;
}
